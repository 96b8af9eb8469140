"""The cache of upstream files: fetched once, verified before it is served, never altered or in part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from metawheel.serve import cache as cache_module
from tests.fakes.pages import Answer, PageServer
from tests.fakes.pypi import FakePyPI
from tests.serve.running import HTML, Client, serving
from tests.serve.sites import TORCH, Upstream, torch, write_site

PATH = f"/whl/cpu/{TORCH}"
PAGE = "/simple/torch/"


class World:
    """A site whose torch lies on an upstream that can misbehave, and a cache."""

    def __init__(self, folder: Path, upstream: PageServer) -> None:
        self.folder, self.upstream = folder / "site", upstream
        self.cache = folder / "cache"
        self.torch = torch(upstream.url, padding=100_000)
        self.data = self.torch.built.data
        write_site(self.folder, [self.torch])
        upstream.serve(PATH, Answer(body=self.data, ranges=True))

    @contextmanager
    def serving(self, **settings: Any) -> Iterator[Client]:
        with serving(self.folder, cache=self.cache, **settings) as client:
            yield client

    def links(self, found: Upstream) -> None:
        write_site(self.folder, [found])

    def url(self, client: Client, page: str = PAGE, name: str = TORCH) -> str:
        return str(client.base_url.join(page).join(client.listing(page)[name]["url"]))

    def kept(self) -> list[Path]:
        """Files in the cache, but for its lock."""
        return sorted(path for path in self.cache.rglob("*") if path.is_file() and path.name != "lock")

    def fetches(self) -> int:
        return len(self.upstream.asked(PATH))


@pytest.fixture
def world(tmp_path: Path, upstream: PageServer) -> World:
    return World(tmp_path, upstream)


@pytest.mark.parametrize("page", [PAGE, "/cu128/simple/torch/"])
def test_links_lead_to_our_own_path_which_names_the_sha256(world: World, page: str) -> None:
    with world.serving() as client:
        link = client.listing(page)[TORCH]
        assert link["url"].startswith(f"../../cache/torch/{world.torch.built.sha256}/torch-2.9.1%2Bcpu")
        assert link["hashes"] == {"sha256": world.torch.built.sha256}
        for url in (world.url(client, page), world.url(client, page).replace("%2B", "+")):
            answer = client.get(url)
            assert (answer.status_code, answer.content) == (200, world.data)
        html = client.page(page, HTML).text
        assert f'href="{link["url"]}#sha256={world.torch.built.sha256}"' in html
        assert world.upstream.url not in html
    assert world.fetches() == 1


def test_our_own_wheels_stay_where_they_are(world: World) -> None:
    with world.serving() as client:
        links = client.listing("/simple/torch-cpu/")
        assert {link["url"].rpartition("/")[0] for link in links.values()} == {"../../files"}


def test_a_file_is_fetched_once_and_kept_over_a_restart(world: World) -> None:
    with world.serving() as client:
        url = world.url(client)
        first = client.get(url)
        assert client.get(url).content == world.data
        assert client.head(url).headers["content-length"] == str(len(world.data))
        again = client.get(url, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert first.headers["cache-control"] == "max-age=31536000, immutable"
    world.upstream.serve(PATH, Answer(status=500))
    with world.serving() as client:
        assert client.get(urlsplit(url).path).content == world.data
    assert world.fetches() == 1


@pytest.mark.parametrize(
    ("asked", "part"), [("bytes=0-9", slice(10)), ("bytes=-7", slice(-7, None)), ("bytes=50-", slice(50, None))]
)
def test_a_range_is_served_of_the_whole_verified_file(world: World, asked: str, part: slice) -> None:
    with world.serving() as client:
        answer = client.get(world.url(client), headers={"Range": asked})
        assert (answer.status_code, answer.content) == (206, world.data[part])
        past = client.get(world.url(client), headers={"Range": f"bytes={len(world.data)}-"})
        assert past.status_code == 416
    assert world.fetches() == 1


def test_clients_that_want_one_file_at_once_cause_one_fetch(world: World) -> None:
    world.upstream.serve(PATH, Answer(body=world.data))
    hold = threading.Event()
    take = world.upstream.next_answer
    world.upstream.next_answer = lambda request: (hold.wait(20), take(request))[1]  # type: ignore[method-assign]
    with world.serving() as client, ThreadPoolExecutor(8) as pool:
        url = world.url(client)
        waiting = [pool.submit(client.get, url) for _ in range(8)]
        while client.metric("metawheel_cache_total", result="miss") < 8:
            pass
        hold.set()
        assert [item.result().content == world.data for item in waiting] == [True] * 8
    assert world.fetches() == 1


def test_a_fetch_goes_on_when_the_client_has_left(world: World) -> None:
    hold = threading.Event()
    take = world.upstream.next_answer
    world.upstream.next_answer = lambda request: (hold.wait(20), take(request))[1]  # type: ignore[method-assign]
    with world.serving() as client:
        url = world.url(client)
        with ThreadPoolExecutor(1) as pool, Client(base_url=client.base_url, timeout=0.2) as hasty:
            assert pool.submit(hasty.get, url).exception() is not None
        hold.set()
        assert client.get(url).content == world.data
    assert world.fetches() == 1


def bad_answers(data: bytes) -> dict[str, tuple[Answer, int, str]]:
    return {
        "altered": (Answer(body=data[:-1] + b"!"), 502, "sha256"),
        "truncated": (Answer(body=data[:-10], declared=len(data)), 502, "broke off"),
        "short": (Answer(body=data[:-10]), 502, "bytes"),
        "long": (Answer(body=data + b"x"), 502, "sends more than"),
        "endless": (Answer(body=data, endless=50), 502, "sends more than"),
        "gone": (Answer(status=404), 404, "answered 404"),
        "error": (Answer(status=503), 502, "answered 503"),
        "encoded": (Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}), 502, "broke off"),
    }


@pytest.mark.parametrize("kind", bad_answers(b""))
@pytest.mark.parametrize("sized", [True, False])
def test_an_altered_or_truncated_file_is_neither_served_nor_kept(world: World, kind: str, sized: bool) -> None:
    world.links(replace(world.torch, size=len(world.data) if sized else None))
    answer, status, reason = bad_answers(world.data)[kind]
    world.upstream.serve(PATH, answer, answer, Answer(body=world.data))
    with world.serving() as client:
        url = world.url(client)
        for headers in ({}, {"Range": "bytes=0-9"}):
            refused = client.get(url, headers=headers)
            assert refused.status_code == status
            assert sized is False or reason in refused.text
            assert world.torch.url in refused.text
            assert refused.headers["content-type"] == "text/plain; charset=utf-8"
            assert world.kept() == []
        assert client.get(url).content == world.data  # upstream has come to its senses


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: data[:100] + b"!" + data[101:]])
@pytest.mark.parametrize("restarted", [True, False])
def test_what_has_changed_on_the_disk_is_fetched_again(
    world: World, damage: Callable[[bytes], bytes], restarted: bool
) -> None:
    place = world.cache / world.torch.built.sha256[:2] / world.torch.built.sha256
    with world.serving() as client:
        client.get(world.url(client))
        place.chmod(0o644)
        place.write_bytes(damage(world.data))
        if not restarted:
            assert client.get(world.url(client)).content == world.data
    if restarted:
        with world.serving() as client, ThreadPoolExecutor(8) as pool:
            found = [pool.submit(client.get, world.url(client)) for _ in range(8)]
            assert [item.result().content == world.data for item in found] == [True] * 8
    assert world.fetches() == 2
    assert place.read_bytes() == world.data


def test_what_has_not_changed_on_the_disk_is_read_once_for_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.serving() as client:
        client.get(world.url(client))
    with world.serving() as client:
        url = world.url(client)
        assert client.get(url).content == world.data
        monkeypatch.delattr(cache_module, "sha256_of")
        assert client.get(url).content == world.data
    assert world.fetches() == 1


def test_an_upstream_that_says_nothing_is_504(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "DEADLINE", 0.3)
    world.upstream.serve(PATH, Answer(hangs=True))
    with world.serving() as client:
        answer = client.get(world.url(client))
        assert (answer.status_code, world.torch.url in answer.text) == (504, True)
        assert client.page("/simple/torch-cpu/").status_code == 200
    assert world.kept() == []


@pytest.mark.parametrize("path", ["evil-1.0-py3-none-any.whl", f"{TORCH}.asc", "..", "..%2f..%2fx"])
def test_only_what_a_page_lists_is_fetched(world: World, path: str) -> None:
    with world.serving() as client:
        for project in ("torch", "torch-cpu", "nobody", "..%2f.."):
            for sha256 in (world.torch.built.sha256, "0" * 64, "..", "A" * 64):
                assert client.get(f"/cache/{project}/{sha256}/{path}").status_code == 404
    assert world.fetches() == 0


def test_our_own_wheels_are_not_in_the_cache(world: World) -> None:
    with world.serving() as client:
        for name, file in client.listing("/simple/torch-cpu/").items():
            assert client.get(f"/cache/torch-cpu/{file['hashes']['sha256']}/{name}").status_code == 404


def test_a_password_for_the_fallback_is_sent_for_its_files_and_to_no_other_host(world: World, pypi: FakePyPI) -> None:
    built = pypi.add("other", "1.0")
    with world.serving(fallback=pypi.simple.replace("//", "//me:secret@")) as client:
        assert client.get(world.url(client, "/simple/other/", "other-1.0-py3-none-any.whl")).content == built.data
        assert client.get(world.url(client)).content == world.data
    assert {hit.headers["authorization"] for hit in pypi.log.hits()} == {"Basic bWU6c2VjcmV0"}
    assert all("authorization" not in request.headers for request in world.upstream.requests)


def test_hits_misses_and_failures_are_counted(world: World) -> None:
    world.upstream.serve(PATH, Answer(status=500), Answer(body=world.data))
    with world.serving() as client:
        url = world.url(client)
        assert [client.get(url).status_code for _ in range(4)] == [502, 200, 200, 200]
        counted = {
            result: client.metric("metawheel_cache_total", result=result) for result in ("hit", "miss", "failed")
        }
        assert counted == {"hit": 2, "miss": 2, "failed": 1}
        assert client.metric("metawheel_cache_fetched_bytes_total") == len(world.data)


def test_files_of_the_fallback_are_kept_as_well(world: World, pypi: FakePyPI) -> None:
    built = pypi.add("other", "1.0")
    with world.serving(fallback=pypi.simple) as client:
        (link,) = client.listing("/simple/other/").values()
        url = client.base_url.join("/simple/other/").join(link["url"])
        for _ in range(2):
            assert client.get(url).content == built.data
            assert client.get(f"{url}.metadata").content == built.metadata
        assert link["core-metadata"] == {"sha256": built.metadata_sha256}
    assert pypi.log.count("wheel") == 1


class TestMetadata:
    """`.metadata` is there for every wheel, and costs no download of it."""

    def ask(self, world: World, client: Client) -> bytes:
        answer = client.get(f"{world.url(client)}.metadata")
        assert answer.status_code == 200, answer.text
        return answer.content

    def test_upstreams_own_is_passed_on_if_it_has_the_stated_sha256(self, world: World) -> None:
        world.links(replace(world.torch, metadata=world.torch.built.metadata_sha256))
        world.upstream.serve(f"{PATH}.metadata", Answer(body=b"altered"), Answer(body=world.torch.built.metadata))
        with world.serving() as client:
            refused = client.get(f"{world.url(client)}.metadata")
            assert (refused.status_code, "sha256" in refused.text) == (502, True)
            for _ in range(2):
                assert self.ask(world, client) == world.torch.built.metadata
        assert len(world.upstream.asked(f"{PATH}.metadata")) == 2
        assert world.fetches() == 0

    def test_without_it_a_few_ranges_of_the_wheel_are_read(self, world: World) -> None:
        with world.serving() as client:
            assert client.listing(PAGE)[TORCH]["core-metadata"] is True
            assert self.ask(world, client) == world.torch.built.metadata
        assert all("range" in request.headers for request in world.upstream.asked(PATH))

    def test_without_ranges_the_wheel_is_fetched_once_for_both(self, world: World) -> None:
        world.upstream.serve(PATH, Answer(body=world.data))
        with world.serving() as client:
            assert self.ask(world, client) == world.torch.built.metadata
            asked = world.fetches()
            assert client.get(world.url(client)).content == world.data
        assert world.fetches() == asked

    def test_of_a_wheel_that_is_kept_it_is_read_from_there(self, world: World) -> None:
        world.links(replace(world.torch, metadata="true"))
        with world.serving() as client:
            client.get(world.url(client))
            assert self.ask(world, client) == world.torch.built.metadata
        assert world.upstream.asked(f"{PATH}.metadata") == []

    def test_what_upstream_said_gives_way_to_what_the_verified_wheel_says(self, world: World) -> None:
        world.links(replace(world.torch, metadata="true"))
        world.upstream.serve(f"{PATH}.metadata", Answer(body=b"anything"))
        with world.serving() as client:
            assert self.ask(world, client) == b"anything"
            client.get(world.url(client))
            assert self.ask(world, client) == world.torch.built.metadata

    def test_it_needs_no_room_for_the_wheel(self, world: World) -> None:
        world.links(replace(world.torch, size=2**60))
        with world.serving() as client:
            assert self.ask(world, client) == world.torch.built.metadata

    @pytest.mark.parametrize("ranges", [True, False])
    def test_what_is_no_wheel_has_none(self, world: World, ranges: bool) -> None:
        data = b"junk" * 100
        world.links(replace(world.torch, built=replace(world.torch.built, data=data), size=len(data)))
        world.upstream.serve(PATH, Answer(body=data, ranges=ranges))
        with world.serving() as client:
            answer = client.get(f"{world.url(client)}.metadata")
            assert (answer.status_code, "no wheel" in answer.text) == (502, True)


def test_what_would_fill_the_disk_is_not_begun(world: World) -> None:
    world.links(replace(world.torch, size=2**60))
    with world.serving() as client:
        answer = client.get(world.url(client))
        assert answer.status_code == 507
    assert world.fetches() == 0


def test_a_link_in_the_cache_leads_nowhere(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    sha256 = world.torch.built.sha256
    (world.cache / sha256[:2]).mkdir(parents=True)
    (world.cache / sha256[:2] / sha256).symlink_to(secret)
    with world.serving() as client:
        assert client.get(world.url(client)).content == world.data
    assert secret.read_bytes() == b"secret"


def test_what_a_killed_server_left_is_removed_and_the_folder_is_one_servers(world: World) -> None:
    (world.cache / "tmp").mkdir(parents=True)
    (world.cache / "tmp" / "part").write_bytes(b"half")
    with world.serving() as client:
        client.get(world.url(client))
        (kept,) = world.kept()
        assert kept.name == world.torch.built.sha256
        assert kept.stat().st_mode & 0o222 == 0


def test_without_a_cache_there_is_no_such_path(world: World) -> None:
    with serving(world.folder) as client:
        assert client.listing(PAGE)[TORCH]["url"] == world.torch.url
        assert client.get(f"/cache/torch/{world.torch.built.sha256}/{TORCH}").status_code == 404
    assert world.fetches() == 0
