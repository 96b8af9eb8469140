"""The cache of upstream files: fetched once, verified before a byte of them is served, found again by their sha256."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import httpx
import requests
from filelock import FileLock, Timeout
from remotezip import RemoteZip, RemoteZipError

from metawheel.errors import MetawheelError, OutputError
from metawheel.files import sha256_of
from metawheel.serve.metrics import Metrics
from metawheel.wheelcopy import DAMAGED

FETCHES = 4  # at a time
FILE_LIMIT = 16 * 1024**3  # bytes, where a page does not say a file's size
METADATA_LIMIT = 4 * 1024 * 1024  # bytes
SILENCE = 60.0  # seconds between two bytes of upstream
DEADLINE = 3600.0  # seconds for a whole file
METADATA_TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two bytes
CHUNK = 1024 * 1024  # bytes
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_log = logging.getLogger(__name__)


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class CacheError(MetawheelError):
    """A file that cannot be served from the cache; `status` is the answer's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An upstream file as a page lists it."""

    filename: str
    url: str
    sha256: str
    size: int | None  # bytes
    metadata: str | None  # sha256 of the METADATA that upstream serves beside it, "true", or None


class Cache:
    """A folder of files named by their sha256, and what is being fetched into it."""

    def __init__(self, folder: Path, client: httpx.AsyncClient, metrics: Metrics) -> None:
        """Take the folder for this server alone; raises OutputError."""
        self._folder = Path(os.path.realpath(folder))
        self._work = self._folder / "tmp"
        self._client = client
        self._metrics = metrics
        self._running: dict[str, asyncio.Task[Path]] = {}
        self._verified: dict[str, tuple[int, int, int] | None] = {}  # sha256 → the file that was found to have it
        self._verifying = asyncio.Lock()  # one file at a time: pages are to find a thread, too
        self._slots = asyncio.Semaphore(FETCHES)
        # Threads of their own: those that wait for upstream must not hold up the ones that make pages.
        self._threads = ThreadPoolExecutor(FETCHES, thread_name_prefix="metadata")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / "lock", thread_local=False)
            self._lock.acquire(timeout=0)
            shutil.rmtree(self._work, ignore_errors=True)  # what a killed server left
            self._work.mkdir()
        except Timeout:
            raise OutputError(f"{folder}: another metawheel serves from it; give each its own cache") from None
        except OSError as error:
            raise OutputError(f"{folder}: the cache cannot be written: {error.strerror}") from error

    async def close(self) -> None:
        """Stop what is being fetched and let go of the folder."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._lock.release()

    async def find(self, name: str) -> Path | None:
        """The place of a file that is there; `name` is a sha256, with `.metadata` for what lies beside it.

        Raises CacheError where the cache cannot be read.
        """
        found = await self._present(name)
        if found is not None:
            self._metrics.cache.labels("hit").inc()
        return found

    async def _present(self, name: str) -> Path | None:
        """A file that is there and as it was fetched: what is new to this server, or has changed, is read first."""
        place = self._place(name)
        if not place.is_file() or os.path.realpath(place) != str(place):  # no links
            return None
        if name.endswith(".metadata") or _identity(place) == self._verified.get(name):
            return place
        async with self._verifying:
            return place if await asyncio.to_thread(self._verify, place) else None

    def _verify(self, place: Path) -> bool:
        """Whether a file has the content that its name says; any other is removed."""
        if (identity := _identity(place)) is None or identity == self._verified.get(place.name):
            return identity is not None
        try:
            if sha256_of(place) == place.name:
                self._verified[place.name] = identity
                return True
            _log.error("%s: is not as it was fetched; it is removed, and fetched again when it is asked for", place)
            place.unlink(missing_ok=True)
        except (OutputError, OSError) as error:
            raise CacheError(f"{place.name}: the cache cannot be used: {error}", 500) from error
        return False

    def _place(self, name: str) -> Path:
        return self._folder / name[:2] / name

    async def fetch(self, wanted: Wanted) -> Path:
        """A file, fetched by one task for all who ask; raises CacheError. It goes on if those who asked have left."""
        return await self._once(wanted.sha256, lambda: self._download(wanted))

    async def fetch_metadata(self, wanted: Wanted) -> Path:
        """A wheel's METADATA: out of the cached wheel, else from beside upstream's, else out of that by its ranges."""
        return await self._once(f"{wanted.sha256}.metadata", lambda: self._read_metadata(wanted))

    async def _once(self, name: str, work: Callable[[], Awaitable[Path]]) -> Path:
        if (found := await self._present(name)) is not None:
            return found
        self._metrics.cache.labels("miss").inc()
        if name not in self._running:
            self._running[name] = task = asyncio.create_task(self._run(name, work))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # all who asked may be gone
        return await asyncio.shield(self._running[name])

    async def _run(self, name: str, work: Callable[[], Awaitable[Path]]) -> Path:
        self._metrics.fetching.inc()
        try:
            return await work()
        except CacheError as error:
            self._metrics.cache.labels("failed").inc()
            _log.error("%s", error)
            raise
        finally:
            self._metrics.fetching.dec()
            del self._running[name]

    async def _download(self, wanted: Wanted) -> Path:
        async with self._slots:
            with self._part(wanted.filename, wanted.size) as part:
                digest = hashlib.sha256()
                async for chunk in self._chunks(wanted.url, wanted.size):
                    await asyncio.to_thread(_add, part, digest, chunk)
                if digest.hexdigest() != wanted.sha256:
                    raise CacheError(f"{wanted.url}: has sha256 {digest.hexdigest()}, not {wanted.sha256}", 502)
                place = await asyncio.to_thread(self._settle, part, wanted.sha256)
                self._place(f"{wanted.sha256}.metadata").unlink(missing_ok=True)  # that of a verified wheel is better
                return place

    async def _read_metadata(self, wanted: Wanted) -> Path:
        loop = asyncio.get_running_loop()
        wheel = await self._present(wanted.sha256)
        if wheel is None and wanted.metadata is not None:
            content = b"".join([chunk async for chunk in self._chunks(f"{wanted.url}.metadata", None, METADATA_LIMIT)])
            if wanted.metadata not in {"true", hashlib.sha256(content).hexdigest()}:
                raise CacheError(f"{wanted.url}.metadata: has not the sha256 {wanted.metadata}", 502)
        elif wheel is None:
            try:
                content = await loop.run_in_executor(self._threads, _remote_metadata, wanted.url)
            except (requests.RequestException, RemoteZipError) as error:
                _log.info("%s: is fetched whole, for its METADATA: %s", wanted.url, error)
                wheel = await self.fetch(wanted)
        if wheel is not None:
            content = await asyncio.to_thread(_local_metadata, wheel)
        with self._part(f"{wanted.filename}.metadata", len(content)) as part:
            await asyncio.to_thread(part.write, content)
            return await asyncio.to_thread(self._settle, part, f"{wanted.sha256}.metadata")

    async def _chunks(self, url: str, size: int | None, limit: int = FILE_LIMIT) -> AsyncIterator[bytes]:
        """A file's bytes, no more than it has; raises CacheError."""
        limit, done = size or limit, 0
        try:
            async with (
                asyncio.timeout(DEADLINE),
                self._client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
            ):
                if response.status_code != 200:
                    status = 404 if response.status_code in (404, 410) else 502
                    raise CacheError(f"{url}: upstream answered {response.status_code}", status)
                async for chunk in response.aiter_bytes(CHUNK):
                    done += len(chunk)
                    if done > limit:
                        raise CacheError(f"{url}: upstream sends more than {limit} bytes", 502)
                    self._metrics.cache_bytes.inc(len(chunk))
                    yield chunk
        except (TimeoutError, httpx.TimeoutException):
            raise CacheError(f"{url}: upstream gave no answer in time", 504) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CacheError(f"{url}: upstream broke off: {error or type(error).__name__}", 502) from None
        if size is not None and done != size:
            raise CacheError(f"{url}: upstream sent {done} bytes, not {size}", 502)

    @contextmanager
    def _part(self, filename: str, size: int | None) -> Iterator[IO[bytes]]:
        """A file to write; gone at the end, unless it was settled. Raises CacheError, also if the disk is full."""
        try:
            if size is not None and shutil.disk_usage(self._work).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with tempfile.NamedTemporaryFile(dir=self._work, delete=False) as part:
                try:
                    yield part.file
                finally:
                    Path(part.name).unlink(missing_ok=True)
        except OSError as error:
            status = 507 if error.errno in _FULL else 500
            raise CacheError(f"{filename}: the cache cannot take it: {error.strerror}", status) from error

    def _settle(self, part: IO[bytes], name: str) -> Path:
        """Give a written file its place in one step."""
        part.flush()
        os.fsync(part.fileno())
        part.close()  # Windows moves no open file
        os.chmod(part.name, 0o444)
        place = self._place(name)
        place.parent.mkdir(exist_ok=True)
        identity = _identity(Path(part.name))
        os.replace(part.name, place)
        self._verified[name] = identity
        return place


def _identity(place: Path) -> tuple[int, int, int] | None:
    """What tells a file from what it was before; None where there is none."""
    try:
        found = os.stat(place)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _add(part: IO[bytes], digest: _Digest, chunk: bytes) -> None:
    digest.update(chunk)
    part.write(chunk)


def _remote_metadata(url: str) -> bytes:
    """METADATA of a wheel on a server that answers range requests."""
    return _metadata(lambda: RemoteZip(url, timeout=METADATA_TIMEOUT), url)  # type: ignore[no-untyped-call]


def _local_metadata(wheel: Path) -> bytes:
    return _metadata(lambda: zipfile.ZipFile(wheel), wheel.name)


def _metadata(open_archive: Callable[[], zipfile.ZipFile], name: str) -> bytes:
    try:
        with open_archive() as archive:
            entry = next(
                item
                for item in archive.infolist()
                if item.filename.endswith(".dist-info/METADATA") and item.filename.count("/") == 1
            )
            if entry.file_size > METADATA_LIMIT:
                raise CacheError(f"{name}: its METADATA is larger than {METADATA_LIMIT} bytes", 502)
            return archive.read(entry)
    except DAMAGED as error:
        raise CacheError(f"{name}: is no wheel with METADATA", 502) from error
