"""Loopback servers behind a slow link, and wheels of any size that are mostly a hole."""

from __future__ import annotations

import hashlib
import io
import mmap
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from tests.fakes.httpd import LoopbackServer, _Handler
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, local_path
from tests.fakes.wheels import EPOCH, BuiltWheel, build_wheel

CHUNK = 64 * 1024
ZEROS = bytes(16 * 1024 * 1024)


class Link:
    """What all servers share: so many bytes a second, and a delay before each answer; counts what went through."""

    def __init__(self, *, bits: float, delay: float) -> None:
        self.bytes_a_second, self.delay = bits / 8, delay
        self._free_at = 0.0
        self._guard = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Count from nothing."""
        self.requests, self.wheel_bytes, self.other_bytes = 0, 0, 0

    def asked(self) -> None:
        """A request is on its way, and its answer."""
        with self._guard:
            self.requests += 1
        time.sleep(self.delay)

    def send(self, size: int, *, wheel: bool) -> None:
        """Return when so many bytes have gone through."""
        with self._guard:
            self._free_at = max(self._free_at, time.monotonic()) + size / self.bytes_a_second
            wait = self._free_at - time.monotonic()
            if wheel:
                self.wheel_bytes += size
            else:
                self.other_bytes += size
        if wait > 0:
            time.sleep(wait)


class _Paced(io.BufferedIOBase):
    """A connection's writing end: all of it passes the link."""

    def __init__(self, file: io.BufferedIOBase, link: Link, is_wheel: Callable[[], bool]) -> None:
        super().__init__()
        self._file, self._link, self._is_wheel = file, link, is_wheel

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            part = view[start : start + CHUNK]
            self._link.send(len(part), wheel=self._is_wheel())
            self._file.write(part)
        return len(view)

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()


class _SlowHandler(_Handler):
    link: Link

    def setup(self) -> None:
        super().setup()
        time.sleep(self.link.delay)  # the connection's own round trip
        self.wfile = _Paced(self.wfile, self.link, lambda: self.path.partition("?")[0].endswith(".whl"))

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        if parsed:
            self.link.asked()
        return parsed


class _Slow(LoopbackServer):
    """Any fake server, behind a link."""

    link: Link

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._server is not None  # noqa: S101  entering made it
        self._server.RequestHandlerClass = type("Handler", (_SlowHandler,), {"link": self.link})
        return self


class SlowSite(_Slow, SiteServer):
    """Our site."""


class SlowPyPI(_Slow, FakePyPI):
    """What stands in for PyPI."""


class SlowUpstream(_Slow, UpstreamServer):
    """Upstream, whose wheels have a given size and lie as sparse files in a folder."""

    def __init__(self, folder: Path, size_of: Callable[[str], int]) -> None:
        super().__init__()
        self._folder, self._size_of = folder, size_of

    def built(self, url_or_path: str) -> BuiltWheel:
        """The wheel at a path, made on first use."""
        path = local_path(url_or_path)
        with self._making:
            if path not in self._built:
                self._built[path] = swollen(build_wheel(self._specs[path]), self._folder, self._size_of(path))
            return self._built[path]


def swollen(wheel: BuiltWheel, folder: Path, size: int) -> BuiltWheel:
    """The wheel with a file of zeros in it that brings it to about this many bytes, none of them held in memory."""
    target = folder / wheel.spec.filename
    with (
        zipfile.ZipFile(io.BytesIO(wheel.data)) as old,
        _Sparse(target) as file,
        zipfile.ZipFile(cast("BinaryIO", file), "w") as new,
    ):
        entry = zipfile.ZipInfo(f"{wheel.spec.name.replace('-', '_')}.bin", EPOCH)
        entry.file_size = max(size - len(wheel.data), 0)
        with new.open(entry, "w") as ballast:
            for start in range(0, entry.file_size, len(ZEROS)):
                ballast.write(ZEROS[: entry.file_size - start])
        for item in old.infolist():
            new.writestr(item, old.read(item))
    with target.open("rb") as content:
        data = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
        found = BuiltWheel(wheel.spec, cast("bytes", data), wheel.metadata)
        found.__dict__["sha256"] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


class _Sparse(io.FileIO):
    """A file in which long runs of zeros become holes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if len(view) >= 4096 and view == ZEROS[: len(view)]:
            self.seek(len(view), io.SEEK_CUR)
            return len(view)
        return super().write(view)
