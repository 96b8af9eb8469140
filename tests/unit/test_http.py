"""Fetching: bounded in time, in tries and in bytes; conditional; mirrored; resumable."""

from __future__ import annotations

import hashlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from metawheel.errors import MetawheelError, OutputError, Unparsable, Unreachable
from metawheel.upstream.download import downloaded
from metawheel.upstream.http import Fetcher
from metawheel.upstream.mirrors import Mirror
from metawheel.upstream.pages import parse_page
from metawheel.upstream.sources import pypi_page
from tests.fakes.pages import CANONICAL, Answer, PageServer

Make = Callable[..., Fetcher]
WHEEL = bytes(range(256)) * 4096  # 1 MiB


# CacheControl leaves its temporary file of a response that broke off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture
def fetcher(tmp_path: Path) -> Make:
    def make(
        *mirrors: str, timeout: tuple[float, float] = (2.0, 2.0), retries: int = 0, limit: int = 1 << 20
    ) -> Fetcher:
        found = [Mirror.parse(mirror) for mirror in mirrors]
        return Fetcher(found, cache=tmp_path / "cache", timeout=timeout, retries=retries, body_limit=limit)

    return make


def hashed(fetcher: Fetcher, url: str) -> tuple[str, int]:
    with downloaded(fetcher, url, lambda done, total: None) as path:
        return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size


def test_a_server_that_never_answers_is_given_up(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(hangs=True))
    with pytest.raises(Unreachable) as caught:
        fetcher(timeout=(0.2, 0.2)).page(server.url + "p")
    assert server.url + "p" in str(caught.value)
    assert "timed out" in str(caught.value)


def test_a_server_that_stops_in_the_middle_is_given_up(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"<html>", declared=100))
    with pytest.raises(Unreachable):
        fetcher(timeout=(0.2, 0.2)).page(server.url + "p")


def test_a_refused_connection_is_named(fetcher: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/p"
    with pytest.raises(Unreachable) as caught:
        fetcher().page(url)
    assert url in str(caught.value)
    assert "refused" in str(caught.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(server: PageServer, fetcher: Make, status: int) -> None:
    server.serve("/p", Answer(status=status), Answer(body=b"now it works"))
    assert fetcher(retries=1).page(server.url + "p").content == b"now it works"


def test_a_lasting_failure_is_given_up_after_a_bounded_number_of_requests(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(status=503))
    with pytest.raises(Unreachable, match="503"):
        fetcher(retries=2).page(server.url + "p")
    assert len(server.asked("/p")) == 3


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_not_tried_again(server: PageServer, fetcher: Make, status: int) -> None:
    server.serve("/p", Answer(status=status))
    with pytest.raises(Unreachable, match=str(status)):
        fetcher(retries=3).page(server.url + "p")
    assert len(server.asked("/p")) == 1


def test_a_server_cannot_make_a_sync_wait_for_hours(
    server: PageServer, fetcher: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    server.serve("/p", Answer(status=503, headers={"Retry-After": "7200"}))
    with pytest.raises(Unreachable):
        fetcher(retries=1).page(server.url + "p")
    assert sum(waited) <= 120


# Where no length was told, what was broken off looks whole.
@pytest.mark.parametrize("answer", [Answer(drips=True, declared=200_000), Answer(drips=True, endless=1)])
def test_a_byte_now_and_then_does_not_put_the_deadline_off(
    server: PageServer, fetcher: Make, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr("metawheel.upstream.http.DEADLINE", 0.3)
    server.serve("/p", answer)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(fetcher().page, server.url + "p")
        try:
            with pytest.raises(Unreachable, match=r"not there as a whole after 0\.3 s"):
                found.result(timeout=30)
        finally:
            server.released.set()


def test_no_page_leaves_a_thread_behind(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"the page"))
    fetcher().page(server.url + "p")
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


@pytest.mark.parametrize("location", ["http://[::1", "/\xff", "http://.example.org/"])
def test_a_redirect_that_is_no_address_is_an_unreachable_page(server: PageServer, fetcher: Make, location: str) -> None:
    server.serve("/p", Answer(status=302, headers={"Location": location}))
    for get in (Fetcher.page, hashed):
        with pytest.raises(Unreachable, match=f"{server.url}p"):
            get(fetcher(), server.url + "p")


def test_a_date_that_is_none_is_an_unreachable_page(
    server: PageServer, fetcher: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda _: "soon")
    server.serve("/p", Answer(body=b"the page", etag='"one"'))
    with pytest.raises(Unreachable, match="cannot be read: its headers are odd"):
        fetcher().page(server.url + "p")


def test_links_of_a_page_that_moved_resolve_against_where_it_is(server: PageServer, fetcher: Make) -> None:
    server.serve("/old/torch", Answer(status=301, headers={"Location": "/new/torch/"}))
    server.serve("/new/torch/", Answer(body=b'<a href="torch-2.0-py3-none-any.whl">x</a>'))
    (file,) = parse_page(fetcher().page(server.url + "old/torch"), "up").files
    assert file.url == server.url + "new/torch/torch-2.0-py3-none-any.whl"


@pytest.mark.parametrize("answer", [Answer(body=b"x" * 300), Answer(body=b"x" * 100, endless=1000)])
def test_a_page_over_the_limit_is_refused_with_and_without_its_length(
    server: PageServer, fetcher: Make, answer: Answer
) -> None:
    server.serve("/p", answer)
    with pytest.raises(Unparsable) as caught:
        fetcher(limit=200).page(server.url + "p")
    assert server.url + "p" in str(caught.value)
    assert "200 bytes" in str(caught.value)


def test_the_limit_holds_for_a_folder_too(tmp_path: Path, fetcher: Make) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "index.html").write_bytes(b"x" * 300)
    with pytest.raises(Unparsable, match="200 bytes"):
        fetcher(f"{CANONICAL}={tmp_path}", limit=200).page(CANONICAL + "torch/")


def test_a_body_shorter_than_announced_is_no_page(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b'<a href="torch-1.0-py3-none-any.whl">x</a>\n', declared=5000))
    with pytest.raises(Unreachable, match="no complete answer"):
        fetcher().page(server.url + "p")


def test_a_later_run_asks_only_whether_the_page_changed(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"the page", etag='"one"'))
    assert fetcher().page(server.url + "p") == fetcher().page(server.url + "p")
    first, second = server.asked("/p")
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == '"one"'


def test_a_later_run_sees_that_the_page_changed(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"old", etag='"one"', headers={"Cache-Control": "max-age=86400"}))
    fetcher().page(server.url + "p")
    server.serve("/p", Answer(body=b"new", etag='"two"'))
    assert fetcher().page(server.url + "p").content == b"new"


def test_a_page_cut_short_is_not_kept_for_later(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"par", declared=8, etag='"one"'), Answer(body=b"the page", etag='"one"'))
    with pytest.raises(Unreachable):
        fetcher().page(server.url + "p")
    assert fetcher().page(server.url + "p").content == b"the page"


def test_a_page_is_fetched_once_however_many_threads_ask(server: PageServer, fetcher: Make) -> None:
    server.serve("/p", Answer(body=b"the page"))
    server.serve("/missing", Answer(status=404))
    shared, together = fetcher(), threading.Barrier(8)

    def ask(path: str) -> str:
        together.wait()
        try:
            return shared.page(server.url + path).content.decode()
        except Unreachable:
            return "unreachable"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, ["p", "missing"] * 4))
    assert answers == ["the page", "unreachable"] * 4
    assert len(server.asked("/p")) == len(server.asked("/missing")) == 1


def test_a_mirrored_page_keeps_its_canonical_address(server: PageServer, fetcher: Make) -> None:
    server.serve("/copy/torch/", Answer(body=b'<a href="../cpu/torch-2.0-py3-none-any.whl">x</a>'))
    page = fetcher(f"{CANONICAL}={server.url}copy").page(CANONICAL + "torch/")
    (file,) = parse_page(page, "up").files
    assert file.url == CANONICAL + "cpu/torch-2.0-py3-none-any.whl"


def test_a_folder_stands_in_for_an_index_and_json_comes_first(tmp_path: Path, fetcher: Make) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "index.html").write_bytes(b"html")
    (tmp_path / "flat.html").write_bytes(b"flat")
    made = [fetcher(f"{CANONICAL}={tmp_path}") for _ in range(2)]
    assert made[0].page(CANONICAL + "torch/").content == b"html"
    assert made[0].page(CANONICAL + "flat.html").content == b"flat"
    (tmp_path / "torch" / "index.json").write_bytes(b"json")
    assert made[1].page(CANONICAL + "torch/").content == b"json"
    assert "json" in made[1].page(CANONICAL + "torch/").content_type
    with pytest.raises(Unreachable, match=CANONICAL):
        made[1].page(CANONICAL + "torchvision/")


def test_pypi_is_an_alias_for_its_index(server: PageServer, fetcher: Make) -> None:
    server.serve("/simple/jaxlib/", Answer(body=b"here"))
    assert fetcher(f"pypi={server.url}simple").page(pypi_page("jaxlib")).content == b"here"


@pytest.mark.parametrize("text", ["", "=", "pypi", "pypi=", "=folder"])
def test_a_mirror_that_is_not_from_and_to_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="FROM=TO"):
        Mirror.parse(text)


@pytest.mark.parametrize("ranges", [True, False], ids=["server resumes", "server starts again"])
def test_a_download_that_broke_off_goes_on_and_hashes_right(server: PageServer, fetcher: Make, ranges: bool) -> None:
    whole = Answer(body=WHEEL, ranges=ranges, etag='"one"')
    server.serve("/w.whl", Answer(body=WHEEL[:600_000], declared=len(WHEEL), etag='"one"'), whole)
    with pytest.raises(Unreachable, match=r"w\.whl"):
        hashed(fetcher(), server.url + "w.whl")
    assert hashed(fetcher(), server.url + "w.whl") == (hashlib.sha256(WHEEL).hexdigest(), len(WHEEL))
    asked_from = server.asked("/w.whl")[-1].headers["range"].removeprefix("bytes=").rstrip("-")
    assert 0 < int(asked_from) <= 600_000


def test_a_finished_download_leaves_nothing_behind(server: PageServer, fetcher: Make, tmp_path: Path) -> None:
    server.serve("/w.whl", Answer(body=WHEEL))
    for _ in range(2):
        assert hashed(fetcher(), server.url + "w.whl")[1] == len(WHEEL)
    assert "range" not in server.asked("/w.whl")[-1].headers
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size >= len(WHEEL)]


def test_a_download_is_not_copied_into_the_temporary_folder(
    server: PageServer, fetcher: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    server.serve("/w.whl", Answer(body=WHEEL))
    sizes: list[int] = []

    def measure(_done: int, _total: int | None) -> None:
        sizes.append(sum(path.stat().st_size for path in temporary.iterdir()))

    with downloaded(fetcher(), server.url + "w.whl", measure):
        assert max(sizes) < len(WHEEL) // 4


def test_a_part_that_is_already_the_whole_is_not_fetched_for_ever(server: PageServer, fetcher: Make) -> None:
    whole = Answer(body=WHEEL, ranges=True, etag='"one"')
    server.serve("/w.whl", replace(whole, declared=len(WHEEL) + 1), whole)
    with pytest.raises(Unreachable):
        hashed(fetcher(), server.url + "w.whl")
    assert hashed(fetcher(), server.url + "w.whl")[0] == hashlib.sha256(WHEEL).hexdigest()


@pytest.mark.parametrize("etags", [('"one"', '"two"'), (None, None), (None, '"two"'), ('"one"', None)])
def test_a_file_that_was_replaced_between_two_runs_is_not_hashed_half_and_half(
    server: PageServer, fetcher: Make, etags: tuple[str | None, str | None]
) -> None:
    other = WHEEL[::-1]
    server.serve("/w.whl", Answer(body=WHEEL[:600_000], declared=len(WHEEL), etag=etags[0]))
    with pytest.raises(Unreachable):
        hashed(fetcher(), server.url + "w.whl")
    server.serve("/w.whl", Answer(body=other, ranges=True, etag=etags[1]))
    assert hashed(fetcher(), server.url + "w.whl")[0] == hashlib.sha256(other).hexdigest()


# None of these servers knows If-Range, so that the rest may be that of another file.
@pytest.mark.parametrize(
    ("begins", "said", "etag", "content"),
    [
        (262144, "bytes 262144-1048575/1048576", '"two"', WHEEL[::-1]),
        (0, "bytes 0-1048575/1048576", '"one"', WHEEL),
        (262144, "bytes 262144-1048575/*", '"one"', WHEEL),
        (262144, "", '"one"', WHEEL),
    ],
    ids=["another file", "from its start", "of no length", "of no range"],
)
def test_only_the_rest_of_the_same_file_is_put_to_what_is_here(
    server: PageServer, fetcher: Make, begins: int, said: str, etag: str, content: bytes
) -> None:
    server.serve("/w.whl", Answer(body=WHEEL[:262144], declared=len(WHEEL), etag='"one"'))
    with pytest.raises(Unreachable):
        hashed(fetcher(), server.url + "w.whl")
    rest = Answer(body=content[begins:], status=206, headers={"Content-Range": said}, etag=etag)
    server.serve("/w.whl", rest, Answer(body=content))
    assert hashed(fetcher(), server.url + "w.whl") == (hashlib.sha256(content).hexdigest(), len(content))


def test_a_rest_that_is_cut_short_is_gone_on_with_later(server: PageServer, fetcher: Make) -> None:
    whole = Answer(body=WHEEL, ranges=True, etag='"one"')
    said = {"Content-Range": f"bytes 262144-524287/{len(WHEEL)}"}
    part = Answer(body=WHEEL[262144:524288], status=206, headers=said, etag='"one"')
    server.serve("/w.whl", Answer(body=WHEEL[:262144], declared=len(WHEEL), etag='"one"'), part, whole)
    for _ in range(2):
        with pytest.raises(Unreachable, match="run it again to go on"):
            hashed(fetcher(), server.url + "w.whl")
    assert hashed(fetcher(), server.url + "w.whl")[0] == hashlib.sha256(WHEEL).hexdigest()
    assert server.asked("/w.whl")[-1].headers["range"] == "bytes=524288-"


def test_two_runs_that_download_one_file_do_not_write_into_one_part(server: PageServer, fetcher: Make) -> None:
    server.serve("/w.whl", Answer(body=WHEEL, ranges=True, etag='"one"'))
    url = server.url + "w.whl"

    def meanwhile(_done: int, _total: int | None) -> None:
        with pytest.raises(OutputError, match="another metawheel"):
            hashed(fetcher(), url)

    with downloaded(fetcher(), url, meanwhile) as path:
        assert path.read_bytes() == WHEEL


def test_a_server_that_knows_no_range_at_all_is_unreachable(server: PageServer, fetcher: Make) -> None:
    server.serve("/w.whl", Answer(body=b"part", declared=9, etag='"one"'), Answer(status=416))
    with pytest.raises(Unreachable):
        hashed(fetcher(), server.url + "w.whl")
    with pytest.raises(Unreachable, match=r"w\.whl"):
        hashed(fetcher(), server.url + "w.whl")


@pytest.mark.parametrize("status", [403, 404])
def test_a_file_that_is_refused_is_unreachable(server: PageServer, fetcher: Make, status: int) -> None:
    server.serve("/w.whl", Answer(status=status))
    with pytest.raises(Unreachable, match=str(status)):
        hashed(fetcher(), server.url + "w.whl")


def test_a_folder_mirror_serves_files_too(tmp_path: Path, fetcher: Make) -> None:
    (tmp_path / "torch-2.0+cpu-py3-none-any.whl").write_bytes(WHEEL)
    found = hashed(fetcher(f"{CANONICAL}={tmp_path}"), CANONICAL + "torch-2.0%2Bcpu-py3-none-any.whl")
    assert found == (hashlib.sha256(WHEEL).hexdigest(), len(WHEEL))


def test_a_file_that_a_folder_mirror_lacks_is_unreachable(tmp_path: Path, fetcher: Make) -> None:
    with pytest.raises(MetawheelError) as caught:
        hashed(fetcher(f"{CANONICAL}={tmp_path}"), CANONICAL + "torch-2.0-py3-none-any.whl")
    assert not isinstance(caught.value, OutputError)
    assert CANONICAL in str(caught.value)
