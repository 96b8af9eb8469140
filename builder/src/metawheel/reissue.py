"""Re-issuing: a wrapper that would say something else than what was published gets a version of its own. Pure.

Only what a wrapper says counts: its requirement lines, extras, Requires-Python and compatibility tags. Its summary and
description stay as they were published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from metawheel.branches import file_platforms
from metawheel.choose import Catalog
from metawheel.differences import difference, expanded, losses
from metawheel.model import Cell, Platform, Released, UpstreamFile, Wrapper, wheel_name
from metawheel.tags import PythonTag, cell_key, guards, platforms


def settle(
    wrappers: Iterable[Wrapper], released: Mapping[str, Sequence[Released]], catalogs: Mapping[str, Catalog]
) -> tuple[Wrapper, ...]:
    """The wrappers with their final versions, and those that were published and still have to be served.

    `released` and `catalogs` map a family's name to what was published in this flavour and to its ledger. A published
    wrapper stays under its version as it was; it is yanked where something that it installs was withdrawn.
    """
    planned = tuple(wrappers)
    names = {wrapper.name for wrapper in planned}
    past: dict[str, list[Released]] = defaultdict(list)
    for items in released.values():
        for item in items:
            past[item.name].append(item)
    upstream: dict[str, set[str]] = defaultdict(set)
    for wrapper in planned:
        upstream[wrapper.name].add(wrapper.release)
    settled: dict[str, Wrapper] = {}  # the planned wrapper's key → what becomes of it
    unnamed: dict[str, Wrapper] = {}  # those that no version is left for

    def order(wrapper: Wrapper) -> tuple[bool, str, Version]:
        # What requires another wrapper comes after it, to name its final version.
        return (any(_required(line)[0] in names for line in wrapper.requires), wrapper.name, Version(wrapper.version))

    for wrapper in sorted(planned, key=order):
        final = _repinned(wrapper, settled)
        current = _current(final, past[wrapper.name], upstream[wrapper.name])
        if current is None:
            unnamed[wrapper.key] = final
        else:
            settled[wrapper.key] = current
            upstream[wrapper.name].add(current.version)  # two releases are never re-issued under one version
    linked = {file.filename: file for wrapper in settled.values() for file in wrapper.files}
    there = {wrapper.key for wrapper in settled.values()}
    today = unnamed | settled
    kept = [
        _kept(item, family, today.get(f"{item.name}=={item.release}"), catalogs[family], linked)
        for family, items in released.items()
        for item in items
        if item.key not in there
    ]
    yanked = {wrapper.key: wrapper.yanked for wrapper in (*settled.values(), *kept) if wrapper.yanked is not None}
    return (*settled.values(), *(_yanked_with(wrapper, yanked) for wrapper in kept))


def _yanked_with(wrapper: Wrapper, yanked: Mapping[str, str]) -> Wrapper:
    """A published wrapper, yanked too where one that it requires is."""
    required = ["==".join(_required(line)) for line in wrapper.requires]
    reasons = [f"it requires {key}: {yanked[key]}" for key in required if key in yanked]
    return replace(wrapper, yanked=reasons[0]) if reasons and wrapper.yanked is None else wrapper


def _required(line: str) -> tuple[str, str]:
    """The project and the version of a line without marker that pins one; for others something that nothing has."""
    head, _, version = line.rpartition("==")
    return head.partition("[")[0], version


def _repinned(wrapper: Wrapper, settled: Mapping[str, Wrapper]) -> Wrapper:
    """A wrapper whose lines name the final versions of the wrappers that it requires."""

    def final(line: str) -> str:
        project, version = _required(line)
        found = settled.get(f"{project}=={version}")
        return line if found is None else f"{line.removesuffix(version)}{found.version}"

    extras = tuple((extra, tuple(map(final, lines))) for extra, lines in wrapper.extras)
    return replace(wrapper, requires=tuple(map(final, wrapper.requires)), extras=extras)


def _current(wrapper: Wrapper, past: Sequence[Released], upstream: Iterable[str]) -> Wrapper | None:
    """A planned wrapper under the version that it may have; None where there is none left for it."""
    before = sorted((item for item in past if item.release == wrapper.release), key=lambda item: Version(item.version))
    versions = {item.version for item in past}
    if not before and wrapper.version not in versions:
        return wrapper
    if before and _says(before[-1]) == _says(wrapper):
        latest = before[-1]
        return replace(
            wrapper,
            version=latest.version,
            tags=latest.tags,
            summary=latest.summary,
            readme=latest.readme,
            reissued=latest.reissued,
        )
    version = _next_version(Version(wrapper.release), [*versions, *upstream])
    if version is None or (before and wrapper.yanked is not None):  # nobody needs a new version of what is withdrawn
        return None
    return replace(
        wrapper,
        version=version,
        tags=guards(wrapper.name, version, wrapper.cells),
        reissued=difference(before[-1], wrapper) if before else f"{wrapper.version} is a re-issue of another release",
    )


def _next_version(release: Version, taken: Iterable[str]) -> str | None:
    """The first post-release that is free; a development release has none that sorts after it (PEP 440)."""
    if release.is_devrelease:
        return None
    posts = [other.post or 0 for other in map(Version, taken) if _base(other) == _base(release)]
    return f"{str(release).partition('.post')[0]}.post{max(posts) + 1}"


def _base(version: Version) -> tuple[object, ...]:
    return (version.epoch, version.release, version.pre)


def _says(item: Wrapper | Released) -> tuple[object, ...]:
    return (item.requires, item.extras, item.requires_python, expanded(item.tags))


def _kept(
    item: Released, family: str, current: Wrapper | None, catalog: Catalog, linked: Mapping[str, UpstreamFile]
) -> Wrapper:
    """A published wrapper that is not what the plan gives today: as it was, yanked where it is no longer right."""
    lines = [*item.requires, *(line for _, found in item.extras for line in found)]
    cells = _cells(item)
    files = {
        file.filename: linked.get(file.filename, file)
        for line in lines
        for file in _files(Requirement(line), catalog, {cell.platform for cell in cells})
        if item.flavour == "pinned" or file.url is None
    }
    if current is None:
        yanked: str | None = "no longer emitted"
    elif current.yanked is not None:
        yanked = current.yanked
    else:
        lost = losses(item.tags, current.tags, systems=item.flavour == "pinned")
        where = {cell.platform for cell in cells}
        withdrawn = _withdrawn([line for line in item.requires if line not in current.requires], catalog, where)
        because = [f"no longer for {lost}"] if lost else []
        because += sorted({file.yanked for file in files.values() if file.yanked} | set(withdrawn))
        instead = f"re-issued as {current.version}: " if current.version != item.version else ""
        yanked = f"{instead}{'; '.join(because)}" if lost or withdrawn else None
    return Wrapper(
        **item.facts(),
        family=family,
        tags=item.tags,
        cells=cells,
        files=tuple(files[name] for name in sorted(files)),
        yanked=yanked,
        readme=item.readme,
    )


def _files(requirement: Requirement, catalog: Catalog, where: set[Platform]) -> list[UpstreamFile]:
    """The upstream wheels that a pin means on some platforms."""
    return [
        file for file in _pinned(requirement, catalog) if _applies(requirement.marker, file_platforms(file) & where)
    ]


def _pinned(requirement: Requirement, catalog: Catalog) -> list[UpstreamFile]:
    project = canonicalize_name(requirement.name)
    pins = [Version(specifier.version) for specifier in requirement.specifier if specifier.operator == "=="]
    return [file for version in pins for file in catalog.linked_files(project, version)]


def _applies(marker: Marker | None, where: Iterable[Platform]) -> bool:
    return any(
        marker is None or marker.evaluate({"sys_platform": p.sys_platform, "platform_machine": p.machine})
        for p in where
    )


def _withdrawn(lines: Iterable[str], catalog: Catalog, where: set[Platform]) -> list[str]:
    """What upstream has taken back of that which some lines install on some platforms."""
    found = []
    for line in lines:
        requirement = Requirement(line)
        if requirement.url is not None:
            address, _, fragment = requirement.url.partition("#")
            file = catalog.file_at(address)
            if file is None or file.yanked is not None or fragment not in ("", f"sha256={file.sha256}"):
                found.append(f"{address} was withdrawn or has another sha256")
        elif any(s.operator == "==" for s in requirement.specifier) and catalog.has(requirement.name):
            # Where a line holds on no covered platform (the last branch, mostly) it installs nothing.
            for platform in (p for p in sorted(where) if _applies(requirement.marker, [p])):
                files = _files(requirement, catalog, {platform})
                if all(file.yanked is not None for file in files):
                    found.append(f"upstream withdrew {requirement.name} {requirement.specifier}".replace("==", ""))
                    found += [file.yanked for file in files if file.yanked]
    return found


def _cells(item: Released) -> tuple[Cell, ...]:
    """The cells of a published wrapper, from its tags and lines."""
    requirements = [Requirement(line) for line in item.requires]
    found = {
        Cell(
            interpreter=tag.interpreter,
            abi=tag.abi,
            platform_tag=tag.platform,
            platform=platform,
            build=_build(requirements, tag, platform),
        )
        for tag in expanded(item.tags)
        for platform in platforms(tag.platform)
    }
    return tuple(sorted(found, key=cell_key))


def _build(requirements: Iterable[Requirement], tag: Tag, platform: Platform) -> str:
    """The version that the first line which applies installs."""
    version = PythonTag(tag.interpreter, tag.abi).version
    environment = {
        "sys_platform": platform.sys_platform,
        "platform_machine": platform.machine,
        "python_version": ".".join(map(str, version)),
    }
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate(environment):
            if requirement.url is not None:
                return str(wheel_name(unquote(requirement.url.partition("#")[0].rpartition("/")[2])).version)
            return next((specifier.version for specifier in requirement.specifier), "")
    return ""
