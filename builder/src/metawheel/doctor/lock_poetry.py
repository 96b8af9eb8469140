"""poetry.lock: markers on each package since lock version 2.1, a walk along dependencies before."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from metawheel.doctor.lock_marked import Keep, marked_poetry, unhashed_in
from metawheel.doctor.lock_text import locked_files, read_lock_text, table, tables, text, texts, version_of
from metawheel.doctor.model import Declared, Lock, Locked, Place, Project
from metawheel.doctor.targets import Target


def poetry_lock(content: str, path: str, keep: Keep, project: Project) -> Lock:
    """Read poetry.lock; one of before Poetry 2.0 is judged by what the project declares. Raises ProjectError."""
    read = read_lock_text(content, path, keep)
    metadata = table(read.data, "metadata")
    legacy = table(metadata, "files")  # before lock version 2.0 the files stand at the end
    hashes = table(metadata, "hashes")  # before 1.0 their hashes alone
    entries = []
    for entry, place in read.packages:
        name = text(entry, "name") or ""
        source = table(entry, "source")
        package = Locked(
            name=canonicalize_name(name),
            version=version_of(text(entry, "version")),
            place=place,
            files=locked_files(tables(entry, "files") or tables(legacy, name)),
            hashes=tuple(texts(hashes, name)),
            source=text(source, "url"),
            registry=text(source, "type") not in {"git", "directory"},
        )
        entries.append((package, entry))
    written = version_of(text(metadata, "lock-version")) or Version("1.0")
    if written >= Version("2.1"):
        return marked_poetry(read, entries, keep, project)
    kept = unhashed_in(package for package, _ in entries if keep(package.name))
    return WalkedLock(
        path=path,
        entries=tuple(entries),
        declared=tuple(item for item in project.declared if item.tool in {"poetry", "pep621"} and not item.constraint),
        python=text(metadata, "python-versions"),
        unhashed=tuple(sorted({*kept, *read.unhashed}, key=lambda item: (item[1], item[0]))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedLock:
    """A lock of Poetry 1.x: what is installed follows from the project's requirements and the edges of packages."""

    path: str
    entries: tuple[tuple[Locked, Mapping[str, Any]], ...]
    declared: tuple[Declared, ...]
    python: str | None
    unhashed: tuple[tuple[str, Place], ...]
    kind: str = "poetry"
    selections: tuple[str, ...] = ("",)

    @property
    def packages(self) -> tuple[Locked, ...]:
        return tuple(package for package, _ in self.entries)

    def covers(self, target: Target) -> bool:
        return target.meets(self.python)

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        del selection  # extras are not told apart: the walk takes what is required
        if not self.declared:
            return self.packages
        by_name: dict[str, list[tuple[Locked, Mapping[str, Any]]]] = defaultdict(list)
        for package, entry in self.entries:
            if target.meets(text(entry, "python-versions")):
                by_name[package.name].append((package, entry))
        bounds = self._bounds(target, by_name)
        taken: list[Locked] = []
        for name in bounds:
            fitting = [package for package, _ in by_name[name] if _all_contain(bounds[name], package.version)]
            # Poetry 1.x installs the highest where several fit.
            best = max(fitting, key=lambda item: item.version or Version("0"), default=None)
            taken += [best] if best is not None else []
        return tuple(taken)

    def _bounds(
        self, target: Target, by_name: Mapping[str, list[tuple[Locked, Mapping[str, Any]]]]
    ) -> dict[str, list[SpecifierSet]]:
        """For each project that is reached, what all edges to it ask for."""
        bounds: dict[str, list[SpecifierSet]] = {}
        waiting = deque((item.name, item.specifier, item.extras) for item in self.declared if target.fits(item.marker))
        seen: set[tuple[int, tuple[str, ...]]] = set()
        while waiting:
            name, specifier, extras = waiting.popleft()
            bounds.setdefault(name, []).extend([specifier] if specifier is not None else [])
            for package, entry in by_name.get(name, []):
                if (id(package), extras) in seen or (
                    specifier is not None and not _all_contain([specifier], package.version)
                ):
                    continue
                seen.add((id(package), extras))
                waiting.extend(_edges(entry, extras, target))
        return bounds


def _edges(
    entry: Mapping[str, Any], extras: Iterable[str], target: Target
) -> Iterable[tuple[NormalizedName, SpecifierSet | None, tuple[str, ...]]]:
    named = table(entry, "extras")
    wanted = {canonicalize_name(line.split(" ")[0].split("[")[0]) for extra in extras for line in texts(named, extra)}
    for name, value in table(entry, "dependencies").items():
        for edge in value if isinstance(value, list) else [value]:
            optional = isinstance(edge, dict) and edge.get("optional") is True
            if optional and canonicalize_name(name) not in wanted:
                continue
            if target.fits(text(edge, "markers"), extras):
                version = edge if isinstance(edge, str) else text(edge, "version")
                yield canonicalize_name(name), _specifier(version or "*"), tuple(sorted(texts(edge, "extras")))


def _specifier(constraint: str) -> SpecifierSet | None:
    """A constraint as Poetry writes it in a lock; None for any."""
    plain = f"=={constraint}" if constraint[:1].isdigit() else constraint
    try:
        return None if constraint == "*" else SpecifierSet(plain)
    except InvalidSpecifier:
        return None


def _all_contain(specifiers: Iterable[SpecifierSet], version: Version | None) -> bool:
    return version is None or all(item.contains(version, prereleases=True) for item in specifiers)
