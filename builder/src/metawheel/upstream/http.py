"""Fetching: time-outs, bounded retries, a cache with conditional requests, a body limit, mirrors."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from cachecontrol import CacheControlAdapter
from cachecontrol.caches import SeparateBodyFileCache
from pypi_simple import ACCEPT_ANY
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from metawheel import __version__
from metawheel.errors import OutputError, Unparsable, Unreachable
from metawheel.files import cache_folder
from metawheel.upstream.mirrors import Mirror, without_user

TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two bytes
DEADLINE = 300  # seconds for a whole page
RETRY_AFTER_MAX = 20  # seconds that a server may ask us to wait
BODY_LIMIT = 16 * 1024 * 1024  # bytes; the largest page known is below 1 MiB
CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A fetched document. `url` is canonical, wherever it was fetched from."""

    url: str
    content: bytes
    content_type: str
    moved: str | None = None  # where redirects from `url` led: relative links resolve against that
    mirror: str | None = None  # where it was fetched instead of from `url`


class Fetcher:
    """Fetches each address once; safe to use from several threads."""

    def __init__(
        self,
        mirrors: Iterable[Mirror] = (),
        *,
        cache: Path | None = None,
        timeout: tuple[float, float] = TIMEOUT,
        retries: int = 3,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self.mirrors = tuple(mirrors)
        self.timeout = timeout
        self._retries = retries
        self._limit = body_limit
        self.cache = cache or cache_folder()
        self._local = threading.local()
        self._pages: dict[str, Page | Unreachable | Unparsable] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    @property
    def session(self) -> requests.Session:
        """This thread's session, with the cache: requests does not promise that one is safe to share."""
        if not hasattr(self._local, "session"):
            cache = SeparateBodyFileCache(str(self.cache / "http"))
            self._local.session = self._new_session(CacheControlAdapter, cache=cache)
        session: requests.Session = self._local.session
        return session

    @property
    def plain_session(self) -> requests.Session:
        """This thread's session without the cache, for downloads."""
        if not hasattr(self._local, "plain"):
            self._local.plain = self._new_session(HTTPAdapter)
        session: requests.Session = self._local.plain
        return session

    def _new_session(self, adapter_type: type[HTTPAdapter], **options: Any) -> requests.Session:
        session = requests.Session()
        session.headers["User-Agent"] = f"metawheel/{__version__}"
        retry = Retry(
            total=self._retries,
            backoff_factor=0.5,
            status_forcelist=(429, 500, 502, 503, 504),
            raise_on_status=False,
            retry_after_max=RETRY_AFTER_MAX,
        )
        adapter = adapter_type(max_retries=retry, **options)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    def page(self, url: str) -> Page:
        """Fetch a page, once in the life of this object; raises Unreachable, Unparsable (over the limit)."""
        with self._guard:
            lock = self._locks.setdefault(url, threading.Lock())
        with lock:
            if url not in self._pages:
                try:
                    self._pages[url] = self._fetch(url)
                except (Unreachable, Unparsable) as error:
                    self._pages[url] = error
            found = self._pages[url]
        if isinstance(found, Page):
            return found
        raise found

    def _fetch(self, url: str) -> Page:
        for mirror in self.mirrors:
            if (address := mirror.apply(url)) is not None:
                if mirror.is_folder:
                    return self._read_folder(url, address)
                break
        else:
            address = url
        # max-age=0: a cached page is asked for again, conditionally (RFC 9111, section 5.2.1.1).
        headers = {"Accept": ACCEPT_ANY, "Cache-Control": "max-age=0"}
        try:
            with self.session.get(address, headers=headers, timeout=self.timeout, stream=True) as response:
                content = read_body(response, self._limit) if response.status_code == 200 else b""
        except requests.RequestException as error:
            raise Unreachable(url, f"no complete answer{at(url, address)}: {reason(error)}") from error
        # requests follows a redirect to what is no address, CacheControl takes a Date apart that is none.
        except (ValueError, AssertionError) as error:
            said = str(error) or "its headers are odd"
            raise Unreachable(url, f"gave an answer that cannot be read{at(url, address)}: {said}") from error
        except OSError as error:
            if error.strerror is None:  # requests' own sentence, of a CA bundle that is not there
                raise Unreachable(url, str(error)) from error
            raise OutputError(
                f"{error.filename or self.cache}: the cache cannot be written: {error.strerror}; "
                "name another folder in METAWHEEL_CACHE"
            ) from error
        if response.status_code != 200:
            raise Unreachable(url, f"answered {response.status_code} {response.reason}{at(url, address)}")
        if len(content) > self._limit:
            raise Unparsable(url, f"is larger than {self._limit} bytes, the limit for a page")
        return Page(
            url=url,
            content=content,
            content_type=response.headers.get("Content-Type", ""),
            moved=without_user(response.url) if response.history and address == url else None,
            mirror=without_user(response.url) if address != url else None,
        )

    def _read_folder(self, url: str, address: str) -> Page:
        place = Path(address)
        candidates = [place / "index.json", place / "index.html"] if place.is_dir() else [place]
        for path in candidates:
            if path.is_file():
                if path.stat().st_size > self._limit:
                    raise Unparsable(url, f"is larger than {self._limit} bytes, the limit for a page")
                kind = "application/vnd.pypi.simple.v1+json" if path.suffix == ".json" else "text/html"
                return Page(url=url, content=path.read_bytes(), content_type=kind)
        raise Unreachable(url, f"no page at {place}")


def read_body(response: requests.Response, limit: int) -> bytes:
    """An answer's body, or more bytes of it than the limit; raises RequestException, also where the deadline passes.

    The reader waits for a whole chunk, which a byte a second never fills: a timer breaks it off.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError, ValueError):  # it has ended meanwhile, or is read from the cache
            response.raw.shutdown()

    timer = threading.Timer(DEADLINE, end)
    timer.daemon = True
    timer.start()
    content = bytearray()
    try:
        for chunk in response.iter_content(CHUNK):
            content += chunk
            if len(content) > limit:
                break
    except requests.RequestException:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
        timer.join()
    if late.is_set():  # what tells no length of its own looks whole then
        raise requests.ConnectionError(f"it was not there as a whole after {DEADLINE} s")
    return bytes(content)


def at(url: str, address: str) -> str:
    return f" (fetched from {address})" if address != url else ""


def reason(error: requests.RequestException) -> str:
    """The innermost cause in one line: requests wraps urllib3, which wraps the system's error."""
    cause: BaseException = error
    while (inner := _inner(cause)) is not None:
        cause = inner
    text = str(cause).partition("\n")[0]
    return re.sub(r"^<?\w*Connection\w*\(.*?\)>?: ", "", text) or type(cause).__name__


def _inner(error: BaseException) -> BaseException | None:
    candidates = (getattr(error, "reason", None), *error.args)
    return next((item for item in candidates if isinstance(item, BaseException)), None)
