"""Servers that take uploads: which one a URL belongs to, where its simple index lies and what it refuses. Pure."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import urljoin

from packaging.metadata import RawMetadata
from packaging.requirements import Requirement
from packaging.version import Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT
from twine import repository as twine_repository

from metawheel.errors import PublishError
from metawheel.model import wheel_name
from metawheel.upstream.mirrors import PYPI

GENERIC = "generic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A kind of server, as servers.toml describes it; None where that says nothing."""

    name: str
    replaces: str  # "never", "always" or "as set up"
    constant: str | None = None
    upload: str | None = None
    greets: str | None = None
    index: str | None = None
    no_root: bool = False
    forwards: bool = False
    direct: bool | None = None
    local_pins: bool | None = None
    refused_tags: str | None = None
    metadata: str | None = None

    def index_url(self, upload_url: str) -> str | None:
        """Where its simple index lies, with a slash at the end; None where it has to be named."""
        if self.index == PYPI:
            return PYPI_SIMPLE_ENDPOINT
        return urljoin(_slashed(upload_url), self.index) if self.index is not None else None


@functools.cache
def servers() -> Mapping[str, Server]:
    """Every known kind of server, by name."""
    data = tomllib.loads((files("metawheel.publish") / "servers.toml").read_text(encoding="utf-8"))
    return {
        name: Server(name=name, **{key.replace("-", "_"): value for key, value in facts.items()})
        for name, facts in data.items()
    }


def named(name: str) -> Server:
    """The server that --server names; raises PublishError."""
    if name not in servers():
        raise PublishError(f"no server is called {name!r}; known are {', '.join(servers())}")
    return servers()[name]


def by_url(upload_url: str) -> Server | None:
    """The server that an upload URL tells by its form."""
    for server in servers().values():
        start = getattr(twine_repository, server.constant) if server.constant is not None else None
        if start is not None and upload_url.startswith(start):
            return server
        if server.upload is not None and re.search(server.upload, upload_url):
            return server
    return None


def by_greeting(answer: str) -> Server | None:
    """The server that tells itself by what it answers to a GET of its upload URL."""
    known = (server for server in servers().values() if server.greets is not None)
    return next((server for server in known if re.search(server.greets or "", answer)), None)


def refusals(server: Server, filename: str, metadata: RawMetadata) -> tuple[str, ...]:
    """Why a server is known to refuse a wheel; empty where nothing speaks against it."""
    found = []
    requirements = [Requirement(line) for line in metadata.get("requires_dist", ())]
    if server.direct is False and any(line.url is not None for line in requirements):
        found.append("its requirements are direct references")
    if server.local_pins is False and any(_is_local(line) for line in requirements):
        found.append("its requirements pin local version labels")
    if server.refused_tags is not None:
        platforms = sorted({tag.platform for tag in wheel_name(filename).tags})
        refused = [tag for tag in platforms if re.fullmatch(server.refused_tags, tag)]
        if refused:
            found.append(f"its file name has the platform tag {', '.join(refused)}")
    written = metadata.get("metadata_version", "")
    if server.metadata is not None and Version(written) > Version(server.metadata):
        found.append(f"its Metadata-Version is {written}, newer than {server.metadata}")
    return tuple(found)


def advice(reasons: Iterable[str]) -> str:
    """What to do about wheels that a server refuses."""
    direct = any("direct references" in reason for reason in reasons)
    return "build the pinned flavour, or publish to another index" if direct else "publish these to another index"


def _is_local(line: Requirement) -> bool:
    return any("+" in clause.version for clause in line.specifier)


def _slashed(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"
