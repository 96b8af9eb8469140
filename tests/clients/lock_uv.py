"""Reading uv.lock: a walk along its edges from the project at its root."""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from tests.clients.lock_base import AmbiguousLockError, Lock, Locked, LockError, Scope, table_list, text_or_none
from tests.clients.targets import Target


class UvLock(Lock):
    """A uv.lock, whose edges carry markers and, where a name has forks, the version meant."""

    def __init__(self, text: str, *, root: str | None = None) -> None:
        """Parse the text; `root` names the project to start from where a workspace has several."""
        self._data = tomllib.loads(text)
        self._all = table_list(self._data, "package")
        roots = [
            package
            for package in self._all
            if (root is None or package["name"] == root) and _is_local(_source(package))
        ]
        if len(roots) != 1:
            raise LockError(f"a lock with {len(roots)} projects to start from")
        self._root = roots[0]

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        if not scope.target.fits_python(text_or_none(self._data, "requires-python")):
            raise LockError(f"the lock is not made for Python {scope.target.python}")
        # Where extras or groups exclude each other, uv's markers spell each one as an extra with its project's name.
        name = str(self._root["name"])
        kinds = (("extra", scope.extras), ("group", scope.groups))
        spelled = {f"{kind}-{len(name)}-{name}-{used}" for kind, found in kinds for used in found}
        scope = replace(scope, extras=scope.extras | spelled)
        waiting = deque(self._root_edges(scope))
        seen: set[tuple[int, str]] = set()
        while waiting:
            edge = waiting.popleft()
            if not scope.fits(text_or_none(edge, "marker")):
                continue
            package = self._follow(edge, scope.target)
            asked = edge.get("extra", [])
            for extra in ("", *(asked if isinstance(asked, list) else [])):
                if (id(package), extra) in seen:
                    continue
                seen.add((id(package), extra))
                waiting.extend(_edges(package, extra))
            yield _locked(package)

    def _root_edges(self, scope: Scope) -> list[dict[str, object]]:
        edges = _edges(self._root, "") if "main" in scope.groups else []
        for extra in sorted(scope.extras):
            edges += _edges(self._root, extra)
        dev = self._root.get("dev-dependencies", {})
        if isinstance(dev, dict):
            for group in sorted(scope.groups):
                edges += table_list(dev, group)
        return edges

    def _follow(self, edge: Mapping[str, object], target: Target) -> dict[str, object]:
        candidates = [package for package in self._all if package["name"] == edge["name"]]
        for key in ("version", "source"):
            if key in edge:
                candidates = [package for package in candidates if package.get(key) == edge[key]]
        # An edge names no version where only one of the forks can be meant.
        if len(candidates) > 1:
            candidates = [package for package in candidates if _in_fork(package, target)]
        if len(candidates) != 1:
            raise AmbiguousLockError(f"{edge['name']} leads to {len(candidates)} packages on {target.name}")
        return candidates[0]


def _edges(package: Mapping[str, object], extra: str) -> list[dict[str, object]]:
    if not extra:
        return list(table_list(package, "dependencies"))
    optional = package.get("optional-dependencies", {})
    return list(table_list(optional, extra)) if isinstance(optional, dict) else []


def _source(package: Mapping[str, object]) -> dict[str, object]:
    source = package.get("source", {})
    return source if isinstance(source, dict) else {}


def _is_local(source: Mapping[str, object]) -> bool:
    return not source.keys().isdisjoint({"virtual", "editable"})


def _in_fork(package: Mapping[str, object], target: Target) -> bool:
    markers = package.get("resolution-markers")
    return not isinstance(markers, list) or any(target.fits(marker) for marker in markers)


def wheel_names(tables: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """The file name in each table, whichever key it is under."""
    found = []
    for wheel in tables:
        where = next((wheel[key] for key in ("filename", "file", "url", "path") if key in wheel), "")
        found.append(unquote(urlsplit(str(where)).path.rsplit("/", 1)[-1]))
    return tuple(found)


def _locked(package: Mapping[str, object]) -> Locked:
    files = wheel_names(table_list(package, "wheels"))
    source = _source(package)
    origin = next((str(source[key]) for key in ("registry", "url", "path") if key in source), None)
    return Locked(str(package["name"]), str(package.get("version", "")), files, source=origin)
