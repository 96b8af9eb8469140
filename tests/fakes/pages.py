"""A loopback page server that can misbehave, and the other stand-ins that the tests of `sync` need."""

from __future__ import annotations

import hashlib
import html
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = ROOT.parent / "shared" / "upstream" / "pages"
CANONICAL = "https://upstream.example/whl/"

# Whatever is not on this machine goes to a proxy that nobody runs: a test that leaves loopback fails at once.
ONLY_LOOPBACK = {
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "all_proxy": "http://127.0.0.1:9",
    "no_proxy": "127.0.0.1,localhost",
}


def only_loopback(env: Mapping[str, str]) -> dict[str, str]:
    """An environment whose HTTP requests reach this machine alone."""
    return {key: value for key, value in env.items() if not key.lower().endswith("_proxy")} | ONLY_LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, and how it goes wrong."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None  # a request with the same If-None-Match gets 304
    ranges: bool = False
    declared: int | None = None  # Content-Length, where it is a lie: more than is sent
    endless: int = 0  # no Content-Length: `body` that many times, then the connection closes
    hangs: bool = False  # headers are never sent
    drips: bool = False  # a byte now and then, never the whole


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the server got; the path is percent-decoded, header names are in lower case."""

    path: str
    headers: Mapping[str, str]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    fake: Any  # the FakeServer that it answers for

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep the output quiet: a client may hang up whenever it likes."""


class FakeServer:
    """A server on a free port of 127.0.0.1, inside a `with` block."""

    handler: type[BaseHTTPRequestHandler]

    def __init__(self) -> None:
        self.released = threading.Event()  # whoever hangs goes on

    @property
    def url(self) -> str:
        """The server's root, with a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), self.handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PageServer(FakeServer):
    """Serves what `serve` was told."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = _Handler
        self.requests: list[Request] = []
        self._answers: dict[str, list[Answer]] = {}
        self._guard = threading.Lock()

    def serve(self, path: str, *answers: Answer) -> None:
        """Answer a path with these in turn; the last one for ever."""
        with self._guard:
            self._answers[path] = list(answers)

    def asked(self, path: str) -> list[Request]:
        """The requests for a path so far."""
        with self._guard:
            return [request for request in self.requests if request.path == path]

    def next_answer(self, request: Request) -> Answer:
        """Note a request and take the answer for it."""
        with self._guard:
            self.requests.append(request)
            left = self._answers.get(request.path)
            if not left:
                return Answer(status=404, body=b"not found")
            return left.pop(0) if len(left) > 1 else left[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        fake = self.server.fake
        headers = {key.lower(): value for key, value in self.headers.items()}
        answer = fake.next_answer(Request(unquote(urlsplit(self.path).path), headers))
        if answer.hangs:
            fake.released.wait(60)
            self.close_connection = True
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            self._send(answer, headers)

    def _send(self, answer: Answer, headers: Mapping[str, str]) -> None:
        status, body, extra = answer.status, answer.body, dict(answer.headers)
        if answer.etag is not None:
            extra["ETag"] = answer.etag
            if headers.get("if-none-match") == answer.etag:
                status, body = 304, b""
        same = headers.get("if-range") in {None, answer.etag}  # RFC 9110, section 13.1.5
        if answer.ranges and same and "range" in headers and status == 200:
            first, last = _span(headers["range"], len(body))
            if first >= len(body):
                status, extra["Content-Range"], body = 416, f"bytes */{len(body)}", b""
            else:
                extra["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                status, body = 206, body[first : last + 1]
        self.send_response(status)
        self.send_header("Content-Type", answer.content_type)
        for key, value in extra.items():
            self.send_header(key, value)
        if answer.endless or answer.drips or answer.declared is not None:
            self.close_connection = True
            self.send_header("Connection", "close")
        if not answer.endless:
            length = answer.declared if answer.declared is not None else len(body)
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if answer.drips:
            while not self.server.fake.released.wait(0.05):
                self.wfile.write(b"x")
        elif self.command != "HEAD":
            for _ in range(answer.endless or 1):
                self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815


def _span(header: str, size: int) -> tuple[int, int]:
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(size - int(last), 0), size - 1
    return int(first), min(int(last) if last else size - 1, size - 1)


def page(links: Iterable[str], *, host: str = CANONICAL) -> str:
    """A page in upstream's form: `links` are paths below whl/, each with its fragment and, after `|`, attributes."""
    lines = []
    for link in links:
        path, _, attributes = link.partition("|")
        name, _, fragment = path.partition("#")
        href = host + quote(name) + ("#" + fragment if fragment else "")
        text = html.escape(name.rpartition("/")[2])
        lines.append(f'    <a href="{href}"{" " + attributes if attributes else ""}>{text}</a><br/>\n')
    return f"<!DOCTYPE html>\n<html>\n  <body>\n{''.join(lines)}  </body>\n</html>\n<!--TIMESTAMP 1787329924-->"


def digest(text: str) -> str:
    """A sha256 that stands for a file's bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def torch_links(
    *versions: str, project: str = "torch", python: str = "cp311", system: str = "linux_x86_64"
) -> list[str]:
    """A link with a sha256 for each version, in the folder of its local version label (whl/ itself without one)."""
    links = []
    for version in versions:
        name = f"{project}-{version}-{python}-{python}-{system}.whl"
        folder = version.partition("+")[2]
        links.append(f"{folder}/{name}#sha256={digest(name)}" if folder else f"{name}#sha256={digest(name)}")
    return links


FAMILY = """
project = "torch"
summary = "PyTorch"
headline = "{headline}"
releases = ">=1.8"
plain = "cpu"

[[source]]
name = "up"
kind = "simple"
url = "https://upstream.example/whl/{{project}}/"
root = "https://upstream.example/whl/"
projects = ["torch"{projects}]
folders = {{ "" = "cpu" }}

[[wrapper]]
name = "{wrapper}"
backend = '{backend}'
view = "{{backend}}"
fallback = ["darwin"]
summary = "PyTorch {{version}} with {{backend}}"
"""

COMPANION = """
[[companion]]
project = "torchvision"
extra = "vision"
"""


def write_family(packages: Path, name: str = "torch-cuda", backend: str = r"cu\d+", *, vision: bool = False) -> Path:
    """Write a small family of torch wrappers; returns its folder."""
    folder = packages / name
    folder.mkdir(parents=True)
    wrapper = "torch-{backend}" if "\\d" in backend else f"torch-{backend}"
    projects = ', "torchvision"' if vision else ""
    text = FAMILY.format(headline=name, wrapper=wrapper, backend=backend, projects=projects)
    (folder / "family.toml").write_text(text + (COMPANION if vision else ""))
    return folder


def write_pages(folder: Path, pages: Mapping[str, str | bytes]) -> None:
    """Lay pages down as a folder that mirrors an index."""
    for project, content in pages.items():
        place = folder / project / "index.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its bytes and its time of change."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


# Where a shell runs the tests in the background, Ctrl-C is ignored, and that is inherited.
LISTENING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('metawheel', run_name='__main__')"
)


def start(arguments: Iterable[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start the real command line."""
    command = [sys.executable, "-c", LISTENING, *arguments]
    return subprocess.Popen(
        command,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that Ctrl-C can be sent to it and its workers alone
    )


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def metawheel(*arguments: str | Path, cache: Path, env: Mapping[str, str] | None = None) -> Ran:
    """Run the real command line to its end."""
    process = start([str(part) for part in arguments], command_env(cache) | dict(env or {}))
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def command_env(cache: Path) -> dict[str, str]:
    """The environment of a command: its own cache, nothing beyond loopback."""
    return only_loopback(os.environ) | {"METAWHEEL_CACHE": str(cache), "SOURCE_DATE_EPOCH": "1750000000"}


def named_pages(folder: Path, suffixes: Iterable[str] = (".html", ".json")) -> Iterator[Path]:
    """The page files below a folder, in order; none where there is no such folder."""
    wanted = tuple(suffixes)
    return (path for path in sorted(folder.rglob("*")) if path.name.endswith(wanted) and path.is_file())
