"""A small index that takes uploads, and can fail at each of them."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from tests.fakes.pages import FakeServer
from tests.fakes.site import SIMPLE_JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What becomes of one upload, instead of success."""

    status: int | None = None  # None: the connection is closed without an answer
    reason: str | None = None
    body: bytes = b""
    content_type: str = "text/plain"
    stored: bool = False
    in_part: bool = False  # half of the file is stored
    hangs: bool = False
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is answered for a GET, instead of the index's own page."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/html"
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that the index got."""

    method: str
    path: str
    user: str | None  # "name:password" of HTTP basic authentication


class FakeIndex(FakeServer):
    """Serves `simple/` and `files/`, takes uploads at its root, which is its `url`."""

    def __init__(self, *, algorithm: str | None = "sha256", as_json: bool = False, user: str | None = None) -> None:
        super().__init__()
        self.handler = _Handler
        self.algorithm = algorithm  # of the hashes on its pages
        self.as_json = as_json
        self.user = user  # who alone may upload
        self.files: dict[str, bytes] = {}
        self.faults: dict[int, Sequence[Fault]] = {}  # number of an upload, from 0 → what becomes of it and the next
        self.pages: dict[str, Page] = {}  # by path
        self.files_at: str | None = None  # another server that has the files
        self.requests: list[Request] = []
        self.reached = threading.Event()  # an upload hangs
        self._pending: list[Fault] = []
        self._uploads = 0
        self._guard = threading.Lock()

    @property
    def simple(self) -> str:
        """Its simple index."""
        return f"{self.url}simple/"

    def uploads(self) -> int:
        """How many uploads were tried."""
        return sum(request.method == "POST" for request in self.requests)

    def next_fault(self) -> Fault | None:
        """What becomes of the upload that has just come in."""
        with self._guard:
            self._pending += self.faults.get(self._uploads, ())
            self._uploads += 1
            return self._pending.pop(0) if self._pending else None

    def page(self, path: str) -> Page:
        """The answer to a GET."""
        if path in self.pages:
            return self.pages[path]
        match path.strip("/").split("/"):
            case ["simple"]:
                return Page(body=b"<!DOCTYPE html><html><title>Simple index</title></html>")
            case ["simple", project]:
                names = [name for name in sorted(self.files) if canonicalize_name(name.split("-")[0]) == project]
                return self.project_page(project, names) if names else Page(status=404)
            case ["files", name] if name in self.files:
                return Page(body=self.files[name], content_type="application/octet-stream")
        return Page(status=404, body=b"not found", content_type="text/plain")

    def project_page(self, project: str, names: Sequence[str]) -> Page:
        """A project's page with these files."""
        hashes = {}
        if self.algorithm is not None:
            hashes = {name: hashlib.new(self.algorithm, self.files[name]).hexdigest() for name in names}
        root = self.files_at or "../../"
        if self.as_json:
            files = [
                {
                    "filename": name,
                    "url": f"{root}files/{name}",
                    "hashes": {self.algorithm: hashes[name]} if hashes else {},
                }
                for name in names
            ]
            data = {"meta": {"api-version": "1.0"}, "name": project, "files": files}
            return Page(body=json.dumps(data).encode(), content_type=SIMPLE_JSON)
        links = "\n".join(
            f'<a href="{root}files/{name}#{self.algorithm}={hashes.get(name, "")}">{html.escape(name)}</a>'
            for name in names
        )
        return Page(body=f"<!DOCTYPE html><html><title>Links for {project}</title>{links}</html>".encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any  # whose `fake` is the index

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self._note(path)
        page = self.server.fake.page(path)
        self._answer(page.status, page.body, page.content_type, {"Location": page.location}, None)

    def do_POST(self) -> None:
        fake = self.server.fake
        user = self._note(unquote(urlsplit(self.path).path))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fake.user is not None and user != fake.user:
            said = f"no such user: {user}, that is {self.headers.get('Authorization')}"
            self._answer(403, said.encode(), "text/plain", {}, None)
            return
        fault = fake.next_fault()
        name, content = _uploaded(self.headers["Content-Type"], body)
        if fault is None or fault.stored:
            fake.files[name] = content
        elif fault.in_part:
            fake.files[name] = content[: len(content) // 2]
        if fault is None:
            self._answer(200, b"", "text/plain", {}, None)
            return
        if fault.hangs:
            fake.reached.set()
            fake.released.wait(60)
        if fault.status is None:
            self.close_connection = True
            return
        self._answer(fault.status, fault.body, fault.content_type, {"Location": fault.location}, fault.reason)

    def _note(self, path: str) -> str | None:
        kind, _, given = (self.headers.get("Authorization") or "").partition(" ")
        user = base64.b64decode(given).decode("latin-1") if kind == "Basic" else None
        self.server.fake.requests.append(Request(method=self.command, path=path, user=user))
        return user

    def _answer(
        self, status: int, body: bytes, kind: str, headers: Mapping[str, str | None], reason: str | None
    ) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status, reason)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for key, value in headers.items():
                if value is not None:
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)


def _uploaded(content_type: str, body: bytes) -> tuple[str, bytes]:
    """The file of an upload's form, by its name."""
    form = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    for part in form.walk():
        if (name := part.get_filename()) is not None:
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            return name, payload
    raise ValueError("a form without a file")
