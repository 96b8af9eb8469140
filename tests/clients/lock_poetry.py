"""Reading poetry.lock: markers on each package since 2.0, a walk along dependencies before."""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.clients.lock_base import Lock, Locked, LockError, Scope, table_list, text_or_none
from tests.clients.targets import Target


class PoetryLock(Lock):
    """A poetry.lock; one that Poetry 1.x wrote can only be judged with the project's pyproject.toml."""

    def __init__(self, text: str, project: str | None = None, *, as_installed: bool = False) -> None:
        """Parse the lock and, where given, the project; `as_installed` asks what Poetry 1.x makes of it.

        For `==1.0` the lock may hold both 1.0 and 1.0+local, and mean the first: Poetry 1.x installs the higher.
        """
        self._as_installed = as_installed
        data = tomllib.loads(text)
        self._all = table_list(data, "package")
        self._python = str(data["metadata"].get("python-versions", "*"))
        written = Version(str(data["metadata"]["lock-version"]))
        self._marked = written >= Version("2.1")
        self._project = tomllib.loads(project) if project else None

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        if not _takes_python(self._python, scope.target):
            raise LockError(f"the lock is not made for Python {scope.target.python}")
        marked = (item for item in self._all if _is_active(item, scope))
        active = marked if self._marked else self._walk(scope)
        return [_locked(item) for item in active]

    def _walk(self, scope: Scope) -> list[dict[str, object]]:
        """Narrow each name down to the versions that every edge to it takes, until that changes nothing."""
        allowed: dict[str, set[str]] = {}
        for _ in self._all:
            reached, found = self._pass(scope, allowed)
            if found == allowed:
                return reached
            allowed = found
        raise LockError("the walk along the lock does not settle")

    def _pass(
        self, scope: Scope, allowed: Mapping[str, set[str]]
    ) -> tuple[list[dict[str, object]], dict[str, set[str]]]:
        if self._project is None:
            raise LockError("a lock of Poetry 1.x says nothing without its pyproject.toml")
        waiting = deque((name, wanted, scope) for name, wanted in _root_edges(self._project))
        reached: dict[tuple[str, str, str], dict[str, object]] = {}
        found: dict[str, set[str]] = {}
        named: dict[str, set[str]] = {}  # the versions that edges spell out
        while waiting:
            name, wanted, within = waiting.popleft()
            for entry in wanted if isinstance(wanted, list) else [wanted]:
                edge = entry if isinstance(entry, dict) else {"version": entry}
                if edge.get("optional") or not within.fits(text_or_none(edge, "markers")):
                    continue
                asked = edge.get("extras", [])
                extras = [str(extra) for extra in asked] if isinstance(asked, list) else []
                matching = list(self._matching(name, edge, scope.target))
                versions = {str(package["version"]) for package in matching}
                found[name] = found.get(name, versions) & versions
                named.setdefault(name, set()).add(str(edge.get("version", "*")).removeprefix("=="))
                for package in matching:
                    version = str(package["version"])
                    key = (name, version, ",".join(extras))
                    if key in reached or version not in allowed.get(name, versions):
                        continue
                    reached[key] = package
                    inside = replace(scope, extras=frozenset(extras))
                    waiting.extend((*edge, inside) for edge in _package_edges(package, extras))
        for name, versions in found.items():
            meant = set() if self._as_installed else versions & named[name]
            if len(versions) > 1:
                found[name] = {max(meant or versions, key=Version)}
        return list(reached.values()), found

    def _matching(self, name: str, edge: Mapping[str, object], target: Target) -> Iterable[dict[str, object]]:
        wanted = str(edge.get("version", "*"))
        for package in self._all:
            if canonicalize_name(str(package["name"])) == canonicalize_name(name) and (
                _accepts(wanted, str(package["version"]))
                and _takes_python(str(package.get("python-versions", "*")), target)
            ):
                yield package


def _is_active(package: Mapping[str, object], scope: Scope) -> bool:
    own = package.get("groups", ["main"])
    shared = scope.groups.intersection(own if isinstance(own, list) else [])
    markers = package.get("markers")
    # One marker for all groups is a string; groups that differ make it a table by group.
    by_group = markers if isinstance(markers, dict) else dict.fromkeys(shared, markers)
    active = any(scope.fits(str(by_group.get(group) or "") or None) for group in shared)
    # An optional package without an `extra` marker would come in with no extra at all.
    if package.get("optional") and "extra" not in str(markers):
        return False
    return active and _takes_python(str(package.get("python-versions", "*")), scope.target)


def _root_edges(project: Mapping[str, object]) -> list[tuple[str, object]]:
    edges: list[tuple[str, object]] = []
    own = project.get("project")
    if isinstance(own, dict):
        edges += [_edge_of(Requirement(line)) for line in own.get("dependencies", [])]
    tool = project.get("tool")
    poetry = tool.get("poetry", {}) if isinstance(tool, dict) else {}
    if not edges:
        edges += [item for item in poetry.get("dependencies", {}).items() if item[0] != "python"]
    return edges


def _edge_of(requirement: Requirement) -> tuple[str, object]:
    edge: dict[str, object] = {
        "version": str(requirement.specifier) or "*",
        "extras": sorted(requirement.extras),
    }
    if requirement.marker:
        edge["markers"] = str(requirement.marker)
    return requirement.name, edge


def _package_edges(package: Mapping[str, object], asked: Iterable[str]) -> list[tuple[str, object]]:
    table = package.get("dependencies", {})
    edges = list(table.items()) if isinstance(table, dict) else []
    named = package.get("extras", {})
    wanted = {
        canonicalize_name(Requirement(line.split(" ")[0]).name)
        for extra in asked
        for line in (named.get(extra, []) if isinstance(named, dict) else [])
    }
    found: list[tuple[str, object]] = []
    for name, entry in edges:
        if canonicalize_name(name) in wanted:
            entries = entry if isinstance(entry, list) else [entry]
            found += [(name, {**item, "optional": False} if isinstance(item, dict) else item) for item in entries]
        else:
            found.append((name, entry))
    return found


def _accepts(constraint: str, version: str) -> bool:
    if constraint == "*":
        return True
    try:
        parts = [SpecifierSet(_plain(part.strip())) for part in constraint.split("||")]
    except InvalidSpecifier as error:
        raise LockError(f"cannot read the constraint {constraint!r}") from error
    return any(part.contains(version, prereleases=True) for part in parts)


def _plain(constraint: str) -> str:
    # A bare version is Poetry's way to write `==` inside a lock.
    return f"=={constraint}" if constraint[0].isdigit() else constraint


def _takes_python(constraint: str, target: Target) -> bool:
    if constraint == "*":
        return True
    return any(SpecifierSet(part.replace(" ", "")).contains(target.full_version) for part in constraint.split("||"))


def _locked(package: Mapping[str, object]) -> Locked:
    files = tuple(str(item["file"]) for item in table_list(package, "files"))
    source = package.get("source", {})
    origin = text_or_none(source, "url") if isinstance(source, dict) else None
    return Locked(canonicalize_name(str(package["name"])), str(package["version"]), files, source=origin)
