"""Planning: from families and ledgers to wrappers. Pure.

For each wrapper version: which cells exist, one pin for each platform branch, disjoint markers that cover every
environment, guard tags, Requires-Python; and what is left out, with the reason.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from metawheel.branches import Branch, requires_python_of
from metawheel.choose import UNHASHED, Catalog, Choice
from metawheel.family import Companion, Family, WrapperRule
from metawheel.model import Omission, Platform, Released, UpstreamFile, Wrapper
from metawheel.names import refuse_bad_names
from metawheel.pairing import Pairing
from metawheel.reissue import settle
from metawheel.tags import cell_key, guards, intersect, marker, partition

FLAVOURS = ("pinned", "direct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every wrapper that the families and ledgers give, and what had to be left out."""

    wrappers: tuple[Wrapper, ...]
    omissions: tuple[Omission, ...]
    date: str  # of the newest fact in the ledgers: a build has no clock


def plan(
    families: Iterable[Family],
    ledgers: Mapping[str, Sequence[UpstreamFile]],
    *,
    flavour: str = "pinned",
    allow_unhashed: bool = False,
    released: Mapping[str, Sequence[Released]] | None = None,
    name: str | None = None,
) -> Plan:
    """Plan all wrappers; `ledgers` maps a family's name to its files, `released` to what was published of it.

    With `name`, those of the families that have a wrapper of that name, if there are such: the others' ledgers still
    tell which builds there are. Raises FamilyError on names claimed twice.
    """
    families = tuple(families)
    catalogs = {
        family.name: Catalog(family, ledgers[family.name], direct=flavour == "direct", allow_unhashed=allow_unhashed)
        for family in families
    }
    labelled = frozenset().union(*(catalog.own_labelled for catalog in catalogs.values()))
    planners = [
        _Planner(
            catalog=catalog,
            labelled=labelled,
            flavour=flavour,
            pairings={companion.project: Pairing(catalog, companion) for companion in catalog.family.companion},
        )
        for catalog in catalogs.values()
    ]
    planners = [planner for planner in planners if name is not None and planner.has(name)] or planners
    wrappers = [wrapper for planner in planners for wrapper in planner.run()]
    omissions = [omission for planner in planners for omission in planner.omissions]
    refuse_bad_names(families, wrappers)
    asked = {planner.family.name for planner in planners}
    past = {
        name: [i for i in items if i.flavour == flavour] for name, items in (released or {}).items() if name in asked
    }
    order = sorted(settle(wrappers, past, catalogs), key=lambda wrapper: (wrapper.name, Version(wrapper.version)))
    date = max(
        (day for files in ledgers.values() for file in files for day in (file.first_seen, file.gone or "")), default=""
    )
    return Plan(wrappers=tuple(order), omissions=tuple(dict.fromkeys(omissions)), date=date)


def natural(backend: str) -> list[tuple[bool, int | str]]:
    """Sort key by which cu92 < cu101 < cu130, and cuda12.cudnn89 < cuda12.cudnn91."""
    return [(not part.isdigit(), int(part) if part.isdigit() else part) for part in re.findall(r"\d+|\D+", backend)]


@dataclass(slots=True, kw_only=True)
class _Planner:
    catalog: Catalog
    labelled: frozenset[tuple[str, Version, Platform]]
    flavour: str
    pairings: Mapping[str, Pairing]
    omissions: list[Omission] = field(default_factory=list)

    @property
    def family(self) -> Family:
        return self.catalog.family

    def has(self, name: str) -> bool:
        """Whether a wrapper of this name may be among the planned."""
        named = {canonicalize_name(self.family.prefix + r.name) for r in self.family.wrapper if r.newest_of is not None}
        return name in named or any(
            name == self._name(rule, rule.name, backend)
            for release in self.catalog.releases(self.family.project)
            for backend in self.catalog.backends(release)
            for rule in self.family.wrapper
            if rule.backend is not None and re.fullmatch(rule.backend, backend)
        )

    def run(self) -> Iterator[Wrapper]:
        made: dict[str, list[tuple[Version, str, Wrapper]]] = defaultdict(list)
        releases = sorted(self.catalog.releases(self.family.project))
        for rule in self.family.wrapper:
            if rule.newest_of is None:
                for release in releases:
                    made[rule.name] += self._by_backend(rule, release)
        for rule in self.family.wrapper:
            if rule.newest_of is not None:
                made[rule.name] = list(self._newest(rule, made[rule.newest_of]))
        for found in made.values():
            yield from (wrapper for _, _, wrapper in found)

    def _by_backend(self, rule: WrapperRule, release: Version) -> Iterator[tuple[Version, str, Wrapper]]:
        names: dict[str, list[str]] = defaultdict(list)
        for backend in self.catalog.backends(release):
            if re.fullmatch(rule.backend or "", backend):
                names[self._name(rule, rule.name, backend)].append(backend)
        for name, backends in sorted(names.items()):
            if rule.narrows is not None and self._alone(rule, release, backends[0]):
                continue
            # The plain backend last: a rule that takes several prefers every other.
            made = (
                (release, backend, wrapper)
                for backend in sorted(backends, key=lambda b: (b != self.family.plain, natural(b)), reverse=True)
                if (wrapper := self._wrapper(rule, name, release, backend)) is not None
            )
            yield from _first_not_yanked(made)

    def _name(self, rule: WrapperRule, template: str, backend: str) -> str:
        return canonicalize_name(self.family.prefix + rule.filled(template, backend))

    def _alone(self, rule: WrapperRule, release: Version, backend: str) -> bool:
        """Whether a backend is the only one of its release under the wider rule's name."""

        def wide(other: str) -> str | None:
            is_ours = re.fullmatch(rule.backend or "", other)
            return self._name(rule, rule.narrows or "", other) if is_ours else None

        return sum(wide(other) == wide(backend) for other in self.catalog.backends(release)) < 2

    def _wrapper(self, rule: WrapperRule, name: str, release: Version, backend: str) -> Wrapper | None:
        """One version of a wrapper; None, with the reasons kept, where the backend has no cell that can be pinned."""
        omit = _Omit(name, str(release), self.omissions)
        choice = self.catalog.choose(self.family.project, release, backend, rule.fallback, self.labelled)
        for what, reason in choice.omitted:
            omit(what, reason)
        branches = choice.branches
        if not any(branch.own for branch in branches.values()):
            return None
        lines = self._lines(self.family.project, release, choice)
        files = [file for branch in branches.values() for file in branch.files]
        for companion in self.family.companion:
            if companion.project in rule.adds:
                paired, reason = self.pairings[companion.project].of(release)
                if paired is None:
                    omit(companion.project, reason)
                    return None
                added = self.catalog.usable_files(companion.project, paired)
                if not added or any(file.local is not None for file in added):
                    omit(
                        companion.project,
                        f"`=={paired}` pins no build that is told from others: make it an extra" if added else UNHASHED,
                    )
                    return None
                lines.append(f"{companion.project}=={paired}")
                files += added
        cells = tuple(sorted({cell for branch in branches.values() for cell in branch.cells}, key=cell_key))
        requires_python = requires_python_of(files, cells)
        extras: dict[str, tuple[str, ...]] = {}
        for companion in self.family.companion:
            if companion.extra is not None:
                found, extra_files = self._extra(companion, release, backend, rule, branches, omit)
                files += extra_files
                if found:
                    extras[companion.extra] = found
        unique = {file.filename: file for file in files}
        return Wrapper(
            name=name,
            version=str(release),
            release=str(release),
            family=self.family.name,
            flavour=self.flavour,
            view=None if rule.view is None else rule.filled(rule.view, backend),
            summary=rule.filled(rule.summary, backend, version=release),
            requires=tuple(lines),
            extras=tuple(sorted(extras.items())),
            requires_python=requires_python,
            tags=guards(name, str(release), cells),
            cells=cells,
            files=tuple(unique[filename] for filename in sorted(unique) if self._is_pinned(unique[filename])),
            yanked=choice.yanked,
        )

    def _is_pinned(self, file: UpstreamFile) -> bool:
        """Whether a file is found through an index; the direct flavour's lines carry their own addresses."""
        return self.flavour == "pinned" or file.url is None

    def _lines(self, project: str, release: Version, choice: Choice) -> list[str]:
        if self.flavour == "direct":
            return [line for branch in choice.branches.values() for line in branch.direct]
        pins = {platform: branch.pin for platform, branch in choice.branches.items()}
        lines = [_with(pin, condition) for pin, condition in partition(pins, _otherwise(f"{project}=={release}", pins))]
        beside: dict[str, list[Platform]] = defaultdict(list)
        for platform, branch in choice.branches.items():
            for requirement in branch.beside:
                beside[requirement].append(platform)
        return lines + [_with(requirement, marker(found)) for requirement, found in sorted(beside.items())]

    def _extra(
        self,
        companion: Companion,
        release: Version,
        backend: str,
        rule: WrapperRule,
        branches: Mapping[Platform, Branch],
        omit: _Omit,
    ) -> tuple[tuple[str, ...], list[UpstreamFile]]:
        """An extra's lines for the platforms where the paired companion has the same build, and its files."""
        paired, reason = self.pairings[companion.project].of(release)
        if paired is None:
            omit(f"extra {companion.extra}", reason)
            return (), []
        choice = self.catalog.choose(companion.project, paired, backend, rule.fallback, self.labelled)
        if choice.yanked is not None:
            omit(f"extra {companion.extra}", f"{companion.project} {paired} is yanked upstream: {choice.yanked}")
            return (), []
        reasons = dict(choice.omitted)
        pins: dict[str, list[Platform]] = defaultdict(list)
        lines: list[str] = []
        files: list[UpstreamFile] = []
        for platform, branch in branches.items():
            found = choice.branches.get(platform)
            if found is None:
                why = reasons.get(str(platform), f"upstream has no {companion.project} {paired} of that build there")
                omit(f"extra {companion.extra} on {platform}", why)
                continue
            common = {cell.python for cell in intersect(branch.cells, found.cells)}
            if missing := sorted({cell.python for cell in branch.cells} - common):
                omit(
                    f"extra {companion.extra} on {platform}",
                    f"{companion.project} {paired} has no hashed wheel for {', '.join(missing)}: installing it fails",
                )
            files += found.files
            pins[found.pin].append(platform)
            lines += found.direct
        if self.flavour == "direct":
            return tuple(lines), files
        return tuple(_with(pin, marker(found)) for pin, found in sorted(pins.items(), reverse=True)), files

    def _newest(
        self, rule: WrapperRule, made: Sequence[tuple[Version, str, Wrapper]]
    ) -> Iterator[tuple[Version, str, Wrapper]]:
        newest: dict[Version, tuple[str, Wrapper]] = {}
        for release, backend, wrapper in made:
            rank = (wrapper.yanked is None, natural(backend))
            if release not in newest or (newest[release][1].yanked is None, natural(newest[release][0])) < rank:
                newest[release] = (backend, wrapper)
        name = canonicalize_name(self.family.prefix + rule.name)
        for release, (backend, wrapper) in sorted(newest.items()):
            yield (
                release,
                backend,
                replace(
                    wrapper,
                    name=name,
                    view=None,
                    summary=rule.filled(rule.summary, backend, version=release),
                    requires=(f"{wrapper.name}=={release}",),
                    extras=tuple((extra, (f"{wrapper.name}[{extra}]=={release}",)) for extra, _ in wrapper.extras),
                    tags=guards(name, str(release), wrapper.cells),
                ),
            )


def _otherwise(plain: str, pins: Mapping[Platform, str]) -> str:
    """What the last branch pins, for every environment that no other names: the plain build, or what macOS gets."""
    relabelled = {pin for platform, pin in pins.items() if platform.sys_platform == "darwin"} - {plain}
    return plain if plain in pins.values() else max(relabelled, default=plain)


def _first_not_yanked(made: Iterable[tuple[Version, str, Wrapper]]) -> Iterator[tuple[Version, str, Wrapper]]:
    """The first wrapper that is not yanked; else the first of all, for those who have locked it."""
    yanked: list[tuple[Version, str, Wrapper]] = []
    for item in made:
        if item[2].yanked is None:
            yield item
            return
        yanked.append(item)
    yield from yanked[:1]


@dataclass(frozen=True, slots=True)
class _Omit:
    """Notes what one wrapper leaves out."""

    wrapper: str
    version: str
    omissions: list[Omission]

    def __call__(self, what: str, reason: str) -> None:
        self.omissions.append(Omission(wrapper=self.wrapper, version=self.version, what=what, reason=reason))


def _with(requirement: str, condition: str | None) -> str:
    return requirement if condition is None else f"{requirement} ; {condition}"
