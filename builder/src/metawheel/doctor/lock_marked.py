"""Locks whose packages each carry their own marker: pdm.lock, Pipfile.lock, pylock.toml, poetry.lock since 2.0."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name

from metawheel.doctor.lock_text import (
    LockText,
    file_name,
    locked_files,
    read_lock_text,
    table,
    tables,
    text,
    texts,
    version_of,
)
from metawheel.doctor.model import Locked, Place, Project, ProjectError
from metawheel.doctor.targets import Target, parse_platform

Keep = Callable[[NormalizedName], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A package and where it is installed: any of the markers holds (none: everywhere)."""

    package: Locked
    markers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()  # the extras and groups that ask for it; empty: always installed


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedLock:
    """A lock that says of each package by itself where it is installed."""

    path: str
    kind: str
    entries: tuple[Marked, ...]
    unhashed: tuple[tuple[str, Place], ...] = ()
    selections: tuple[str, ...] = ("",)
    python: str | None = None
    only: tuple[Target, ...] | None = None  # the platforms that it is made for; None: all
    environments: tuple[str, ...] = ()

    @property
    def packages(self) -> tuple[Locked, ...]:
        return tuple(entry.package for entry in self.entries)

    def covers(self, target: Target) -> bool:
        if self.only is not None and target.name not in {platform.name for platform in self.only}:
            return False
        fits = not self.environments or any(target.fits(marker) for marker in self.environments)
        return fits and target.meets(self.python)

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        extras = [selection.removeprefix("extra:")] if selection else []
        return tuple(
            entry.package
            for entry in self.entries
            if (not entry.scopes or selection in entry.scopes)
            and (not entry.markers or any(target.fits(marker, extras) for marker in entry.markers))
        )


def _scopes(entry: Mapping[str, Any], asked: Collection[str]) -> tuple[str, ...]:
    """The selections that bring a package in, where each of its groups is among those that have to be asked for."""
    named = {f"{kind}:{group}" for group in texts(entry, "groups") for kind in ("extra", "group")} & {*asked}
    return tuple(sorted(named)) if len(named) == len(texts(entry, "groups")) else ()


def unhashed_in(packages: Iterable[Locked]) -> tuple[tuple[str, Place], ...]:
    """What a lock should have hashes for and has not."""
    return tuple(
        (package.name, package.place)
        for package in packages
        if package.registry
        and not package.hashes
        and (package.files is None or not package.files or any(file.sha256 is None for file in package.files))
    )


def pdm_lock(content: str, path: str, keep: Keep, project: Project) -> MarkedLock:
    """pdm.lock, for all platforms or with its targets; raises ProjectError."""
    extras = sorted({item.scope for item in project.declared if item.scope.startswith("extra:")})
    read = read_lock_text(content, path, keep)
    legacy = table(table(read.data, "metadata"), "files")  # until PDM 2.4 the files stand at the end
    entries = []
    for entry, place in read.packages:
        version = version_of(text(entry, "version"))
        spelled = f"{text(entry, 'name')} {text(entry, 'version')}"
        local = any(key in entry for key in ("git", "path", "url"))
        package = Locked(
            name=canonicalize_name(text(entry, "name") or ""),
            version=version,
            place=place,
            files=locked_files(tables(entry, "files") or tables(legacy, spelled)),
            source=text(entry, "url"),
            registry=not local,
        )
        marker = text(entry, "marker")
        entries.append(Marked(package=package, markers=(marker,) if marker else (), scopes=_scopes(entry, extras)))
    targets = tables(table(read.data, "metadata"), "targets")
    named = [platform for item in targets if (name := text(item, "platform")) and (platform := _pdm_platform(name))]
    pythons = [python for item in targets if (python := text(item, "requires_python"))]
    return MarkedLock(
        path=path,
        kind="pdm",
        entries=tuple(entries),
        unhashed=_unhashed(read, entries, keep),
        selections=("", *extras),
        only=tuple(dict.fromkeys(named)) if named else None,
        python="||".join(dict.fromkeys(pythons)) or None,
    )


def _pdm_platform(name: str) -> Target | None:
    alone = {"linux": "linux-x86_64", "windows": "windows-amd64", "macos": "macos-arm64"}
    return parse_platform(alone.get(name, name))


def _unhashed(read: LockText, entries: Iterable[Marked], keep: Keep) -> tuple[tuple[str, Place], ...]:
    kept = unhashed_in(entry.package for entry in entries if keep(entry.package.name))
    return tuple(sorted({*kept, *read.unhashed}, key=lambda item: (item[1], item[0])))


def pylock(content: str, path: str, keep: Keep) -> MarkedLock:
    """pylock.toml (PEP 751); raises ProjectError."""
    read = read_lock_text(content, path, keep)
    entries = []
    for entry, place in read.packages:
        archive = table(entry, "archive")
        remote = any(key in entry for key in ("vcs", "directory"))
        files = [*tables(entry, "wheels"), *([table(entry, "sdist")] if "sdist" in entry else [])]
        package = Locked(
            name=canonicalize_name(text(entry, "name") or ""),
            version=version_of(text(entry, "version")),
            place=place,
            files=locked_files([archive] if archive else files),
            source=text(archive, "url") or text(entry, "index"),
            registry=not remote,
        )
        marker = text(entry, "marker")
        entries.append(Marked(package=package, markers=(marker,) if marker else ()))
    return MarkedLock(
        path=path,
        kind="pylock",
        entries=tuple(entries),
        unhashed=_unhashed(read, entries, keep),
        python=text(read.data, "requires-python"),
        environments=tuple(texts(read.data, "environments")),
        selections=("", *(f"extra:{extra}" for extra in sorted(texts(read.data, "extras")))),
    )


def marked_poetry(
    read: LockText, entries: Iterable[tuple[Locked, Mapping[str, Any]]], keep: Keep, project: Project
) -> MarkedLock:
    """poetry.lock of lock version 2.1 or newer."""
    groups = [f"group:{group}" for group in sorted(project.optional_groups)]
    marked = []
    for package, entry in entries:
        found = entry.get("markers")
        markers = [found] if isinstance(found, str) else list(found.values()) if isinstance(found, dict) else []
        held = tuple(item for item in markers if isinstance(item, str))
        marked.append(Marked(package=package, markers=held, scopes=_scopes(entry, groups)))
    return MarkedLock(
        path=read.path,
        kind="poetry",
        entries=tuple(marked),
        unhashed=_unhashed(read, marked, keep),
        python=text(table(read.data, "metadata"), "python-versions"),
        selections=("", *(f"extra:{extra}" for extra in sorted(table(read.data, "extras"))), *groups),
    )


def pipfile_lock(content: str, path: str) -> MarkedLock:
    """Pipfile.lock; raises ProjectError."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ProjectError(f"{path}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ProjectError(f"{path}: is not a Pipfile.lock: it holds no object")
    lines = _key_lines(content)
    urls = {text(item, "name"): text(item, "url") for item in tables(table(data, "_meta"), "sources")}
    entries: dict[tuple[str, str], Marked] = {}
    for section in ("default", "develop"):
        for name, entry in table(data, section).items():
            if not isinstance(entry, dict):
                continue
            number = (text(entry, "version") or "").removeprefix("==")
            url = text(entry, "file")
            index = text(entry, "index")
            package = Locked(
                name=canonicalize_name(name),
                version=version_of(number),
                place=Place(path, lines.get((section, name), 1)),
                files=locked_files([{"file": file_name(url)}]) if url else None,
                hashes=tuple(item.removeprefix("sha256:") for item in texts(entry, "hashes")),
                source=url or (urls.get(index, index) if index else None),
                registry=not any(key in entry for key in ("git", "path", "editable")),
            )
            marker = text(entry, "markers")
            # A project in both sections is in the lock once for each; it is installed once.
            entries.setdefault((package.name, number), Marked(package=package, markers=(marker,) if marker else ()))
    return MarkedLock(
        path=path,
        kind="pipenv",
        entries=tuple(entries.values()),
        unhashed=unhashed_in(entry.package for entry in entries.values()),
    )


def _key_lines(content: str) -> dict[tuple[str, str], int]:
    """The lines of the projects: the keys at depth two, in the layout that pipenv writes (four spaces a level)."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(content.splitlines(), start=1):
        stripped = line.strip()
        depth = (len(line) - len(line.lstrip(" "))) // 4
        key = stripped.split('"')[1] if stripped.startswith('"') and stripped.endswith("{") else ""
        if key and depth == 1:
            section = key
        elif key and depth == 2:
            found.setdefault((section, key), number)
    return found
