"""A logged HTTP server on the loopback address, the base of every fake."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

Kind = Literal["wheel", "metadata", "page", "other"]


@dataclass(frozen=True)
class Hit:
    """One request and what was sent back for it; `path` is percent-decoded."""

    method: str
    path: str
    kind: Kind
    status: int
    sent: int
    headers: Mapping[str, str]


class RequestLog:
    """Every request a server answered, in order."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._hits: list[Hit] = []

    def add(self, hit: Hit) -> None:
        """Note one request."""
        with self._lock:
            self._hits.append(hit)

    def reset(self) -> None:
        """Forget everything noted so far."""
        with self._lock:
            self._hits.clear()

    def hits(self, kind: Kind | None = None, status: int | None = None) -> tuple[Hit, ...]:
        """The requests, narrowed to a kind and to a status (206 is an answered range request)."""
        with self._lock:
            return tuple(
                hit
                for hit in self._hits
                if (kind is None or hit.kind == kind) and (status is None or hit.status == status)
            )

    def bytes(self, kind: Kind | None = None, status: int | None = None) -> int:
        """Body bytes sent for those requests."""
        return sum(hit.sent for hit in self.hits(kind, status))

    def count(self, kind: Kind | None = None, status: int | None = None) -> int:
        """How many those requests are."""
        return len(self.hits(kind, status))

    def paths(self, kind: Kind | None = None) -> tuple[str, ...]:
        """Their distinct paths, in the order first asked for."""
        return tuple(dict.fromkeys(hit.path for hit in self.hits(kind)))

    def __repr__(self) -> str:
        """Show one request a line, for the message of a failed assertion."""
        return "\n".join(f"{h.method} {h.path} -> {h.status} {h.kind} {h.sent} bytes" for h in self.hits())


@dataclass(frozen=True)
class Reply:
    """An answer before ranges and HEAD are applied to it."""

    body: bytes = b""
    content_type: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    ranges: bool = False


NOT_FOUND = Reply(b"not found\n", "text/plain; charset=utf-8", 404)


def kind_of(path: str, reply: Reply) -> Kind:
    """Tell what a request was for."""
    if path.endswith(".metadata"):
        return "metadata"
    if path.endswith((".whl", ".tar.gz")):
        return "wheel"
    if "html" in reply.content_type or "json" in reply.content_type:
        return "page"
    return "other"


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Read a single-range `Range` header as (first, last), or None where the whole body is the answer."""
    unit, _, spans = header.partition("=")
    first, dash, last = spans.strip().partition("-")
    # Several ranges at once need a multipart answer; a server may ignore the header instead.
    if unit.strip() != "bytes" or not dash or "," in spans:
        return None
    if not first:
        return max(size - int(last), 0), size - 1
    return int(first), min(int(last) if last else size - 1, size - 1)


class LoopbackServer:
    """A server on a free port of 127.0.0.1 that runs inside a `with` block."""

    def __init__(self) -> None:
        """Take no port yet: that happens on entering the `with` block."""
        self.log = RequestLog()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Answer a GET for a percent-decoded path; header names are in lower case."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The server's root, with a slash at its end."""
        if self._server is None:
            raise RuntimeError("the server is not running: use it in a with block")
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        """Start to serve."""
        server = _Server(("127.0.0.1", 0), _Handler)
        server.fake = self
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop serving and free the port."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Clients keep connections open; waiting for those at the end would hang the test.
    block_on_close = False
    fake: LoopbackServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Serve a body."""
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        """Serve the headers of a body."""
        self._respond(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name is the base class's
        """Keep the test output quiet: the request log has it all."""

    def _respond(self, *, with_body: bool) -> None:
        fake = self.server.fake
        # unquote leaves a literal `+` alone, so `+` and `%2B` name the same file.
        path = unquote(urlsplit(self.path).path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        reply = fake.answer(path, headers)
        status, body, extra = reply.status, reply.body, dict(reply.headers)
        if reply.ranges:
            extra["Accept-Ranges"] = "bytes"
            span = byte_range(headers["range"], len(body)) if "range" in headers else None
            if span is not None and status == 200:
                first, last = span
                if first > last:
                    status, extra["Content-Range"], body = 416, f"bytes */{len(body)}", b""
                else:
                    status, extra["Content-Range"] = 206, f"bytes {first}-{last}/{len(body)}"
                    body = body[first : last + 1]
        hit = Hit(self.command, path, kind_of(path, reply), status, len(body) * with_body, headers)
        # Noted before the bytes go out: a client that has its answer may already be asserted on.
        fake.log.add(hit)
        self.send_response(status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(body)))
        for key, value in extra.items():
            self.send_header(key, value)
        self.end_headers()
        if with_body:
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                # A client may hang up once it has read the part it wanted.
                self.close_connection = True
