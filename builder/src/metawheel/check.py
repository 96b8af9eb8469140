"""`metawheel check`: prove a site against its promises, from nothing but what lies in its folder."""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import hashlib
import io
import itertools
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4.exceptions import ParserRejectedMarkup
from packaging.markers import Marker
from packaging.metadata import Metadata, RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pypi_simple import DistributionPackage, ProjectPage, RepositoryPage, UnsupportedRepoVersionError

from metawheel.errors import MALFORMED, OutputError
from metawheel.project import METADATA_VERSION
from metawheel.site import MANIFEST, Manifest

BASE = "http://site.invalid/"  # what relative links are resolved against, to find them on disk

# Every kind of environment that the lines' markers can tell apart, and some that none of them names.
SYSTEMS = ("linux", "darwin", "win32", "freebsd14", "emscripten")
MACHINES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64", "x86", "i686", "s390x", "ppc64le", "riscv64", "wasm32")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A promise that does not hold, and where."""

    where: str
    what: str


def check_site(site: Path) -> list[Finding]:
    """Everything in a site that is not as promised; empty for a good site. Raises OutputError if it is no site."""
    manifest = Manifest.load(site)
    if manifest is None:
        raise OutputError(f"{site}: is not a site of metawheel")
    findings: list[Finding] = []
    wheels = {path.name: path for path in sorted((site / "files").glob("*.whl"))}
    metadata = {name: _check_wheel(path, findings) for name, path in wheels.items()}
    listed: set[str] = set()
    for folder in sorted(path.parent for path in site.glob("**/simple/index.html")):
        listed |= _check_index(site, folder, wheels, metadata, findings)
    findings += [Finding(f"files/{name}", "is listed on no page") for name in sorted(set(wheels) - listed)]
    sidecars = {path.name.removesuffix(".metadata") for path in (site / "files").glob("*.metadata")}
    findings += [Finding(f"files/{name}.metadata", "belongs to no wheel") for name in sorted(sidecars - set(wheels))]
    findings += _check_manifest(site, manifest)
    findings += _check_descriptions(wheels.values())
    return sorted(set(findings))


def _check_manifest(site: Path, manifest: Manifest) -> Iterator[Finding]:
    there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    known = {MANIFEST, *manifest.pages}
    known |= {f"files/{name}{end}" for name in manifest.wheels for end in ("", ".metadata")}
    yield from (Finding(path, "is missing") for path in sorted(known - there))
    yield from (Finding(path, "is no part of the site") for path in sorted(there - known))
    for path, sha256 in manifest.pages.items():
        if path in there and hashlib.sha256((site / path).read_bytes()).hexdigest() != sha256:
            yield Finding(path, "is not the page that was built")


def _check_wheel(path: Path, findings: list[Finding]) -> RawMetadata:
    """Look into one wheel; returns its METADATA."""
    where = f"files/{path.name}"
    try:
        with zipfile.ZipFile(path) as wheel:
            content = {name: wheel.read(name) for name in wheel.namelist()}
        project, version, _, tags = parse_wheel_filename(path.name)
        info = f"{path.name.split('-')[0]}-{version}.dist-info"
        metadata = content[f"{info}/METADATA"]
        record = content[f"{info}/RECORD"].decode()
        wheel_tags = {
            line.partition(": ")[2] for line in content[f"{info}/WHEEL"].decode().splitlines() if "Tag" in line
        }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        findings.append(Finding(where, f"is not a wheel: {error}"))
        return RawMetadata()
    if _record(content, f"{info}/RECORD") != sorted(csv.reader(io.StringIO(record))):
        findings.append(Finding(where, "its RECORD does not match its content"))
    if wheel_tags != {str(tag) for tag in tags}:
        findings.append(Finding(where, "its tags are not those of its file name"))
    sidecar = path.with_name(f"{path.name}.metadata")
    if not sidecar.is_file() or sidecar.read_bytes() != metadata:
        findings.append(Finding(f"{where}.metadata", "is not the METADATA in the wheel, byte for byte"))
    raw, _ = parse_email(metadata)
    try:
        Metadata.from_raw(raw)
    except ExceptionGroup as group:
        findings += [Finding(where, f"METADATA: {error}") for error in group.exceptions]
    if raw.get("metadata_version") != METADATA_VERSION:
        findings.append(Finding(where, f"Metadata-Version is not {METADATA_VERSION}"))
    if (canonicalize_name(raw.get("name", "")), raw.get("version")) != (project, str(version)):
        findings.append(Finding(where, "METADATA has another name or version than the file"))
    findings += (Finding(where, what) for what in check_lines(raw.get("requires_dist", [])))
    return raw


def _record(content: dict[str, bytes], own: str) -> list[list[str]]:
    rows = [[own, "", ""]]
    for name, data in content.items():
        if name != own:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append([name, f"sha256={digest}", str(len(data))])
    return sorted(rows)


def check_lines(lines: Iterable[str]) -> Iterator[str]:
    """What is wrong with a wrapper's Requires-Dist lines, as clients would meet it."""
    pinned: dict[str, list[Requirement]] = defaultdict(list)
    holes: list[str] = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            yield f"the line {line!r} cannot be parsed: {error}"
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        if "===" in operators:
            yield f"the line {line!r} uses ===, which Poetry skips"
        if requirement.url is None and operators != {"=="}:
            yield f"the line {line!r} is not an exact pin"
        if requirement.url is not None and "#sha256=" not in requirement.url:
            yield f"the line {line!r} has no sha256"
        if "extra" not in str(requirement.marker or "") and requirement.url is None:
            pinned[requirement.name].append(requirement)
    for project, found in pinned.items():
        counts = set(_counts(tuple(sorted(str(requirement.marker or "") for requirement in found))))
        if max(counts, default=0) > 1:
            yield f"two lines on {project} hold in one environment"
        if 0 in counts:
            holes.append(project)
    # What is required beside the wrapped project, a plugin, may be left out somewhere; one project must be everywhere.
    several = {project for project, found in pinned.items() if len({str(r.specifier) for r in found}) > 1}
    for project in holes if pinned and len(holes) == len(pinned) else sorted(several & set(holes)):
        yield f"no line on {project} holds in some environments"


@functools.cache
def _counts(markers: tuple[str, ...]) -> frozenset[int]:
    """How many of some markers are true, over all environments."""
    parsed = [Marker(marker) if marker else None for marker in markers]
    return frozenset(
        sum(m is None or m.evaluate({"sys_platform": system, "platform_machine": machine}) for m in parsed)
        for system, machine in itertools.product(SYSTEMS, MACHINES)
    )


def _check_index(
    site: Path, folder: Path, wheels: dict[str, Path], metadata: dict[str, RawMetadata], findings: list[Finding]
) -> set[str]:
    """Look at one simple index, the merged one or a view; returns the wheels that it lists."""
    at = folder.relative_to(site).as_posix()
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
    findings += _check_pins(at, {name: metadata[name] for name in listed if name in metadata}, versions)
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
            yanked=f"yanked: {package.yanked_reason or ''}" if package.is_yanked else "",
            metadata=(package.metadata_digests or {}).get("sha256", "true") if package.has_metadata else "",
        )
        for package in packages
    )


def _html_files(folder: Path, project: str, base: str) -> list[_Listed]:
    try:
        text = (folder / "index.html").read_text(encoding="utf-8")
        return _listed(ProjectPage.from_html(project, text, base).packages)
    except (ValueError, UnsupportedRepoVersionError, ParserRejectedMarkup):
        return []


def _json_files(folder: Path, base: str) -> list[_Listed]:
    try:
        return _listed(ProjectPage.from_json_data(json.loads((folder / "index.json").read_bytes()), base).packages)
    except (OSError, *MALFORMED, UnsupportedRepoVersionError):
        return []


def _root_html(folder: Path) -> set[str]:
    try:
        links = RepositoryPage.from_html((folder / "index.html").read_text(encoding="utf-8")).links
    except (ValueError, UnsupportedRepoVersionError, ParserRejectedMarkup):
        return set()
    return {unquote(link.url).rstrip("/") for link in links}


def _root_json(folder: Path) -> set[str]:
    try:
        return {project["name"] for project in json.loads((folder / "index.json").read_bytes())["projects"]}
    except (OSError, *MALFORMED):
        return set()


def _check_link(page: str, project: str, item: _Listed, wheels: dict[str, Path], findings: list[Finding]) -> set[str]:
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
    path = wheels.get(item.filename)
    if path is None or urljoin(BASE, f"files/{item.filename}") != item.url:
        findings.append(Finding(where, "links to a file that is not there"))
        return set()
    if item.sha256 != hashlib.sha256(path.read_bytes()).hexdigest():
        findings.append(Finding(where, "its sha256 is not that of the file"))
    if (
        not (sidecar := path.with_name(f"{path.name}.metadata")).is_file()
        or item.metadata != hashlib.sha256(sidecar.read_bytes()).hexdigest()
    ):
        findings.append(Finding(where, "its METADATA hash is not that of the .metadata file"))
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
                if "+" in specifier.version and Version(specifier.version) not in versions.get(project, set()):
                    yield Finding(f"{at}: {name}", f"pins {project} {specifier.version}, which the index does not list")


def _check_descriptions(wheels: Iterable[Path]) -> Iterator[Finding]:
    """What `twine check --strict` says: one wheel for each METADATA, they are many and alike."""
    from twine.commands.check import check
    from twine.exceptions import TwineException

    distinct = {}
    for path in wheels:
        sidecar = path.with_name(f"{path.name}.metadata")
        if sidecar.is_file():
            distinct[hashlib.sha256(sidecar.read_bytes()).digest()] = str(path)
    messages = io.StringIO()
    with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
        try:
            failed = bool(distinct) and check(sorted(distinct.values()), strict=True)
        except TwineException as error:
            failed = True
            messages.write(str(error))
    if failed:
        lines = [line.strip() for line in messages.getvalue().splitlines() if "PASSED" not in line and line.strip()]
        yield Finding("files", f"twine check --strict: {' '.join(lines)[:2000]}")
