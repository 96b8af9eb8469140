"""Our repository: a built site, held in memory a state at a time, and found again when a build has replaced it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import mimetypes
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from simple_repository import SimpleRepository, errors, model
from simple_repository.content_negotiation import Format

from metawheel.errors import MetawheelError, OutputError
from metawheel.serve.body import Body, etag_of
from metawheel.serve.page import Page, Versions
from metawheel.site import MANIFEST, Manifest

ATTEMPTS = 5  # at a state, while builds follow one another
RETRY = 1.0  # seconds until a state that could not be read is tried again
REPAIR = 5.0  # seconds until damaged files are looked at again

_PAGE = re.compile(r"(?P<folder>(?:[^/]+/)?simple)/(?:(?P<project>[^/]+)/)?index\.(?P<form>html|json)")
_log = logging.getLogger(__name__)


class BrokenPage(MetawheelError):
    """A page of ours that is missing, or not as it was built."""


class Withheld(LookupError):
    """A name of ours that this view does not list: it is looked up nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state of a site: every file as the manifest says it."""

    inputs: str
    bodies: Mapping[str, Body]  # path in the site → content
    pages: Mapping[tuple[str, str], Page | None]  # (simple folder, project); None where the page is damaged
    roots: Mapping[str, Mapping[Format, Body]]  # simple folder, of the whole or of a view → its list of projects
    owned: frozenset[str]  # projects
    broken: Mapping[str, str]  # path of a file that is missing or altered → the sha256 that it had when built


class SiteRepository(SimpleRepository):
    """The projects of one simple folder of a state."""

    def __init__(self, state: State, folder: str) -> None:
        self._state = state
        self._folder = folder

    async def get_project_page(
        self,
        project_name: str,
        *,
        request_context: model.RequestContext | None = None,  # noqa: ARG002 the interface has it
    ) -> model.ProjectDetail:
        """An owned name's page; PackageNotFoundError, which leads on to the next index, only for other names.

        Raises Withheld for what only other views list, BrokenPage for a damaged page.
        """
        if project_name not in self._state.owned:
            raise errors.PackageNotFoundError(project_name)
        try:
            page = self._state.pages[self._folder, project_name]
        except KeyError:
            raise Withheld(f"{project_name} is not in this view; other views of this index have it") from None
        if page is None:
            raise BrokenPage(f"{self._folder}/{project_name}/ is not as it was built; run `metawheel build` again")
        return page


class Site:
    """A site's folder, watched: each request asks for the state it is in."""

    def __init__(self, folder: Path) -> None:
        """Read the first state; raises OutputError where there is none."""
        self._folder = folder
        self._manifest = str(folder / MANIFEST)  # looked at for each request
        self.problem: str | None = None  # why the last state is still served
        self._lock = asyncio.Lock()
        self._tried = time.monotonic()
        self._key, self._state = load(folder)

    async def current(self) -> State:
        """The state that the folder is in now; the last one while that cannot be read."""
        if _key(self._manifest) == self._key and not self._is_due():
            return self._state
        async with self._lock:
            if _key(self._manifest) != self._key:
                if time.monotonic() >= self._tried + RETRY * (self.problem is not None):
                    await self._reload()
            elif self._is_due():
                self._tried = time.monotonic()
                if await asyncio.to_thread(_is_mended, self._folder, self._state):
                    await self._reload()
        return self._state

    def _is_due(self) -> bool:
        """Whether what is damaged is to be looked at again: it may have been put right, file by file."""
        return bool(self._state.broken) and time.monotonic() >= self._tried + REPAIR

    async def _reload(self) -> None:
        self._tried = time.monotonic()
        try:
            self._key, self._state = await asyncio.to_thread(load, self._folder)
            self.problem = None
        except MetawheelError as error:
            self.problem = str(error)
            _log.error("the last state is still served: %s", error)


Key = tuple[int, int, int] | None


def _key(manifest: str) -> Key:
    """What tells one state from the next: a build writes a new manifest each time."""
    try:
        found = os.stat(manifest)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def load(folder: Path) -> tuple[Key, State]:
    """Read a whole state; again if the folder was replaced meanwhile. Raises OutputError."""
    place = str(folder / MANIFEST)
    for _ in range(ATTEMPTS):
        key = _key(place)
        manifest = Manifest.load(folder)
        if manifest is not None:
            state = _state(folder, manifest)
            if key == _key(place):
                return key, state
    if manifest is None:
        raise OutputError(f"{folder}: there is no site; make one with `metawheel build -o {folder}`")
    raise OutputError(f"{folder}: is replaced again and again; try later")


def _state(folder: Path, manifest: Manifest) -> State:
    wanted = manifest.files
    found = {path: _read(folder, path, sha256) for path, sha256 in wanted.items()}
    bodies = {path: body for path, body in found.items() if body is not None}
    bodies[MANIFEST] = Body.of(manifest.dump(), "application/json")
    listed = [match for path in wanted if (match := _PAGE.fullmatch(path)) is not None]
    pages = {
        (match["folder"], match["project"]): _page(match["project"], match["folder"], bodies)
        for match in listed
        if match["project"] is not None
    }
    broken = {path: wanted[path] for path, body in found.items() if body is None}
    for path in sorted(broken):
        _log.error("%s: is missing or not as it was built; run `metawheel build` again", folder / path)
    return State(
        inputs=manifest.inputs,
        bodies=bodies,
        pages=pages,
        roots={match["folder"]: _forms(match["folder"], bodies) for match in listed},
        owned=frozenset(project for _, project in pages),
        broken=broken,
    )


def _is_mended(folder: Path, state: State) -> bool:
    """Whether a file that was damaged is whole again."""
    return any(_read(folder, path, sha256) is not None for path, sha256 in state.broken.items())


def _read(folder: Path, path: str, sha256: str) -> Body | None:
    """A file of the site, if it has the content that the manifest says: whatever else a link leads to is not ours."""
    try:
        content = (folder / path).read_bytes()
    except (OSError, ValueError):
        return None
    if hashlib.sha256(content).hexdigest() != sha256:
        return None
    return Body(content=content, media_type=_media_type(path), etag=etag_of(sha256))


def _media_type(path: str) -> str:
    found = _PAGE.fullmatch(path)
    if found is not None and found["form"] == "json":
        return Format.JSON_V1.value
    if path.endswith((".whl", ".metadata")):
        return "application/octet-stream"
    guessed = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed


def _page(project: str, folder: str, bodies: Mapping[str, Body]) -> Page | None:
    """A page of ours, with its forms as they were built; None unless it is whole."""
    try:
        built = _forms(f"{folder}/{project}", bodies)
        data = json.loads(built[Format.JSON_V1].content)
        files = tuple(
            model.File(
                filename=file["filename"],
                url=file["url"],
                hashes=file["hashes"],
                requires_python=file.get("requires-python"),
                dist_info_metadata=file.get("core-metadata"),
                yanked=file["yanked"],
                size=file.get("size"),
            )
            for file in data["files"]
        )
        meta, versions = model.Meta(data["meta"]["api-version"]), Versions(data["versions"])
    except (KeyError, ValueError, TypeError):
        return None
    return Page(meta, project, files, versions, built=built)


def _forms(folder: str, bodies: Mapping[str, Body]) -> Mapping[Format, Body]:
    """The forms of a folder's page; none unless they are all there."""
    try:
        html, as_json = bodies[f"{folder}/index.html"], bodies[f"{folder}/index.json"]
    except KeyError:
        return {}
    named = replace(html, media_type=Format.HTML_V1.value, etag=f'{html.etag[:-1]}.v1"')
    return {Format.HTML_LEGACY: html, Format.HTML_V1: named, Format.JSON_V1: as_json}
