"""The application: which answer a path gets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
from packaging.utils import InvalidName, canonicalize_name
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from simple_repository import SimpleRepository, errors, model
from simple_repository.components.priority_selected import PrioritySelectedProjectsRepository
from simple_repository.content_negotiation import Format
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from metawheel import __version__
from metawheel.serve.auth import Guarded, Tokens
from metawheel.serve.body import Body, etag_of, is_current, raw, respond
from metawheel.serve.cache import SILENCE, Cache, CacheError, Wanted
from metawheel.serve.fallback import FallbackAuth, FallbackError, FallbackRepository
from metawheel.serve.limits import Limited
from metawheel.serve.metrics import KIND, Measured, Metrics
from metawheel.serve.negotiate import choose_format
from metawheel.serve.page import SHA256, Page, Rewrite, cached_link, is_remote, make_form, ready_form
from metawheel.serve.site import BrokenPage, Site, SiteRepository, State, Withheld

HEALTH = "-/health"
METRICS = "-/metrics"
RETRY_AFTER = "5"  # seconds

_SIMPLE = re.compile(r"(?P<folder>(?:[^/]+/)?simple)(?:/(?P<project>[^/]+))?(?P<slash>/?)")
_CACHED = re.compile(r"(?:[^/]+/)?cache/(?P<project>[^/]+)/(?P<sha256>[^/]+)/(?P<filename>[^/]+)")
_SAFE = {"x-content-type-options": "nosniff"}
_REVALIDATED = {**_SAFE, "cache-control": "no-cache"}
_IMMUTABLE = {**_SAFE, "cache-control": "max-age=31536000, immutable"}
# Pages for people need no more: scripts, styles and pictures from here, none of them inline.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILE_HEADERS = raw({**_IMMUTABLE, "accept-ranges": "bytes"})
_JSON_HEADERS = raw({**_REVALIDATED, "vary": "Accept"})
_HTML_HEADERS = (*_JSON_HEADERS, *raw({"content-security-policy": _POLICY}))
_STATIC_HEADERS = raw({**_REVALIDATED, "content-security-policy": _POLICY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server is asked to do."""

    site: Path
    fallback: str | None = None  # URL of a simple repository
    cache: Path | None = None
    tokens: Path | None = None
    timeout: float = 10.0  # seconds for a page of the fallback


class Server:
    """The parts of a running server, and its handlers."""

    def __init__(self, settings: Settings) -> None:
        """Read the site and the tokens, take the cache; raises OutputError."""
        shared: dict[str, Any] = {
            "auth": FallbackAuth(settings.fallback or ""),
            "follow_redirects": True,
            "headers": {"User-Agent": f"metawheel/{__version__}"},
        }
        self._pages_client = httpx.AsyncClient(timeout=settings.timeout, **shared)
        self._files_client = httpx.AsyncClient(timeout=SILENCE, **shared)
        self._metrics = Metrics()
        self._site = Site(settings.site)
        self._tokens = Tokens(settings.tokens) if settings.tokens is not None else None
        self._fallback = (
            FallbackRepository(settings.fallback, self._pages_client, settings.timeout, self._metrics)
            if settings.fallback is not None
            else None
        )
        self._cache = Cache(settings.cache, self._files_client, self._metrics) if settings.cache is not None else None
        self._rewrite: Rewrite | None = cached_link if self._cache is not None else None

    def app(self) -> Starlette:
        middleware = [Middleware(Measured, metrics=self._metrics), Middleware(Limited)]
        if self._tokens is not None:
            middleware.append(Middleware(Guarded, tokens=self._tokens, free=frozenset({f"/{HEALTH}"})))
        app = Starlette(
            routes=[Route("/{path:path}", self._answer)],
            middleware=middleware,
            exception_handlers={HTTPException: _refused},
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False  # which path is a folder's is ours to say
        return app

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        async with self._pages_client, self._files_client:
            try:
                yield
            finally:
                if self._cache is not None:
                    await self._cache.close()

    def _health(self, state: State) -> Response:
        said = {
            "status": "ok" if self._site.problem is None else "stale",
            "site": state.inputs,
            "projects": len(state.owned),
            "broken": len(state.broken),
        }
        return JSONResponse(said, headers=_REVALIDATED)

    def _scrape(self, state: State) -> Response:
        self._metrics.projects.set(len(state.owned))
        self._metrics.stale.set(self._site.problem is not None)
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _answer(self, request: Request) -> Response:
        path: str = request.path_params["path"]
        state = await self._site.current()
        if (found := _SIMPLE.fullmatch(path)) is not None and found["folder"] in state.roots:
            request.scope[KIND] = "page"
            return await self._simple(request, state, found)
        if self._cache is not None and (found := _CACHED.fullmatch(path)) is not None:
            request.scope[KIND] = "cache"
            return await self._cached(request, state, self._cache, **found.groupdict())
        if path == HEALTH:
            return self._health(state)
        if path == METRICS:
            return self._scrape(state)
        return _static(request, state, path)

    async def _simple(self, request: Request, state: State, found: re.Match[str]) -> Response:
        folder, project, slash = found["folder"], found["project"], found["slash"]
        form = choose_format(", ".join(request.headers.getlist("accept")))
        if form is None:
            offered = ", ".join(form.value for form in Format)
            raise HTTPException(406, f"this page is there as {offered}", {"vary": "Accept"})
        headers = _JSON_HEADERS if form is Format.JSON_V1 else _HTML_HEADERS
        if project is None:
            if not slash:
                return _moved("simple/")
            if form not in state.roots[folder]:
                raise _damaged(f"{folder}/")
            return respond(request.headers, state.roots[folder][form], headers)
        name = _name(project)
        if not slash or name != project:
            return _moved(f"../{name}/" if slash else f"{name}/")
        page = await self._page(state, folder, name)
        body = ready_form(page, form, self._rewrite)
        if body is None:
            body = await asyncio.to_thread(make_form, page, form, self._rewrite)
        return respond(request.headers, body, headers)

    async def _page(self, state: State, folder: str, name: str) -> Page:
        """A project's page, ours before any other; raises HTTPException."""
        sources: Sequence[SimpleRepository] = [SiteRepository(state, folder)]
        if self._fallback is not None:
            sources = [*sources, self._fallback]
        chain = PrioritySelectedProjectsRepository(sources) if len(sources) > 1 else sources[0]
        try:
            return cast("Page", await chain.get_project_page(name))  # both sources give pages
        except errors.PackageNotFoundError:
            where = "" if self._fallback is None else f", nor at {self._fallback.url}"
            raise HTTPException(404, f"{name} is not here{where}") from None
        except Withheld as error:
            raise HTTPException(404, str(error)) from None
        except BrokenPage as error:
            raise HTTPException(500, str(error)) from None
        except FallbackError as error:
            raise HTTPException(error.status, str(error)) from None

    async def _cached(
        self, request: Request, state: State, cache: Cache, project: str, sha256: str, filename: str
    ) -> Response:
        """A file of the cache, fetched first if it is not there yet and a page lists it."""
        if SHA256.fullmatch(sha256) is None:
            raise HTTPException(404, "that is no sha256")
        is_metadata = filename.endswith(".metadata")
        try:
            place = await cache.find(f"{sha256}.metadata" if is_metadata else sha256)
            if is_current(request.headers, etag := etag_of(sha256)) and place is not None and not is_metadata:
                return Response(status_code=304, headers={**_IMMUTABLE, "etag": etag})
            if place is None:
                wanted = await self._wanted(state, project, sha256, filename.removesuffix(".metadata"))
                place = await (cache.fetch_metadata(wanted) if is_metadata else cache.fetch(wanted))
        except CacheError as error:
            raise HTTPException(error.status, str(error)) from None
        if is_metadata:
            content = await asyncio.to_thread(place.read_bytes)
            return respond(request.headers, Body.of(content, "application/octet-stream"), _FILE_HEADERS)
        headers = {**_IMMUTABLE, "etag": etag}
        return FileResponse(place, headers=headers, media_type="application/octet-stream", stat_result=place.stat())

    async def _wanted(self, state: State, project: str, sha256: str, filename: str) -> Wanted:
        """The file that a page of the whole index lists; raises HTTPException where none does."""
        page = await self._page(state, "simple", _name(project))
        for file in page.files:
            if file.filename == filename and file.hashes.get("sha256") == sha256 and is_remote(file):
                return _wanted(file)
        raise HTTPException(404, f"{project}'s page lists no {filename} with this sha256 on another server")


def _name(project: str) -> str:
    """A project's normalized name; raises HTTPException for what can be none: it is asked for nowhere."""
    try:
        return canonicalize_name(project, validate=True)
    except InvalidName:
        raise HTTPException(404, "that is no project's name") from None


def _wanted(file: model.File) -> Wanted:
    metadata = file.dist_info_metadata
    digest = metadata.get("sha256", "true") if isinstance(metadata, dict) else "true" if metadata else None
    return Wanted(
        filename=file.filename,
        url=file.url,
        sha256=file.hashes["sha256"],
        size=file.size,
        metadata=digest,
    )


def _static(request: Request, state: State, path: str) -> Response:
    """Any other file of the site."""
    request.scope[KIND] = "file" if path.startswith("files/") else "static"
    if not path or path.endswith("/"):
        path += "index.html"
    elif f"{path}/index.html" in state.bodies:
        return _moved(f"{path.rpartition('/')[2]}/")
    headers = _FILE_HEADERS if path.startswith("files/") else _STATIC_HEADERS
    return respond(request.headers, _whole(state, path), headers)


def _whole(state: State, path: str) -> Body:
    """A file of the site; raises HTTPException."""
    if path in state.bodies:
        return state.bodies[path]
    if path in state.broken:
        raise _damaged(path)
    raise HTTPException(404, "there is nothing here")


def _damaged(path: str) -> HTTPException:
    return HTTPException(500, f"{path} is not as it was built; run `metawheel build` again")


async def _refused(_request: Request, error: Exception) -> Response:
    """A refusal is one sentence."""
    refusal = cast("HTTPException", error)
    headers = {**_SAFE, **(refusal.headers or {})}
    if refusal.status_code == 503:  # what a moment later may be otherwise; on others clients would wait in vain
        headers["retry-after"] = RETRY_AFTER
    return PlainTextResponse(f"{refusal.detail}\n", refusal.status_code, headers=headers)


def _moved(location: str) -> Response:
    """A relative redirect: right behind a proxy that serves us below a path of its own, too."""
    return RedirectResponse(location, 301, headers=_REVALIDATED)
