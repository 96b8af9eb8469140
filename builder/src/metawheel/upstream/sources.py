"""From a family's sources to the files that upstream lists for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote

from packaging.utils import InvalidWheelFilename
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from metawheel.branches import file_platforms
from metawheel.errors import Unparsable, Unreachable
from metawheel.family import Family, Source
from metawheel.files import sha256_of
from metawheel.model import Problem, UpstreamFile
from metawheel.upstream.http import Fetcher
from metawheel.upstream.pages import Listing, parse_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """All that a family's sources list."""

    files: tuple[UpstreamFile, ...]
    pages: dict[tuple[str, str], str]  # (source, project) → the page that lists it
    problems: tuple[Problem, ...]
    links: int


def addresses(family: Family) -> Iterator[str]:
    """The pages that a family's sources are read from."""
    for source in family.source:
        if source.kind != "folder":
            yield from dict.fromkeys(address for address, _ in _pages(source))


def _pages(source: Source) -> Iterator[tuple[str, str]]:
    for project in source.projects:
        if source.kind == "pypi":
            yield pypi_page(project), project
        else:
            yield source.url.replace("{project}", project), project


def pypi_page(project: str) -> str:
    return f"{PYPI_SIMPLE_ENDPOINT}{project}/"


class Reader:
    """Reads each page once, however many families list it."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._listings: dict[tuple[str, str, str], Listing] = {}

    def listing(self, source: Source, address: str) -> Listing:
        """What a page lists, for a source of this name and kind; raises SourceError."""
        key = (address, source.name, source.kind)
        if key not in self._listings:
            page = self._fetcher.page(address)
            sha256_from = "pypi" if source.kind == "pypi" else "page"
            self._listings[key] = parse_page(page, source.name, sha256_from=sha256_from)
        return self._listings[key]


def read_upstream(family: Family, reader: Reader) -> Upstream:
    """Read every source of a family and keep the files it wants; raises SourceError."""
    files: list[UpstreamFile] = []
    problems: list[Problem] = []
    pages: dict[tuple[str, str], str] = {}
    links = 0
    for source in family.source:
        listings: dict[str, Listing] = {}
        for address, project in _pages(source):
            pages[source.name, project] = address
            if address not in listings:
                is_folder = source.kind == "folder"
                listings[address] = _read_folder(family, source) if is_folder else reader.listing(source, address)
        for listing in listings.values():
            problems += listing.problems
            links += listing.links
            for listed in listing.files:
                file = _canonical(source, listed)
                if file.project in source.projects and wants(family, file):
                    files.append(file)
    return Upstream(files=tuple(files), pages=pages, problems=tuple(dict.fromkeys(problems)), links=links)


def wants(family: Family, file: UpstreamFile) -> bool:
    """Whether a file belongs in a family's ledger."""
    return family.wants(file, {platform.sys_platform for platform in file_platforms(file)})


def _canonical(source: Source, file: UpstreamFile) -> UpstreamFile:
    if source.kind == "pypi":
        return replace(file, url=None)  # PyPI's pages give it when a site is built
    return replace(file, url=source.canonical(file.url or ""))


def _read_folder(family: Family, source: Source) -> Listing:
    folder = family.folder / source.path
    if not folder.is_dir():
        raise Unreachable(str(folder), "is no folder")
    files: list[UpstreamFile] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("**/*.whl")):
        url = source.url.rstrip("/") + "/" + quote(path.relative_to(folder).as_posix())
        file = UpstreamFile(
            filename=path.name,
            source=source.name,
            url=url,
            sha256=sha256_of(path),
            sha256_from="computed",
            size=path.stat().st_size,
        )
        try:
            file.name  # noqa: B018  parsed once, here
        except InvalidWheelFilename as error:
            problems.append(Problem(url=str(folder), item=path.name, reason=str(error)))
        else:
            files.append(file)
    if not files:
        raise Unparsable(str(folder), "holds no wheel")
    return Listing(url=str(folder), files=tuple(files), problems=tuple(problems), links=len(files) + len(problems))
