"""`metawheel check`: prove a site against its promises, from nothing but what lies in its folder."""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import hashlib
import io
import itertools
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import Metadata, RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from metawheel.checkindex import Finding, Wheels, check_index
from metawheel.files import has_content, sha256_of
from metawheel.project import METADATA_VERSION
from metawheel.site import FILES, MANIFEST, Manifest
from metawheel.wheelcopy import DAMAGED

__all__ = ["Finding", "check_lines", "check_site"]

# Every kind of environment that the lines' markers can tell apart, and some that none of them names.
SYSTEMS = ("linux", "darwin", "win32", "freebsd14", "emscripten")
MACHINES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64", "x86", "i686", "s390x", "ppc64le", "riscv64", "wasm32")


def check_site(site: Path) -> list[Finding]:
    """Everything in a site that is not as promised; empty for a good site. Raises OutputError if it is no site."""
    manifest = Manifest.of(site)
    findings: list[Finding] = []
    paths = {path.name: path for path in sorted((site / FILES).glob("*.whl")) if path.is_file()}
    direct = {name for wrapper in manifest.wrappers if wrapper.flavour == "direct" for name in wrapper.wheels}
    metadata = {name: _check_wheel(path, findings, is_direct=name in direct) for name, path in paths.items()}
    yanked = {name: wrapper.yanked for wrapper in manifest.wrappers for name in wrapper.wheels}
    wheels = Wheels(site=site, metadata=metadata, yanked=yanked)
    listed: set[str] = set()
    for folder in sorted(path.parent for path in site.glob("**/simple/index.html")):
        listed |= check_index(folder, wheels, findings)
    findings += [Finding(f"{FILES}/{name}", "is listed on no page") for name in sorted(set(paths) - listed)]
    sidecars = {path.name.removesuffix(".metadata") for path in (site / FILES).glob("*.metadata")}
    findings += [Finding(f"{FILES}/{name}.metadata", "belongs to no wheel") for name in sorted(sidecars - set(paths))]
    findings += _check_files(site, manifest)
    findings += _check_wrappers(manifest, metadata)
    findings += _check_descriptions(path for name, path in paths.items() if metadata[name])  # those that can be read
    return sorted(set(findings))


def _check_files(site: Path, manifest: Manifest) -> Iterator[Finding]:
    """The files of the site must be those that the manifest lists."""
    there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_symlink() or not path.is_dir()}
    known = {MANIFEST, *manifest.files}
    yield from (Finding(path, "is missing") for path in sorted(known - there))
    yield from (Finding(path, "is no part of the site") for path in sorted(there - known))
    for path, sha256 in manifest.files.items():
        if path in there and not ((site / path).is_file() and has_content(site / path, sha256)):
            yield Finding(path, "is not what was built")
    for name, item in manifest.wheels.items():
        if (wheel := site / FILES / name).is_file() and wheel.stat().st_size != item.size:
            yield Finding(f"{MANIFEST}: {name}", "is not as large as the manifest says")


def _check_wrappers(manifest: Manifest, metadata: Mapping[str, RawMetadata]) -> Iterator[Finding]:
    """What the manifest says of its wrappers must be what their wheels say."""
    of_wrappers = {name for wrapper in manifest.wrappers for name in wrapper.wheels}
    for name in sorted(of_wrappers ^ manifest.wheels.keys()):
        yield Finding(f"{MANIFEST}: {name}", "is not both a wheel of the site and one of a wrapper")
    for wrapper in manifest.wrappers:
        for name in wrapper.wheels:
            raw = metadata.get(name)
            if not raw:
                continue
            python = raw.get("requires_python", "")
            lines = (line for line in raw.get("requires_dist", []) if "extra ==" not in line)
            for key, one, other in (
                ("name", wrapper.name, raw.get("name")),
                ("version", wrapper.version, raw.get("version")),
                ("summary", wrapper.summary, raw.get("summary")),
                ("requires_python", set(wrapper.requires_python.split(",")), set(python.split(","))),
                ("requires", set(map(_normal, wrapper.requires)), set(map(_normal, lines))),
            ):
                if one != other:
                    yield Finding(f"{MANIFEST}: {wrapper.key}", f"its {key} is not that of {name}")


@functools.cache
def _normal(line: str) -> str:
    """A requirement line as packaging writes it; what is none, as it is."""
    try:
        return str(Requirement(line))
    except InvalidRequirement:
        return line


def _check_wheel(path: Path, findings: list[Finding], *, is_direct: bool = False) -> RawMetadata:
    """Look into one wheel; returns its METADATA."""
    where = f"{FILES}/{path.name}"
    try:
        with zipfile.ZipFile(path) as wheel:
            content = {name: wheel.read(name) for name in wheel.namelist()}
        project, version, _, tags = parse_wheel_filename(path.name)
        info = f"{path.name.split('-')[0]}-{version}.dist-info"
        metadata = content[f"{info}/METADATA"]
        record = sorted(csv.reader(io.StringIO(content[f"{info}/RECORD"].decode())))
        wheel_tags = {
            line.partition(": ")[2] for line in content[f"{info}/WHEEL"].decode().splitlines() if "Tag" in line
        }
    except (OSError, *DAMAGED, csv.Error) as error:
        findings.append(Finding(where, f"is not a wheel: {str(error) or type(error).__name__}"))
        return RawMetadata()
    if _record(content, f"{info}/RECORD") != record:
        findings.append(Finding(where, "its RECORD does not match its content"))
    if wheel_tags != {str(tag) for tag in tags}:
        findings.append(Finding(where, "its tags are not those of its file name"))
    if not has_content(f"{path}.metadata", hashlib.sha256(metadata).hexdigest()):
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
    findings += (Finding(where, what) for what in check_lines(raw.get("requires_dist", []), is_direct=is_direct))
    return raw


def _record(content: dict[str, bytes], own: str) -> list[list[str]]:
    rows = [[own, "", ""]]
    for name, data in content.items():
        if name != own:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append([name, f"sha256={digest}", str(len(data))])
    return sorted(rows)


def check_lines(lines: Iterable[str], *, is_direct: bool = False) -> Iterator[str]:
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
        try:
            counts = set(_counts(tuple(sorted(str(requirement.marker or "") for requirement in found))))
        except (UndefinedComparison, UndefinedEnvironmentName) as error:
            yield f"a marker on {project} has no value: {error}"
            continue
        if max(counts, default=0) > 1:
            yield f"two lines on {project} hold in one environment"
        if 0 in counts and not is_direct:  # a line of the direct flavour is for its own platform, its tags for the rest
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


def _check_descriptions(wheels: Iterable[Path]) -> Iterator[Finding]:
    """What `twine check --strict` says: one wheel for each METADATA, they are many and alike."""
    from twine.commands.check import check
    from twine.exceptions import TwineException

    distinct = {}
    for path in wheels:
        sidecar = path.with_name(f"{path.name}.metadata")
        if sidecar.is_file():
            distinct[sha256_of(sidecar)] = str(path)
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
