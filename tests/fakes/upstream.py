"""A loopback upstream: stand-in wheels under the paths that the real host uses."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from tests.fakes.httpd import NOT_FOUND, LoopbackServer, Reply, RequestLog
from tests.fakes.wheels import BuiltWheel, WheelSpec, build_wheel

__all__ = ["RequestLog", "UpstreamServer", "WheelSpec", "local_path"]

REDIRECTED = "redirected/"


def local_path(url_or_path: str) -> str:
    """Reduce a URL or path, `%2B` or `+` alike, to the decoded path without its leading slash."""
    return unquote(urlsplit(url_or_path).path).lstrip("/")


class UpstreamServer(LoopbackServer):
    """Serves wheels, their `.metadata` and given pages, and counts what was fetched."""

    def __init__(
        self,
        wheels: Iterable[WheelSpec] = (),
        *,
        pages: Mapping[str, str | bytes] | None = None,
        metadata: bool = True,
        ranges: bool = True,
        redirects: bool = False,
    ) -> None:
        """Set up the switches; each may be changed while the server runs."""
        super().__init__()
        self.metadata = metadata
        self.ranges = ranges
        self.redirects = redirects
        self._specs: dict[str, WheelSpec] = {}
        self._built: dict[str, BuiltWheel] = {}
        self._pages: dict[str, bytes] = {}
        self._making = threading.Lock()
        for spec in wheels:
            self.add(spec)
        for path, text in (pages or {}).items():
            self.add_page(path, text)

    def add(self, spec: WheelSpec) -> None:
        """Offer a wheel, in place of one that had its path before."""
        path = local_path(spec.path)
        self._specs[path] = spec
        self._built.pop(path, None)

    def add_page(self, path: str, text: str | bytes) -> None:
        """Offer an HTML page; a path that ends in a slash is a folder's page."""
        self._pages[local_path(path)] = text.encode() if isinstance(text, str) else text

    def built(self, url_or_path: str) -> BuiltWheel:
        """The wheel at a path, made on first use."""
        path = local_path(url_or_path)
        with self._making:
            if path not in self._built:
                self._built[path] = build_wheel(self._specs[path])
            return self._built[path]

    def sha256(self, url_or_path: str) -> str:
        """Hex sha256 of the wheel at a path."""
        return self.built(url_or_path).sha256

    def metadata_sha256(self, url_or_path: str) -> str:
        """Hex sha256 of the METADATA of the wheel at a path."""
        return self.built(url_or_path).metadata_sha256

    def url_of(self, url_or_path: str) -> str:
        """Give this server's URL of a wheel, with `+` as `%2B`, as upstream's own pages write it."""
        return self.url + local_path(url_or_path).replace("+", "%2B")

    def paths(self) -> tuple[str, ...]:
        """The decoded paths of all wheels on offer."""
        return tuple(self._specs)

    def answer(self, path: str, _headers: Mapping[str, str], /) -> Reply:
        """Find the page, sidecar or wheel at a path."""
        path = path.lstrip("/")
        if path in self._pages:
            return Reply(self._pages[path], "text/html; charset=utf-8")
        wheel = path.removesuffix(".metadata").removeprefix(REDIRECTED)
        if wheel not in self._specs or (path.endswith(".metadata") and not self.metadata):
            return NOT_FOUND
        if self.redirects and not path.startswith(REDIRECTED):
            target = "/" + REDIRECTED + path.replace("+", "%2B")
            return Reply(status=302, headers={"Location": target})
        built = self.built(wheel)
        if path.endswith(".metadata"):
            return Reply(built.metadata)
        return Reply(built.data, ranges=self.ranges)
