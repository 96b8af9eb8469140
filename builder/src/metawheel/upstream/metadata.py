"""Reading what a companion's METADATA requires of the wrapped project, without downloading its wheels."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import replace

import requests
from packaging.markers import Marker
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from remotezip import RemoteZip, RemoteZipError

from metawheel.errors import SourceError, Unparsable, Unreachable
from metawheel.family import Companion, Family
from metawheel.model import Problem, UpstreamFile
from metawheel.parallel import threads
from metawheel.upstream.http import TIMEOUT, Fetcher, Page
from metawheel.upstream.mirrors import mirrored
from metawheel.upstream.pages import parse_page
from metawheel.upstream.sources import pypi_page
from metawheel.wheelcopy import DAMAGED

METADATA_LIMIT = 4 * 1024 * 1024  # bytes

# An extra's line is looked at for the same environments wherever the sync runs.
_ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.0",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_version": "",
    "python_full_version": "3.12.0",
    "python_version": "3.12",
}
_SYSTEMS = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
)


def add_requirements(
    family: Family, files: Iterable[UpstreamFile], fetcher: Fetcher
) -> tuple[tuple[UpstreamFile, ...], tuple[Problem, ...]]:
    """Fill `requires` of every companion's release that lacks it, from one wheel's METADATA for each release.

    A release whose METADATA is nowhere to be had stays without, and is reported; raises Unreachable if a page that
    could tell is out of reach.
    """
    files = tuple(files)
    companions = {companion.project: companion for companion in family.companion}
    unknown: dict[tuple[str, Version], list[UpstreamFile]] = {}
    for file in files:
        if file.project in companions and file.gone is None:
            unknown.setdefault((file.project, file.release), []).append(file)
    wanted = {
        release: found for release, found in unknown.items() if not any(file.requires is not None for file in found)
    }
    known = {
        release: next(file.requires for file in found if file.requires is not None)
        for release, found in unknown.items()
        if release not in wanted
    }
    problems: list[Problem] = []
    with threads(8) as pool:
        futures = {
            release: pool.submit(_requires, family.project, companions[release[0]], release[1], found, fetcher)
            for release, found in wanted.items()
        }
    for release, future in futures.items():
        try:
            known[release] = future.result()
        except Unparsable as error:
            problems.append(Problem(url=error.url, item=f"{release[0]} {release[1]}", reason=error.reason))
    return (
        tuple(
            replace(file, requires=known[file.project, file.release])
            if file.requires is None and file.project in companions and (file.project, file.release) in known
            else file
            for file in files
        ),
        tuple(problems),
    )


def _requires(
    project: str, companion: Companion, release: Version, files: list[UpstreamFile], fetcher: Fetcher
) -> tuple[str, ...]:
    return requirements_on(project, companion, _metadata(companion.project, release, files, fetcher))


def requirements_on(project: str, companion: Companion, metadata: bytes) -> tuple[str, ...]:
    """The requirement lines on a project in METADATA: those of the base, else those of the pairing extra."""
    base, extra = set(), set()
    for line in parse_email(metadata)[0].get("requires_dist", []):
        try:
            requirement = Requirement(line)
            found = f"{project}{requirement.specifier}"
        except (ValueError, RecursionError):  # InvalidRequirement, and numbers that are too long
            continue  # an unreadable line on another project; one on ours leaves the release unpaired
        if canonicalize_name(requirement.name) != project:
            continue
        if requirement.marker is None or "extra" not in str(requirement.marker):
            base.add(found)
        elif _holds(requirement.marker, companion.pairs_in_extra or ""):
            extra.add(found)
    return tuple(sorted(base or extra))


def _holds(marker: Marker, extra: str) -> bool:
    """Whether a marker holds on some system with an extra; one that nothing can be asked by holds nowhere."""
    try:
        return any(marker.evaluate({**_ENVIRONMENT, **system, "extra": extra}) for system in _SYSTEMS)
    except (ValueError, KeyError):  # UndefinedComparison, UndefinedEnvironmentName, and numbers that are too long
        return False


@functools.lru_cache(maxsize=8)
def _on_pypi(page: Page) -> tuple[UpstreamFile, ...]:
    """A page's files: each release of a companion asks for them."""
    return parse_page(page, "pypi", sha256_from="pypi", base=page.mirror).files


def _metadata(project: str, release: Version, files: list[UpstreamFile], fetcher: Fetcher) -> bytes:
    """METADATA of one wheel of a release: upstream's own where it is served, else that of PyPI's wheel."""
    for file in files:
        if file.metadata is not None and file.url is not None:
            try:
                return _sidecar(file.url, file.metadata, fetcher)
            except Unreachable:
                break
    page = fetcher.page(pypi_page(project))
    listed = [file for file in _on_pypi(page) if file.release == release]
    if not listed:
        raise Unparsable(page.url, "no METADATA to pair it by: it is not on PyPI")
    file = min(listed, key=lambda file: file.sort_key)
    if file.url is None:
        raise Unparsable(page.url, f"gives no address for {file.filename}")
    try:
        return _sidecar(file.url, file.metadata or "true", fetcher)
    except SourceError:
        return _from_wheel(file.url, fetcher)


def _sidecar(url: str, digest: str, fetcher: Fetcher) -> bytes:
    """The METADATA that is served beside a wheel (PEP 658)."""
    content = fetcher.page(f"{url}.metadata").content
    if digest != "true" and hashlib.sha256(content).hexdigest() != digest:
        raise Unreachable(f"{url}.metadata", "does not have the sha256 that the page states")
    if not parse_email(content)[0].get("metadata_version"):
        raise Unreachable(f"{url}.metadata", "is no METADATA; is it an error page?")
    return content


def _from_wheel(url: str, fetcher: Fetcher) -> bytes:
    """METADATA read out of a wheel by range requests."""
    address = mirrored(url, fetcher.mirrors)
    try:
        with RemoteZip(address, session=fetcher.session, timeout=TIMEOUT) as wheel:  # type: ignore[no-untyped-call]
            name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
            if wheel.getinfo(name).file_size > METADATA_LIMIT:
                raise Unparsable(url, f"its METADATA is larger than {METADATA_LIMIT} bytes")
            content: bytes = wheel.read(name)
            return content
    except (requests.RequestException, RemoteZipError) as error:
        raise Unreachable(url, f"its METADATA could not be read: {error}") from error
    except DAMAGED as error:
        raise Unparsable(url, "is not a wheel with METADATA") from error
