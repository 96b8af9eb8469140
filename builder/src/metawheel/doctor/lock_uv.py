"""uv.lock: a walk along its edges from the projects at its root."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from metawheel.doctor.lock_marked import Keep, unhashed_in
from metawheel.doctor.lock_text import locked_files, read_lock_text, table, tables, text, texts, version_of
from metawheel.doctor.model import Locked, Place
from metawheel.doctor.targets import Target

_OURS = ("virtual", "editable", "directory", "git", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A package with its edges."""

    package: Locked
    entry: Mapping[str, Any]
    root: bool  # a project of the workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class UvLock:
    """uv.lock, whose edges carry markers and, where a name has forks, the version meant."""

    path: str
    nodes: tuple[Node, ...]
    by_name: Mapping[str, tuple[Node, ...]]
    unhashed: tuple[tuple[str, Place], ...]
    selections: tuple[str, ...]
    conflicting: frozenset[str]  # groups that exclude another
    python: str | None
    markers: tuple[str, ...]
    kind: str = "uv"

    @property
    def packages(self) -> tuple[Locked, ...]:
        return tuple(node.package for node in self.nodes)

    def covers(self, target: Target) -> bool:
        fits = not self.markers or any(target.fits(marker) for marker in self.markers)
        return fits and target.meets(self.python)

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        found: dict[int, Locked] = {}
        kind, _, chosen = selection.partition(":")
        roots = [node for node in self.nodes if node.root]
        # Where extras or groups exclude each other, markers spell each one as an extra with its project's name.
        names = [str(node.entry.get("name")) for node in roots]
        spelled = [f"{kind}-{len(name)}-{name}-{chosen}" for name in names] if selection else []
        waiting = deque(edge for node in roots for edge in self._root_edges(node, kind, chosen))
        seen: set[tuple[int, str]] = set()
        while waiting:
            edge = waiting.popleft()
            if not target.fits(text(edge, "marker"), spelled):
                continue
            for node in self._follow(edge, target):
                found[id(node)] = node.package
                for extra in ("", *texts(edge, "extra")):
                    if (id(node), extra) not in seen:
                        seen.add((id(node), extra))
                        waiting.extend(_edges(node.entry, extra))
        return tuple(found.values())

    def _root_edges(self, node: Node, kind: str, chosen: str) -> Iterable[Mapping[str, Any]]:
        yield from _edges(node.entry, "")
        if kind == "extra":
            yield from _edges(node.entry, chosen)
        groups = table(node.entry, "dev-dependencies")
        for group in groups:
            usual = group == "dev" and group not in self.conflicting  # uv's default; others are asked for
            if usual or (kind == "group" and group == chosen):
                yield from tables(groups, group)

    def _follow(self, edge: Mapping[str, Any], target: Target) -> Iterable[Node]:
        candidates = self.by_name.get(canonicalize_name(text(edge, "name") or ""), ())
        for key in ("version", "source"):
            if key in edge:
                candidates = tuple(node for node in candidates if node.entry.get(key) == edge[key])
        # An edge names no version where only one of the forks can be meant.
        if len(candidates) > 1:
            candidates = tuple(node for node in candidates if _in_fork(node.entry, target))
        return candidates


def uv_lock(content: str, path: str, keep: Keep) -> UvLock:
    """Read uv.lock; raises ProjectError."""
    read = read_lock_text(content, path, keep)
    nodes: list[Node] = []
    for entry, place in read.packages:
        source = table(entry, "source")
        name = canonicalize_name(text(entry, "name") or "")
        files = [*tables(entry, "wheels"), *([entry["sdist"]] if isinstance(entry.get("sdist"), dict) else [])]
        package = Locked(
            name=name,
            version=version_of(text(entry, "version")),
            place=place,
            files=locked_files(files),
            source=next((found for key in ("registry", "url", "git") if (found := text(source, key))), None),
            registry=source.keys().isdisjoint(_OURS),
        )
        root = "virtual" in source or "editable" in source or (not nodes and "directory" in source)
        nodes.append(Node(package=package, entry=entry, root=root))
    by_name: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        by_name[node.package.name].append(node)
    # A package without files is one that no platform needs.
    kept = unhashed_in(node.package for node in nodes if node.package.files and keep(node.package.name))
    groups = _conflicting_groups(read.data)
    return UvLock(
        path=path,
        nodes=tuple(nodes),
        by_name={name: tuple(found) for name, found in by_name.items()},
        unhashed=tuple(sorted({*kept, *read.unhashed}, key=lambda item: (item[1], item[0]))),
        selections=tuple(_selections(nodes, groups)),
        conflicting=groups,
        python=text(read.data, "requires-python"),
        markers=tuple(texts(read.data, "supported-markers")),
    )


def _conflicting_groups(data: Mapping[str, Any]) -> frozenset[str]:
    sets = data.get("conflicts")
    items = [item for found in sets if isinstance(found, list) for item in found] if isinstance(sets, list) else []
    return frozenset(group for item in items if (group := text(item, "group")))


def _selections(nodes: Iterable[Node], conflicting: frozenset[str]) -> Iterable[str]:
    yield ""
    roots = [node.entry for node in nodes if node.root]
    yield from sorted({f"extra:{extra}" for entry in roots for extra in table(entry, "optional-dependencies")})
    groups = {group for entry in roots for group in table(entry, "dev-dependencies")}
    yield from sorted(f"group:{group}" for group in groups if group != "dev" or group in conflicting)


def _edges(entry: Mapping[str, Any], extra: str) -> Iterable[Mapping[str, Any]]:
    if not extra:
        return tables(entry, "dependencies")
    return tables(table(entry, "optional-dependencies"), extra)


def _in_fork(entry: Mapping[str, Any], target: Target) -> bool:
    markers = texts(entry, "resolution-markers")
    return not markers or any(target.fits(marker) for marker in markers)
