"""Nothing outside the site and the cache can be read, whatever a request says, and requests have limits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from metawheel.serve import limits, server
from metawheel.site import MANIFEST
from tests.serve.running import Client, serving
from tests.serve.sites import WRAPPERS, write_site

SECRET = b"kept to itself"
WHEEL = WRAPPERS[-1]


def exchange(client: Client, request: bytes, *, until_closed: bool = True) -> bytes:
    """What the server answers to raw bytes."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
            if not until_closed:
                break
        return answer


def get(client: Client, target: bytes) -> tuple[int, bytes]:
    """Status and answer for a request target that is sent as it is."""
    answer = exchange(client, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return int(answer.split(b" ", 2)[1]), answer


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A server with a site and a cache, and secrets beside them, in them and behind links in them."""
    folder = write_site(tmp_path / "site")
    cache = tmp_path / "cache"
    for place in (
        tmp_path / "secret",
        folder / "secret",
        folder / "simple" / "secret",
        folder / "files" / "secret.whl",
    ):
        place.write_bytes(SECRET)
    cache.mkdir()
    (cache / "secret").write_bytes(SECRET)
    for link in (folder / "files" / "link.whl", folder / "simple" / "link", cache / "link"):
        link.symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "files" / WHEEL).unlink()
    (folder / "files" / WHEEL).symlink_to(tmp_path / "secret")
    with serving(folder, cache=cache) as running:
        yield running


ROOTS = (b"/", b"/files/", b"/simple/", b"/simple/torch/", b"/cache/", b"/cache/torch/", b"/cu128/simple/", b"/-/")
CLIMBS = (
    *(b"secret", b"secret.whl", b"link", b"link.whl", b"up/secret", b"../secret", b"../../secret", b"../cache/secret"),
    *(b"..%2fsecret", b"%2e%2e/secret", b"%2e%2e%2fsecret", b"%252e%252e%252fsecret", b"..%5csecret", b"..\\secret"),
    *(
        b"....//secret",
        b"..;/secret",
        b"secret%00",
        b"secret%00.whl",
        b"%00secret",
        b"./secret",
        b"/secret",
        b"//secret",
    ),
    *(b"%2fsecret", b"..%c0%afsecret", b"%u002e%u002e/secret", b"secret/", b"secret?x", b"secret%23", b"%2e/secret"),
)


@pytest.mark.parametrize("root", ROOTS)
def test_no_spelling_of_a_path_leads_out(client: Client, tmp_path: Path, root: bytes) -> None:
    absolute = str(tmp_path / "secret").encode()
    for climb in (*CLIMBS, absolute, absolute.replace(b"/", b"%2f"), b"file://" + absolute):
        status, answer = get(client, root + climb)
        assert SECRET not in answer, climb
        assert status in {301, 400, 404}, climb
    for whole in (b"file://" + absolute, b"http://127.0.0.1:9/" + absolute, b"*"):
        status, answer = get(client, whole)
        assert SECRET not in answer
        assert status in {301, 400, 404}, whole


def test_a_link_in_place_of_a_file_is_damage(client: Client) -> None:
    answer = client.get(f"/files/{WHEEL}")
    assert answer.status_code == 500
    assert SECRET not in answer.content


def test_the_manifest_is_served_for_detect_and_install(client: Client) -> None:
    """It tells them every version of every wrapper; pages alone tell the newest."""
    answer = client.get(f"/{MANIFEST}")
    assert answer.status_code == 200
    assert answer.json()["wheels"]


def test_a_request_with_a_body_is_refused_and_its_connection_closed(client: Client) -> None:
    for more in (b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"):
        answer = exchange(client, b"GET /simple/ HTTP/1.1\r\nHost: x\r\n" + more)
        assert answer.startswith(b"HTTP/1.1 413 ")
    assert exchange(client, b"POST /simple/ HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n").startswith(
        b"HTTP/1.1 413 "
    )


def test_a_head_that_is_too_large_is_refused(client: Client) -> None:
    line = b"X-More: " + b"x" * 8000 + b"\r\n"
    complete = exchange(client, b"GET /simple/ HTTP/1.1\r\nHost: x\r\n" + line * 5 + b"\r\n")
    assert complete.startswith(b"HTTP/1.1 431 ")
    unfinished = exchange(client, b"GET /simple/ HTTP/1.1\r\nHost: x\r\n" + line * 5)
    assert unfinished.startswith(b"HTTP/1.1 431 ")
    path = exchange(client, b"GET /" + b"a" * 40_000)
    assert path.startswith(b"HTTP/1.1 431 ")
    assert client.get("/simple/", headers={"X-More": "x" * 8000}).status_code == 200


def test_a_head_that_does_not_come_is_not_waited_for(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEAD_TIME", 0.2)
    whole = b"GET /-/health HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(site) as client:
        for begun in (b"", b"GET /simple/ HTTP/1.1\r\nHost: x\r\nX-A"):
            assert exchange(client, begun).startswith(b"HTTP/1.1 408 ")
        second = exchange(client, whole + b"GET /simple/ HT")
        assert second.count(b"HTTP/1.1 200 ") == 1
        assert b"HTTP/1.1 408 " in second
        assert client.page("/simple/torch/").status_code == 200


def test_what_is_no_http_is_400(client: Client) -> None:
    assert exchange(client, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_requests_that_are_sent_ahead_are_all_answered(client: Client) -> None:
    ask = b"GET /simple/torch/ HTTP/1.1\r\nHost: x\r\n%b\r\n"
    answer = exchange(client, ask % b"" * 200 + ask % b"Connection: close\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 201


def test_more_connections_than_the_limit_are_answered_503(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 5)
    with serving(site) as client:
        held = [socket.create_connection((client.base_url.host, client.base_url.port or 80)) for _ in range(8)]
        try:
            for connection in held:
                connection.sendall(b"GET /simple/ HTTP/1.1\r\nHost: x\r\n\r\n")
            answers = [connection.recv(65536)[9:12] for connection in held]
        finally:
            for connection in held:
                connection.close()
        assert set(answers) <= {b"200", b"503"}
        assert b"503" in answers
