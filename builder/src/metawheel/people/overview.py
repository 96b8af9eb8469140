"""What the pages for people show: the wrappers of each project, what they reach, and what is left out. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from metawheel.coverage import Coverage, coverage
from metawheel.family import Family
from metawheel.model import Omission, Platform, Wrapper
from metawheel.plan import Plan, natural
from metawheel.tags import PythonTag


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which versions cover a cell: the first, the newest, and the build that the newest has there."""

    first: str
    newest: str
    build: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A wrapper with all its versions, newest first."""

    name: str
    project: str  # that is wrapped
    plain: str  # the backend that builds without a label stand for
    versions: tuple[Wrapper, ...]
    maps: Mapping[str, Coverage]  # by version
    omissions: Mapping[str, tuple[Omission, ...]]  # by release

    @property
    def path(self) -> str:
        return f"wrappers/{self.name}.html"

    @property
    def newest(self) -> Wrapper:
        """The newest version that is not yanked, if there is one."""
        return next((wrapper for wrapper in self.versions if wrapper.yanked is None), self.versions[0])

    @property
    def view(self) -> str | None:
        return self.versions[0].view

    @property
    def backend(self) -> str:
        return backend_name(self.view)

    @property
    def platforms(self) -> list[Platform]:
        return sorted({platform for found in self.maps.values() for platform, _ in found.rows})

    @property
    def pythons(self) -> list[str]:
        return all_pythons(self.maps.values())

    @property
    def left_out(self) -> list[str]:
        """The releases that have no wrapper at all, newest first."""
        there = {wrapper.release for wrapper in self.versions}
        return sorted(self.omissions.keys() - there, key=Version, reverse=True)

    def is_own(self, build: str) -> bool:
        """Whether a cell holds this backend's own build, not the plain one that stands in for it."""
        return self.view == self.plain or "+" in build or " " in build

    @property
    def reach(self) -> list[tuple[Platform, list[Reach | None]]]:
        """The map of all versions that are not yanked: a row for each platform, a column for each interpreter."""
        found: dict[tuple[Platform, str], Reach] = {}
        for wrapper in (one for one in reversed(self.versions) if one.yanked is None):
            covered = self.maps[wrapper.version]
            for platform, builds in covered.rows:
                for python, build in zip(covered.interpreters, builds, strict=True):
                    if build is not None:
                        first = found[platform, python].first if (platform, python) in found else wrapper.version
                        found[platform, python] = Reach(first=first, newest=wrapper.version, build=build)
        return [(platform, [found.get((platform, python)) for python in self.pythons]) for platform in self.platforms]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The wrappers of one upstream project."""

    project: str
    title: str
    pages: tuple[Page, ...]  # the plain backend first, then the newest

    @property
    def rows(self) -> tuple[tuple[str, tuple[Wrapper | None, ...]], ...]:
        """Releases, newest first, with the newest version that each wrapper has of them."""
        found: dict[str, dict[str, Wrapper]] = defaultdict(dict)
        for page in self.pages:
            for wrapper in page.versions:
                found[wrapper.release].setdefault(page.name, wrapper)
        order = sorted(found, key=Version, reverse=True)
        return tuple((release, tuple(found[release].get(page.name) for page in self.pages)) for release in order)


def group(families: Iterable[Family], plan: Plan) -> tuple[Group, ...]:
    """A plan's wrappers as the pages show them."""
    known = {family.name: family for family in families}
    versions: dict[str, list[Wrapper]] = defaultdict(list)
    omissions: dict[str, dict[str, list[Omission]]] = defaultdict(lambda: defaultdict(list))
    for wrapper in plan.wrappers:
        versions[wrapper.name].append(wrapper)
    for omission in plan.omissions:
        omissions[omission.wrapper][omission.version].append(omission)
    projects: dict[str, list[Page]] = defaultdict(list)
    titles: dict[str, str] = {}
    for name, wrappers in versions.items():
        family = known[wrappers[0].family]
        summaries = {other.name: other.summary for other in known.values() if other.project == family.project}
        titles[family.project] = summaries[min(summaries)]
        projects[family.project].append(
            Page(
                name=name,
                project=family.project,
                plain=family.plain,
                versions=tuple(sorted(wrappers, key=lambda wrapper: Version(wrapper.version), reverse=True)),
                maps={wrapper.version: coverage(wrapper) for wrapper in wrappers},
                omissions={release: tuple(items) for release, items in omissions[name].items()},
            )
        )
    return tuple(
        Group(project=project, title=titles[project], pages=tuple(_ordered(found)))
        for project, found in sorted(projects.items(), reverse=True)
    )


def _ordered(found: Iterable[Page]) -> list[Page]:
    """The plain backend, then wrappers that take the newest, then the others from the newest to the oldest."""
    by_name = sorted(found, key=lambda page: page.name)
    by_backend = sorted(by_name, key=lambda page: natural(page.view or ""), reverse=True)
    return sorted(by_backend, key=lambda page: (page.view != page.plain, page.view is not None))


def backend_name(view: str | None) -> str:
    """A backend as people say it: CUDA 12.8 for cu128; None is a wrapper that takes the newest."""
    if view is None:
        return "newest"
    if match := re.fullmatch(r"cu(\d+)(\d)", view):
        return f"CUDA {match[1]}.{match[2]}"
    if match := re.fullmatch(r"(cuda|rocm)([\d.]+)", view):
        return f"{ {'cuda': 'CUDA', 'rocm': 'ROCm'}[match[1]] } {match[2]}"
    return view.upper() if view in ("cpu", "xpu") else view


def all_pythons(maps: Iterable[Coverage]) -> list[str]:
    """All interpreters of some maps, oldest first."""
    found = {python for covered in maps for python in covered.interpreters}
    return sorted(found, key=lambda python: (PythonTag(python.removesuffix("t"), "").version, python))


def all_platforms(maps: Iterable[Coverage]) -> list[Platform]:
    """All platforms of some maps, as one picks them: Linux first, and of a system those that most maps have."""
    counts = Counter(platform for covered in maps for platform, _ in covered.rows)
    return sorted(counts, key=lambda one: (one.sys_platform != "linux", one.sys_platform, -counts[one], one.machine))
