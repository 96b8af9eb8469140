"""Names that are ours are looked up nowhere else; all others are, whatever the other index does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from metawheel.serve import fallback
from tests.fakes.pages import Answer, PageServer
from tests.fakes.pypi import FakePyPI
from tests.serve.running import HTML, JSON, Client, serving
from tests.serve.sites import TORCH

OURS = ("torch", "torch-cpu", "torch-cu128")


@contextmanager
def behind(site: Path, index: FakePyPI | PageServer, **settings: Any) -> Iterator[Client]:
    url = index.simple if isinstance(index, FakePyPI) else f"{index.url}simple/"
    with serving(site, fallback=url, **settings) as client:
        yield client


def page(*files: dict[str, object], **more: object) -> Answer:
    """A project page in JSON."""
    data = {"meta": {"api-version": "1.1"}, "name": "other", "versions": ["1.0"], "files": files, **more}
    return Answer(body=json.dumps(data).encode(), content_type=JSON)


def file(name: str = "other-1.0-py3-none-any.whl", **more: object) -> dict[str, object]:
    return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": "a" * 64}, "size": 1, **more}


@pytest.mark.parametrize("as_json", [True, False])
def test_other_names_fall_through_in_both_forms(site: Path, as_json: bool) -> None:
    with FakePyPI(as_json=as_json) as pypi:
        built = pypi.add("Other_Name", "1.0", requires_python=">=3.8")
        pypi.add("Other_Name", "0.9", yanked="broken & <b>bad</b>")
        with behind(site, pypi) as client:
            files = client.listing("/simple/other-name/")
            found = files["Other_Name-1.0-py3-none-any.whl"]
            assert found["url"].startswith(pypi.url)
            assert found["hashes"] == {"sha256": built.sha256}
            assert found["core-metadata"] == {"sha256": built.metadata_sha256}
            assert found["requires-python"] == ">=3.8"
            assert [entry["yanked"] for entry in files.values() if entry["yanked"]] == ["broken & <b>bad</b>"]
            html = client.page("/simple/other-name/", HTML).text
            assert 'data-yanked="broken &amp; &lt;b&gt;bad&lt;/b&gt;"' in html
            assert f"#sha256={built.sha256}" in html
            assert client.listing("/cu128/simple/other-name/") == files


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("path", ["/simple/{}/", "/cu128/simple/{}/", "/cu129/simple/{}/", "/simple/{}"])
def test_our_names_are_never_looked_up_elsewhere(site: Path, pypi: FakePyPI, name: str, path: str) -> None:
    pypi.add(name, "99.0")
    with behind(site, pypi) as client:
        for accept in (JSON, HTML, "text/html"):
            assert b"99.0" not in client.page(path.format(name), accept).content
        spelled = name.replace("-", "_").upper()
        assert b"99.0" not in client.get(path.format(spelled), follow_redirects=True).content
    assert pypi.log.hits() == ()


@pytest.mark.parametrize("form", ["index.html", "index.json"])
@pytest.mark.parametrize("damage", ["missing", "altered", "folder", "empty"])
def test_a_damaged_page_of_ours_is_500_and_not_a_strangers(site: Path, pypi: FakePyPI, form: str, damage: str) -> None:
    pypi.add("torch-cpu", "99.0")
    place = site / "simple" / "torch-cpu" / form
    place.unlink()
    if damage == "altered":
        place.write_bytes(b"<!DOCTYPE html>")
    elif damage == "empty":
        place.touch()
    elif damage == "folder":
        place.mkdir()
    with behind(site, pypi) as client:
        for accept in (JSON, "text/html"):
            answer = client.page("/simple/torch-cpu/", accept)
            assert (answer.status_code, "metawheel build" in answer.text) == (500, True)
        assert client.page("/simple/torch/").status_code == 200
        assert client.get("/-/health").json()["broken"] == 1
    assert pypi.log.hits() == ()


def test_a_name_that_only_another_view_has_is_404(site: Path, pypi: FakePyPI) -> None:
    pypi.add("torch-cpu", "99.0")
    with behind(site, pypi) as client:
        answer = client.page("/cu128/simple/torch-cpu/")
    assert (answer.status_code, "torch-cpu" in answer.text) == (404, True)
    assert pypi.log.hits() == ()


def test_a_name_that_nobody_has_is_404_and_asked_for_once(site: Path, pypi: FakePyPI) -> None:
    with behind(site, pypi) as client:
        for _ in range(3):
            answer = client.page("/simple/nobody-knows/")
            assert (answer.status_code, pypi.simple in answer.text) == (404, True)
    assert pypi.log.count() == 1


@pytest.mark.parametrize(
    "name", ["..", "..%2f..%2fadmin", "a%2fb", "a%3fx=1", "a%00", "a%0a", "%20", "-a", "a.", "é", "a%5cb"]
)
def test_what_is_no_name_is_asked_for_nowhere(site: Path, pypi: FakePyPI, name: str) -> None:
    with behind(site, pypi) as client:
        assert client.get(f"/simple/{name}/", follow_redirects=True).status_code == 404
    assert pypi.log.hits() == ()


def test_an_escaped_plus_in_an_address_stays_as_it_is(site: Path, upstream: PageServer) -> None:
    name = "other-1.0+local-py3-none-any.whl"
    upstream.serve("/simple/other/", page({**file(name), "url": "/files/other-1.0%2Blocal-py3-none-any.whl"}))
    with behind(site, upstream) as client:
        found = client.listing("/simple/other/")[name]
        assert found["url"] == f"{upstream.url}files/other-1.0%2Blocal-py3-none-any.whl"
        assert f'href="{found["url"]}#sha256=' in client.page("/simple/other/", HTML).text


def test_hostile_text_stays_text(site: Path, upstream: PageServer) -> None:
    script = "<script>alert(1)</script>"
    bad = file(f'x"{script}.whl', url=f'/f/"{script}.whl', yanked=script, hashes={"sha256": f'"{script}', "md5": "ab"})
    bad["requires-python"] = f'"{script}'
    upstream.serve(
        "/simple/other/",
        page(bad, file("j.whl", url="javascript:alert(1)"), file("d.whl", url="data:x,y"), file("e\x1b[2J.whl")),
    )
    with behind(site, upstream) as client:
        answer = client.page("/simple/other/", HTML)
        assert "<script" not in answer.text
        (link,) = BeautifulSoup(answer.text, "html.parser")("a")
        assert set(link.attrs) == {"href", "data-requires-python", "data-yanked"}
        assert "javascript:" not in answer.text
        assert "data:x" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert [item["hashes"] for item in client.listing("/simple/other/").values()] == [{"md5": "ab"}]


def test_a_name_on_a_link_counts_for_nothing(site: Path, upstream: PageServer) -> None:
    html = b'<!DOCTYPE html><html><body><a href="../../f/other-1.0-py3-none-any.whl">cuda/other</a></body></html>'
    upstream.serve("/simple/other/", Answer(body=html))
    with behind(site, upstream) as client:
        found = client.listing("/simple/other/")["other-1.0-py3-none-any.whl"]
    assert found["url"] == f"{upstream.url}f/other-1.0-py3-none-any.whl"


HTML_PAGE = b"<html><body><a href='http://[bad/other-0.tar.gz'>x</a><a href='other-1.tar.gz'>y</a></body></html>"
UNREADABLE = file("other-0.tar.gz", url="http://[bad/other-0.tar.gz")


@pytest.mark.parametrize(
    "answer",
    [Answer(body=HTML_PAGE, content_type="Text/HTML"), page(UNREADABLE, file("other-1.tar.gz", size=-1))],
    ids=["html", "json"],
)
def test_a_link_that_cannot_be_read_is_left_out(site: Path, upstream: PageServer, answer: Answer) -> None:
    upstream.serve("/simple/other/", answer)
    with behind(site, upstream) as client:
        (found,) = client.listing("/simple/other/").values()
    assert (found["filename"], found.get("size")) == ("other-1.tar.gz", None)


BAD = {
    "error": (Answer(status=500), 502, "answered 500"),
    "busy": (Answer(status=429), 502, "answered 429"),
    "no JSON": (Answer(body=b"{", content_type=JSON), 502, "no page of a simple repository"),
    "no page": (Answer(body=b"[]", content_type=JSON), 502, "no page of a simple repository"),
    "version 2": (page(meta={"api-version": "2.0"}), 502, "no page of a simple repository"),
    "picture": (Answer(body=b"x", content_type="image/png"), 502, "image/png"),
    "truncated": (Answer(body=b"{", content_type=JSON, declared=99), 502, "no usable answer"),
    "hangs": (Answer(hangs=True), 504, "gave no answer in"),
    "drips": (Answer(drips=True, declared=10**6), 504, "gave no answer in"),
    "endless": (Answer(body=b"x" * 2**20, endless=80), 502, "is larger than"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_fallback_that_fails_is_said_so_and_ours_are_served(site: Path, upstream: PageServer, kind: str) -> None:
    bad, status, reason = BAD[kind]
    upstream.serve("/simple/other/", bad)
    with behind(site, upstream, timeout=2.0 if kind == "endless" else 0.5) as client:
        answer = client.page("/simple/other/")
        assert (answer.status_code, reason in answer.text) == (status, True), answer.text
        assert f"{upstream.url}simple/other/" in answer.text
        assert client.page("/simple/torch-cpu/").status_code == 200


def test_a_fallback_that_is_not_there_is_502(site: Path) -> None:
    with serving(site, fallback="http://127.0.0.1:9/simple/") as client:
        answer = client.page("/simple/other/")
        assert (answer.status_code, "http://127.0.0.1:9/simple/other/" in answer.text) == (502, True)
        assert "retry-after" not in answer.headers  # clients would wait that long for each try
        assert client.page("/simple/torch/").status_code == 200


def test_no_number_of_requests_that_wait_for_the_fallback_holds_up_ours(
    site: Path, upstream: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "WAITING", 20)
    for number in range(40):
        upstream.serve(f"/simple/other-{number}/", Answer(hangs=True))
    with behind(site, upstream, timeout=20.0) as client, ThreadPoolExecutor(40) as pool:
        waiting = [pool.submit(client.page, f"/simple/other-{number}/") for number in range(40)]
        turned_away = 0
        while turned_away < 20:
            done = [item.result() for item in waiting if item.done()]
            assert {answer.status_code for answer in done} <= {503}
            turned_away = len(done)
            time.sleep(0.01)
        # The fallback still holds twenty; it lets go only after these.
        for _ in range(50):
            assert client.listing("/simple/torch/").keys() == {TORCH}
        assert sum(item.done() for item in waiting) == 20
        upstream.released.set()
        answers = [item.result() for item in waiting]
        assert sorted(answer.status_code for answer in answers) == [502] * 20 + [503] * 20
        assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)


def test_clients_that_want_one_page_at_once_cause_one_request(site: Path, pypi: FakePyPI) -> None:
    pypi.add("other", "1.0")
    hold = threading.Event()
    answer = pypi.answer
    pypi.answer = lambda path, headers: (hold.wait(20), answer(path, headers))[1]  # type: ignore[method-assign]
    with behind(site, pypi) as client, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(client.page, "/simple/other/") for _ in range(8)]
        while client.metric("metawheel_requests_total", kind="other", status="200") < 2:
            pass
        hold.set()
        assert {item.result().status_code for item in waiting} == {200}
        client.page("/simple/other/")
    assert pypi.log.count() == 1


def test_a_page_is_asked_for_again_when_it_is_old_and_only_whether_it_changed(
    site: Path, upstream: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "FRESH", 0.0)
    first = Answer(body=page(file()).body, content_type=JSON, etag='"one"')
    second = Answer(body=page(file(), file("other-1.1-py3-none-any.whl")).body, content_type=JSON, etag='"two"')
    upstream.serve("/simple/other/", first, first, second)
    with behind(site, upstream) as client:
        answers = [client.page("/simple/other/") for _ in range(3)]
    assert [len(answer.json()["files"]) for answer in answers] == [1, 1, 2]
    assert answers[0].headers["etag"] == answers[1].headers["etag"] != answers[2].headers["etag"]
    asked = [request.headers.get("if-none-match") for request in upstream.asked("/simple/other/")]
    assert asked == [None, '"one"', '"one"']


def test_a_validator_that_is_not_ascii_is_not_sent_back(
    site: Path, upstream: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "FRESH", 0.0)
    upstream.serve("/simple/other/", Answer(body=HTML_PAGE, headers={"ETag": '"\xe9"'}))
    with behind(site, upstream) as client:
        assert [client.page("/simple/other/").status_code for _ in range(2)] == [200, 200]
    assert all("if-none-match" not in request.headers for request in upstream.asked("/simple/other/"))


def test_what_is_kept_of_the_fallback_is_bounded(
    site: Path, upstream: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "KEPT_PAGES", 2)
    for name in "abc":
        upstream.serve(f"/simple/{name}/", page(file()))
    with behind(site, upstream) as client:
        for name in "abcca":
            assert client.page(f"/simple/{name}/").status_code == 200
    assert [len(upstream.asked(f"/simple/{name}/")) for name in "abc"] == [2, 1, 1]


def test_a_password_for_the_fallback_is_sent_there_and_shown_to_nobody(site: Path, upstream: PageServer) -> None:
    upstream.serve("/simple/other/", page(file()))
    upstream.serve("/simple/bad/", Answer(status=500))
    with serving(site, fallback=upstream.url.replace("//", "//me:secret@") + "simple") as client:
        assert client.listing("/simple/other/")["other-1.0-py3-none-any.whl"]["url"].startswith(f"{upstream.url}files/")
        for name in ("bad", "none", "other"):
            assert "secret" not in client.page(f"/simple/{name}/").text
    assert upstream.asked("/simple/other/")[0].headers["authorization"].startswith("Basic ")
