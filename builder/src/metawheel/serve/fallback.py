"""The index that is asked for all names that are not ours: bounded in time, size and number, kept for a short while."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC
from urllib.parse import unquote, urljoin, urlsplit

import httpx
from bs4.exceptions import ParserRejectedMarkup
from pypi_simple import DistributionPackage, ProjectPage, RepositoryPage, UnsupportedRepoVersionError
from simple_repository import SimpleRepository, errors, model

from metawheel.errors import MALFORMED, MetawheelError
from metawheel.serve.metrics import Metrics
from metawheel.serve.page import Page, Versions, is_remote
from metawheel.upstream.mirrors import without_user
from metawheel.upstream.pages import is_cut_off

FRESH = 60.0  # seconds in which a page is not asked for again
PAGE_LIMIT = 64 * 1024 * 1024  # bytes; the largest page of PyPI is about 20 MiB
KEPT_BYTES = 16 * 1024 * 1024  # of pages as they were fetched; in memory they take about five times as much
KEPT_PAGES = 512
WAITING = 100  # requests that may wait for the fallback: all others find the server free
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"

_DIGEST = re.compile(r"[0-9a-f]+")


class FallbackError(MetawheelError):
    """The fallback gave no usable answer; `status` is what a gateway says then."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class FallbackAuth(httpx.Auth):
    """User and password of the fallback's URL, for its own host and no other."""

    def __init__(self, url: str) -> None:
        self._url = httpx.URL(url)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        here, there = self._url, request.url
        if here.userinfo and (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port):
            yield from httpx.BasicAuth(here.username, here.password).auth_flow(request)
        else:
            yield request


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What the fallback said of a name."""

    page: Page | None  # None: there is no such project
    size: int  # bytes, as fetched
    etag: str | None
    until: float  # on the monotonic clock


class FallbackRepository(SimpleRepository):
    """A repository on another server."""

    def __init__(self, url: str, client: httpx.AsyncClient, timeout: float, metrics: Metrics) -> None:
        self.url = without_user(url if url.endswith("/") else f"{url}/")
        self._client = client
        self._timeout = timeout
        self._metrics = metrics
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._running: dict[str, asyncio.Task[_Kept]] = {}
        self._waiting = 0

    async def get_project_page(
        self,
        project_name: str,
        *,
        request_context: model.RequestContext | None = None,  # noqa: ARG002 the interface has it
    ) -> model.ProjectDetail:
        """A project's page, links absolute; raises PackageNotFoundError, FallbackError."""
        kept = self._kept.get(project_name)
        if kept is None or kept.until < time.monotonic():
            kept = await self._wait(project_name)
        else:
            self._kept.move_to_end(project_name)
        if kept.page is None:
            raise errors.PackageNotFoundError(project_name)
        return kept.page

    async def _wait(self, name: str) -> _Kept:
        """Wait for a page together with all who want it."""
        if self._waiting >= WAITING:
            raise FallbackError(f"{self.url}: too many requests wait for it; try again", 503)
        if name not in self._running:
            self._running[name] = task = asyncio.create_task(self._refresh(name))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # all who waited may be gone
        self._waiting += 1
        try:
            return await asyncio.shield(self._running[name])
        finally:
            self._waiting -= 1

    async def _refresh(self, name: str) -> _Kept:
        url = f"{self.url}{name}/"
        try:
            async with asyncio.timeout(self._timeout):
                kept = await self._fetch(name, url, self._kept.get(name))
        except (TimeoutError, httpx.TimeoutException):
            self._metrics.fallback.labels("timeout").inc()
            raise FallbackError(f"{url}: gave no answer in {self._timeout:g} s", 504) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._metrics.fallback.labels("error").inc()
            raise FallbackError(f"{url}: no usable answer: {error or type(error).__name__}", 502) from None
        except FallbackError:
            self._metrics.fallback.labels("error").inc()
            raise
        finally:
            del self._running[name]
        self._keep(name, kept)
        return kept

    def _keep(self, name: str, kept: _Kept) -> None:
        self._kept[name] = kept
        self._kept.move_to_end(name)
        total = sum(item.size for item in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > KEPT_PAGES or total > KEPT_BYTES):
            total -= self._kept.popitem(last=False)[1].size

    async def _fetch(self, name: str, url: str, old: _Kept | None) -> _Kept:
        headers = {"Accept": ACCEPT}
        if old is not None and old.etag is not None:
            headers["If-None-Match"] = old.etag
        async with self._client.stream("GET", url, headers=headers) as response:
            self._metrics.fallback.labels(str(response.status_code)).inc()
            until = time.monotonic() + FRESH
            if response.status_code == 304 and old is not None:
                return replace(old, until=until)
            if response.status_code in (404, 410):
                return _Kept(page=None, size=0, etag=None, until=until)
            if response.status_code != 200:
                raise FallbackError(f"{url}: answered {response.status_code}", 502)
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > PAGE_LIMIT:
                    raise FallbackError(f"{url}: is larger than {PAGE_LIMIT} bytes", 502)
            kind = response.headers.get("content-type", "")
            page = await asyncio.to_thread(read_page, name, str(response.url), bytes(content), kind)
            etag = response.headers.get("etag")
            return _Kept(page=page, size=len(content), etag=etag if etag and etag.isascii() else None, until=until)


def read_page(name: str, url: str, content: bytes, content_type: str) -> Page:
    """Read a project page in either form; raises FallbackError. What is no HTTP link is left out.

    simple-repository's own parser is not used: it makes `%252B` of an address's `%2B`.
    """
    try:
        versions = None
        if "json" in content_type.lower():
            found = ProjectPage.from_json_data(json.loads(content))
            packages: Iterable[DistributionPackage] = found.packages
            versions = Versions(found.versions) if found.versions is not None else None
        elif "html" in content_type.lower() or not content_type:
            if is_cut_off(content.decode("utf-8", "replace")):
                raise ValueError("its last tag or comment has no end")
            packages = _linked(RepositoryPage.from_html(content))
        else:
            raise ValueError(f"its content type is {content_type[:80]!r}")
        files = tuple(file for package in packages if (file := _file(package, url)) is not None)
        # From version 1.1 on every file must have a size (PEP 700).
        meta = model.Meta("1.1" if all(file.size is not None for file in files) else "1.0")
        return Page(meta, name, files, versions)
    except (*MALFORMED, UnsupportedRepoVersionError, ParserRejectedMarkup) as error:
        reason = str(error).partition("\n")[0]
        raise FallbackError(f"{url}: is no page of a simple repository: {reason}", 502) from error


def _linked(page: RepositoryPage) -> Iterator[DistributionPackage]:
    for link in page.links:
        with suppress(ValueError):  # no address
            link.text = unquote(urlsplit(link.url).path.rpartition("/")[2])  # it may be anything (PEP 503)
            yield DistributionPackage.from_link(link)


def _file(package: DistributionPackage, base: str) -> model.File | None:
    """A file with its whole address; None where that is none of HTTP."""
    try:
        url = urljoin(base, package.url)
    except ValueError:
        return None
    metadata: bool | dict[str, str] | None = package.has_metadata
    if package.metadata_digests:
        metadata = _hex(package.metadata_digests) or True
    file = model.File(
        filename=package.filename,
        url=url,
        hashes=_hex(package.digests),
        requires_python=package.requires_python,
        dist_info_metadata=metadata,
        yanked=(package.yanked_reason or True) if package.is_yanked else False,
        size=package.size if package.size is None or package.size >= 0 else None,
        upload_time=package.upload_time.astimezone(UTC) if package.upload_time is not None else None,
    )
    return file if is_remote(file) and file.url.isprintable() and file.filename.isprintable() else None


def _hex(digests: dict[str, str]) -> dict[str, str]:
    """Digests that are digests: they go into pages as they are."""
    return {name: value for name, value in digests.items() if name.isalnum() and _DIGEST.fullmatch(value)}
