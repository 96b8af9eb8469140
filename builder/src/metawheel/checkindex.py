"""The simple indexes of a site as `metawheel check` sees them: pages that agree, right links, pins that are there."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4.exceptions import ParserRejectedMarkup
from packaging.metadata import RawMetadata
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pypi_simple import DistributionPackage, ProjectPage, RepositoryPage, UnsupportedRepoVersionError

from metawheel.errors import MALFORMED
from metawheel.files import has_content
from metawheel.site import FILES

BASE = "http://site.invalid/"  # what relative links are resolved against, to find them on disk

# What reading a page raises that is none.
NO_HTML = (OSError, ValueError, UnsupportedRepoVersionError, ParserRejectedMarkup)
NO_JSON = (OSError, *MALFORMED, UnsupportedRepoVersionError)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A promise that does not hold, and where."""

    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheels:
    """What a site has beside its pages, for these to be compared with."""

    site: Path
    metadata: Mapping[str, RawMetadata]  # of the wheels that are there, by file name
    yanked: Mapping[str, str | None]  # what the manifest says of its wheels, by file name


def check_index(folder: Path, wheels: Wheels, findings: list[Finding]) -> set[str]:
    """Look at one simple index, the merged one or a view; returns the wheels that it lists."""
    at = folder.relative_to(wheels.site).as_posix()
    projects = {path.parent.name for path in folder.glob("*/index.html")}
    for name, found in (("index.html", _root_html(folder)), ("index.json", _root_json(folder))):
        if found != projects:
            findings.append(Finding(f"{at}/{name}", f"does not list exactly its projects: {sorted(found ^ projects)}"))
    listed: set[str] = set()
    versions: dict[str, set[Version]] = defaultdict(set)
    for project in sorted(projects):
        page = f"{at}/{project}"
        packages = _html_files(folder / project, project, f"{BASE}{page}/")
        if packages != _json_files(folder / project, f"{BASE}{page}/"):
            findings.append(Finding(page, "HTML and JSON do not say the same"))
        for item in packages:
            listed |= _check_link(page, project, item, wheels, findings)
            with contextlib.suppress(InvalidWheelFilename):  # found by _check_link
                versions[project].add(parse_wheel_filename(item.filename)[1])
    findings += _check_pins(at, {name: wheels.metadata[name] for name in listed}, versions)
    return listed


@dataclass(frozen=True, slots=True, order=True)
class _Listed:
    filename: str
    url: str
    sha256: str
    requires_python: str
    yanked: str
    metadata: str


def _listed(packages: Iterable[DistributionPackage]) -> list[_Listed]:
    return sorted(
        _Listed(
            filename=package.filename,
            url=package.url,
            sha256=package.digests.get("sha256", ""),
            requires_python=package.requires_python or "",
            yanked=_yank((package.yanked_reason or "") if package.is_yanked else None),
            metadata=(package.metadata_digests or {}).get("sha256", "true") if package.has_metadata else "",
        )
        for package in packages
    )


def _yank(reason: str | None) -> str:
    return "" if reason is None else f"yanked: {reason}"


def _html_files(folder: Path, project: str, base: str) -> list[_Listed]:
    try:
        text = (folder / "index.html").read_text(encoding="utf-8")
        return _listed(ProjectPage.from_html(project, text, base).packages)
    except NO_HTML:
        return []


def _json_files(folder: Path, base: str) -> list[_Listed]:
    try:
        return _listed(ProjectPage.from_json_data(json.loads((folder / "index.json").read_bytes()), base).packages)
    except NO_JSON:
        return []


def _root_html(folder: Path) -> set[str]:
    try:
        links = RepositoryPage.from_html((folder / "index.html").read_text(encoding="utf-8")).links
    except NO_HTML:
        return set()
    return {unquote(link.url).rstrip("/") for link in links}


def _root_json(folder: Path) -> set[str]:
    try:
        return {str(project["name"]) for project in json.loads((folder / "index.json").read_bytes())["projects"]}
    except NO_JSON:
        return set()


def _check_link(page: str, project: str, item: _Listed, wheels: Wheels, findings: list[Finding]) -> set[str]:
    where = f"{page}: {item.filename}"
    if not item.sha256:
        findings.append(Finding(where, "has no sha256"))
    try:
        name, *_ = parse_wheel_filename(item.filename)
    except InvalidWheelFilename as error:
        findings.append(Finding(where, str(error)))
        return set()
    if name != project or unquote(urlsplit(item.url).path.rpartition("/")[2]) != item.filename:
        findings.append(Finding(where, "is not what its page or its address says"))
    if not item.url.startswith(BASE):
        return set()
    if item.filename not in wheels.metadata or urljoin(BASE, f"{FILES}/{item.filename}") != item.url:
        findings.append(Finding(where, "links to a file that is not there"))
        return set()
    path = wheels.site / FILES / item.filename
    if not has_content(path, item.sha256):
        findings.append(Finding(where, "its sha256 is not that of the file"))
    if not has_content(f"{path}.metadata", item.metadata):
        findings.append(Finding(where, "its METADATA hash is not that of the .metadata file"))
    if item.filename in wheels.yanked and item.yanked != _yank(wheels.yanked[item.filename]):
        findings.append(Finding(where, "is yanked otherwise than the manifest says"))
    return {item.filename}


def _check_pins(at: str, metadata: dict[str, RawMetadata], versions: dict[str, set[Version]]) -> Iterator[Finding]:
    """Every version with a label that a wrapper pins must be on the index that lists the wrapper."""
    for name, raw in sorted(metadata.items()):
        for line in raw.get("requires_dist", []):
            try:
                requirement = Requirement(line)
            except InvalidRequirement:  # found by check_lines
                continue
            for specifier in requirement.specifier:
                project = canonicalize_name(requirement.name)
                if specifier.operator != "==" or "+" not in specifier.version:
                    continue
                if Version(specifier.version) not in versions.get(project, set()):
                    yield Finding(f"{at}: {name}", f"pins {project} {specifier.version}, which the index does not list")
