"""Choosing which upstream wheels a backend gets on each platform. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from packaging.utils import canonicalize_name
from packaging.version import Version

from metawheel.branches import Branch, Unusable, cells_of, directly, file_platforms, project_of
from metawheel.family import Family, Plugin
from metawheel.model import Cell, Platform, UpstreamFile
from metawheel.tags import intersect

PLAIN_BESIDE = "a plain build beside labelled ones of the same version (`metawheel relabel` gives it a label)"
UNHASHED = "upstream states no sha256 (`metawheel sync --hash-missing` computes it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The branches of one release of one project for one backend, and what was left out."""

    branches: dict[Platform, Branch]
    yanked: str | None  # the reason, where upstream yanked every build of the backend
    omitted: tuple[tuple[str, str], ...]  # what, reason


@dataclass(slots=True)
class _Found:
    own: list[UpstreamFile] = field(default_factory=list)
    stand_in: list[UpstreamFile] = field(default_factory=list)
    plugin: Plugin | None = None
    withdrawn: bool = False  # every build of the backend is yanked: the wrapper stays, yanked too


class Catalog:
    """A family's ledger, indexed."""

    def __init__(self, family: Family, files: Sequence[UpstreamFile], *, direct: bool, allow_unhashed: bool) -> None:
        self.family = family
        self.direct = direct
        self.allow_unhashed = allow_unhashed
        self._order = {source.name: number for number, source in enumerate(family.source)}
        self._files: dict[str, dict[Version, list[UpstreamFile]]] = defaultdict(lambda: defaultdict(list))
        self._builds: dict[tuple[str, Version], dict[tuple[str, Platform], list[UpstreamFile]]] = {}
        for file in files:
            if file.gone is None:
                self._files[file.project][file.release].append(file)

    def releases(self, project: str) -> list[Version]:
        return list(self._files[project])

    def requires(self, project: str, release: Version) -> tuple[str, ...]:
        return next((f.requires for f in self._files[project][release] if f.requires is not None), ())

    def yanked(self, project: str, release: Version) -> str | None:
        """The reason, where upstream yanked every file of a release."""
        return _yanked(self._files[project][release])

    @cached_property
    def _addresses(self) -> dict[str, UpstreamFile]:
        every = (file for releases in self._files.values() for files in releases.values() for file in files)
        return {file.url: file for file in every if file.url is not None}

    @cached_property
    def own_labelled(self) -> frozenset[tuple[str, Version, Platform]]:
        """Where upstream has builds with a local version label: there `==X` may mean any of them."""
        return frozenset(
            (project, release, platform)
            for project, releases in self._files.items()
            for release, files in releases.items()
            for file in files
            if file.local is not None
            for platform in file_platforms(file)
        )

    def builds(self, project: str, release: Version) -> dict[tuple[str, Platform], list[UpstreamFile]]:
        """The wheels of a release by backend and platform."""
        key = (project, release)
        if key not in self._builds:
            found: dict[tuple[str, Platform], list[UpstreamFile]] = defaultdict(list)
            for file in self._files[project][release]:
                for platform in file_platforms(file):
                    found[self.family.backend(file), platform].append(file)
            self._builds[key] = dict(found)
        return self._builds[key]

    def backends(self, release: Version) -> list[str]:
        """The backends of a release of the wrapped project: those of its builds, and those of plugins."""
        found = {backend for backend, _ in self.builds(self.family.project, release)}
        found |= {plugin.backend for plugin in self.family.plugin if self._plugin_files(plugin, release) is not None}
        return sorted(found)

    def _plugin_files(self, plugin: Plugin, release: Version) -> list[list[UpstreamFile]] | None:
        files = [self._files[project_of(name)].get(release, []) for name in plugin.requires]
        return files if all(files) else None

    def _turns(self, plugin: Plugin, release: Version, platform: Platform, fallback: Iterable[str]) -> bool:
        """Whether a platform's plain build is a plugin's; where the plugin has no wheel it may stand in for it."""
        there = all(
            any(platform in file_platforms(file) for file in files)
            for files in self._plugin_files(plugin, release) or ()
        )
        return platform.sys_platform in plugin.systems and (there or platform.sys_platform not in fallback)

    def usable_files(self, project: str, release: Version) -> list[UpstreamFile]:
        """The wheels of a release that may be linked, one for each file name."""
        return self._usable(self._files[project][release])

    def has(self, project: str) -> bool:
        return canonicalize_name(project) in self._files

    def linked_files(self, project: str, version: Version) -> list[UpstreamFile]:
        """The wheels of one build that may be linked, yanked ones too, one for each file name."""
        there = self._files.get(project, {}).get(Version(version.public), [])
        return self._usable([file for file in there if file.name.version == version], withdrawn=True)

    def file_at(self, url: str) -> UpstreamFile | None:
        """The file that upstream lists at an address."""
        return self._addresses.get(url)

    def choose(
        self,
        project: str,
        release: Version,
        backend: str,
        fallback: Iterable[str],
        labelled: frozenset[tuple[str, Version, Platform]],
    ) -> Choice:
        """What each platform gets for a backend: its own builds, or where `fallback` allows it the plain build.

        A platform whose own builds cannot be pinned is left out; the plain build does not take their place.
        """
        found: dict[Platform, _Found] = defaultdict(_Found)
        for (other, platform), files in self.builds(project, release).items():
            if other == backend:
                found[platform].own += files
            elif other == self.family.plain and platform.sys_platform in fallback:
                found[platform].stand_in += files
        for plugin in self.family.plugin if project == self.family.project else ():
            if plugin.backend == backend and self._plugin_files(plugin, release) is not None:
                for (other, platform), files in self.builds(project, release).items():
                    if other == self.family.plain and self._turns(plugin, release, platform, fallback):
                        found[platform].own += files
                        found[platform].plugin = plugin
        branches: dict[Platform, Branch] = {}
        omitted: list[tuple[str, str]] = []
        yanked = _yanked(file for item in found.values() for file in item.own)
        for platform in sorted(found):
            item = found[platform]
            item.withdrawn = yanked is not None
            try:
                branches[platform] = self._branch(project, release, platform, item, labelled, omitted)
            except Unusable as reason:
                omitted.append((str(platform), str(reason)))
        return Choice(branches=branches, yanked=yanked, omitted=tuple(omitted))

    def _branch(
        self,
        project: str,
        release: Version,
        platform: Platform,
        found: _Found,
        labelled: frozenset[tuple[str, Version, Platform]],
        omitted: list[tuple[str, str]],
    ) -> Branch:
        listed = found.own or found.stand_in
        files = [file for file in listed if file.local is not None] or listed
        if files[0].local is not None:
            unlabelled = sorted(file.filename for file in listed if not self._has_label(file, files))
            omitted += [(f"{platform}: {filename}", PLAIN_BESIDE) for filename in unlabelled]
        elif not self.direct:
            self._refuse_ambiguous(project, release, platform, files, labelled)
        usable = self._usable(files, withdrawn=found.withdrawn)
        if not usable:
            yanked = next((file.yanked for file in files if file.yanked is not None), None)
            raise Unusable(f"yanked upstream: {yanked or 'no reason given'}" if yanked is not None else UNHASHED)
        omitted += self._left_out(platform, files, usable)
        build = str(usable[0].name.version)
        beside: tuple[str, ...] = ()
        if found.own and found.plugin is not None:
            build = f"{build} with {found.plugin.requires[0].partition('[')[0]}"
            cells, beside, usable = self._with_plugin(
                found, release, platform, cells_of(usable, platform, build), usable
            )
        else:
            cells = cells_of(usable, platform, build)
        branch = Branch(
            own=bool(found.own),
            pin=f"{project}=={usable[0].name.version}",
            files=tuple(usable),
            cells=cells,
            beside=beside,
        )
        return directly(branch, platform, omitted) if self.direct else branch

    @staticmethod
    def _has_label(file: UpstreamFile, labelled: Iterable[UpstreamFile]) -> bool:
        """Whether a build is a labelled one, or there is one for the same interpreter and platform."""
        return file in labelled or any(file.name.tags <= other.name.tags for other in labelled)

    @staticmethod
    def _left_out(
        platform: Platform, files: Iterable[UpstreamFile], usable: Iterable[UpstreamFile]
    ) -> list[tuple[str, str]]:
        names = {file.filename for file in usable}
        left = {file.filename: file for file in files if file.filename not in names}
        return [
            (
                f"{platform}: {name}",
                UNHASHED if file.yanked is None else f"yanked upstream: {file.yanked or 'no reason given'}",
            )
            for name, file in sorted(left.items())
        ]

    def _refuse_ambiguous(
        self,
        project: str,
        release: Version,
        platform: Platform,
        files: Sequence[UpstreamFile],
        labelled: frozenset[tuple[str, Version, Platform]],
    ) -> None:
        backend = self.family.backend(files[0])
        if backend != self.family.plain:
            raise Unusable(
                f"its {backend} build has no local version label: `=={release}` cannot tell it from other builds "
                "(the direct flavour has it)"
            )
        if (project, release, platform) in labelled:
            raise Unusable(
                f"the plain build cannot be told from the labelled builds of {project} {release} there "
                "(the direct flavour has it)"
            )

    def _usable(self, files: Sequence[UpstreamFile], *, withdrawn: bool = False) -> list[UpstreamFile]:
        """Hashed, not yanked (unless all are), one file for each name: the first source's, in its own folder."""
        if not withdrawn:
            files = [file for file in files if file.yanked is None]
        best: dict[str, UpstreamFile] = {}
        for file in sorted(files, key=self._preference):
            if file.sha256 is not None or self.allow_unhashed:
                best.setdefault(file.filename, file)
        return [best[filename] for filename in sorted(best)]

    def _preference(self, file: UpstreamFile) -> tuple[bool, int, bool, str]:
        folder = f"/{file.local or self.family.plain}/"
        return (
            file.sha256 is None,
            self._order.get(file.source, len(self._order)),
            folder not in (file.url or ""),
            file.url or "",
        )

    def _with_plugin(
        self, found: _Found, release: Version, platform: Platform, cells: tuple[Cell, ...], files: list[UpstreamFile]
    ) -> tuple[tuple[Cell, ...], tuple[str, ...], list[UpstreamFile]]:
        required = found.plugin.requires if found.plugin is not None else []
        files = list(files)
        for name in required:
            project = project_of(name)
            there = [file for file in self._files[project][release] if platform in file_platforms(file)]
            usable = self._usable(there, withdrawn=found.withdrawn)
            if not usable:
                raise Unusable(f"no {project} {release} there")
            cells = intersect(cells, cells_of(usable, platform, name))
            files += usable
        if not cells:
            raise Unusable(f"no interpreter has both {required[0]} {release} and the project itself")
        return cells, tuple(f"{name}=={release}" for name in required), files


def _yanked(files: Iterable[UpstreamFile]) -> str | None:
    """The reason, where all of some files are yanked."""
    reasons = [file.yanked for file in files]
    return None if None in reasons else min((reason for reason in reasons if reason is not None), default=None)
