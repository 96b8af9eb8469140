"""`metawheel serve` as it is typed: what it prints, how it refuses, how it stops."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from metawheel.cli.serve import fallback_of, serve_text, url_of
from metawheel.serve.app import Settings
from tests.fakes.pages import Answer, PageServer, metawheel
from tests.serve.running import command
from tests.serve.sites import TORCH, torch, write_site

PATH = f"/whl/cpu/{TORCH}"


def refused(tmp_path: Path, *arguments: str | Path) -> tuple[int, str]:
    ran = metawheel("serve", *arguments, cache=tmp_path / "c")
    assert ran.out == ""
    assert "Traceback" not in ran.err
    return ran.code, " ".join(ran.err.replace("│", " ").split())


def test_it_says_where_it_serves_what_and_serves_it(site: Path, tmp_path: Path) -> None:
    with command(site, tmp_path / "c", "--fallback", "none", "--cache", str(tmp_path / "cache")) as running:
        assert running.said == {
            "site": str(site),
            "url": running.url,
            "index": f"{running.url}simple/",
            "fallback": None,
            "cache": str(tmp_path / "cache"),
        }
        assert httpx.get(f"{running.index}torch/").status_code == 200
        assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_gracefully_and_lets_a_running_download_end(tmp_path: Path, upstream: PageServer, number: int) -> None:
    file = torch(upstream.url, padding=3_000_000)
    site = write_site(tmp_path / "site", [file])
    hold = threading.Event()
    take = upstream.next_answer
    upstream.next_answer = lambda request: (hold.wait(20), take(request))[1]  # type: ignore[method-assign]
    upstream.serve(PATH, Answer(body=file.built.data))
    got: list[httpx.Response] = []
    options = ("--fallback", "none", "--cache", str(tmp_path / "cache"))
    with command(site, tmp_path / "c", *options) as running:
        url = f"{running.url}cache/torch/{file.built.sha256}/{TORCH}"
        client = threading.Thread(target=lambda: got.append(httpx.get(url, timeout=30)))
        client.start()
        while not httpx.get(f"{running.url}-/metrics").text.count("metawheel_cache_fetching 1.0"):
            pass
        running.process.send_signal(number)
        while _listens(running.url):
            pass
        hold.set()
        client.join()
        assert running.process.wait(30) == 0
    assert got[0].content == file.built.data


def _listens(url: str) -> bool:
    parts = httpx.URL(url)
    try:
        socket.create_connection((parts.host, parts.port or 80), timeout=5).close()
    except OSError:
        return False
    return True


def test_it_waits_for_a_hanging_request_no_longer_than_it_was_told(tmp_path: Path, upstream: PageServer) -> None:
    file = torch(upstream.url)
    site = write_site(tmp_path / "site", [file])
    upstream.serve(PATH, Answer(hangs=True))
    got: list[httpx.Response] = []
    cache = tmp_path / "cache"
    with command(site, tmp_path / "c", "--fallback", "none", "--cache", str(cache), "--grace", "1") as running:
        url = f"{running.url}cache/torch/{file.built.sha256}/{TORCH}"
        client = threading.Thread(target=lambda: got.append(httpx.get(url, timeout=30)))
        client.start()
        while not upstream.asked(PATH):
            pass
        assert running.stop() == 0
        client.join()
    assert (got[0].status_code, got[0].text) == (503, "the server is stopping\n")
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["lock"]


def test_a_full_disk_is_507_with_a_sentence_and_the_next_try_works(tmp_path: Path, upstream: PageServer) -> None:
    file = torch(upstream.url, padding=3_000_000)
    site = write_site(tmp_path / "site", [file])
    upstream.serve(PATH, Answer(body=file.built.data))
    cache = tmp_path / "cache"
    with command(site, tmp_path / "c", "--fallback", "none", "--cache", str(cache)) as running:
        url = f"{running.url}cache/torch/{file.built.sha256}/{TORCH}"
        # The disk takes no more than this of a file: the system's own way to say that there is no room.
        pid, unlimited = running.process.pid, resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1_000_000, unlimited))
        answer = httpx.get(url)
        assert answer.status_code == 507
        assert answer.text == f"{TORCH}: the cache cannot take it: File too large\n"
        assert [path.name for path in cache.rglob("*") if path.is_file()] == ["lock"]
        assert httpx.get(f"{running.index}torch/").status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        assert httpx.get(url).content == file.built.data


def test_a_cache_that_another_server_uses_is_refused(site: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with command(site, tmp_path / "c", "--cache", str(cache)):
        code, said = refused(tmp_path, site, "--port", "0", "--cache", cache)
    assert code != 0
    assert f"{cache}: another metawheel serves from it" in said


def test_a_port_that_is_taken_is_named(site: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused(tmp_path, site, "--port", str(port))
    assert (code, f"127.0.0.1, port {port}: cannot be listened at" in said) == (8, True)


def test_a_folder_that_is_no_site_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, tmp_path / "none", "--port", "0") == (
        8,
        f"metawheel: error: {tmp_path}/none: there is no site; make one with `metawheel build -o {tmp_path}/none`",
    )
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    for place in ("file", "other"):
        code, said = refused(tmp_path, tmp_path / place, "--port", "0")
        assert (code, "is not a site of metawheel" in said) == (8, True)


def test_a_bad_token_file_is_refused(site: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ann:secret\n")
    code, said = refused(tmp_path, site, "--port", "0", "--token-file", tmp_path / "tokens")
    assert (code, "tokens, line 1: is not user:sha256" in said) == (8, True)


@pytest.mark.parametrize("value", ["ftp://x/", "simple", "http://", "file:///x"])
def test_a_fallback_that_is_no_url_is_a_usage_error(site: Path, tmp_path: Path, value: str) -> None:
    code, said = refused(tmp_path, site, "--fallback", value)
    assert (code, "--fallback" in said) == (2, True)


def test_without_the_extra_it_says_what_to_install(site: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['metawheel', 'serve', sys.argv[1]]; "
        "import metawheel.cli; metawheel.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(site)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "its extra, serve" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_the_other_commands_need_no_server() -> None:
    code = (
        "import sys, metawheel.cli.serve, metawheel.cli; "
        "print([name for name in ('uvicorn', 'starlette', 'httpx', 'simple_repository') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_fallback_is_pypi_unless_told_otherwise() -> None:
    assert fallback_of("pypi") == PYPI_SIMPLE_ENDPOINT
    assert fallback_of("none") is None
    assert fallback_of("https://index.example/simple") == "https://index.example/simple"


def test_what_is_printed_holds_no_password() -> None:
    settings = Settings(site=Path("site"), fallback="https://me:secret@index.example/simple/")
    assert serve_text(settings, url_of("::1", 80)) == (
        "site: served at http://[::1]:80/simple/; other names are looked up at https://index.example/simple/"
    )
