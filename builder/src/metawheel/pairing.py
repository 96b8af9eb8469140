"""Pairing: which release of a companion was built for a release of the wrapped project, by its METADATA. Pure."""

from __future__ import annotations

from collections import defaultdict

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from metawheel.choose import Catalog
from metawheel.family import Companion


class Pairing:
    """What one companion's releases say of the wrapped project."""

    def __init__(self, catalog: Catalog, companion: Companion) -> None:
        self._project = catalog.family.project
        self._companion = companion
        self._pins: dict[Version, list[Version]] = defaultdict(list)  # nearly all name one release
        self._ranges: list[tuple[SpecifierSet, Version]] = []
        self._found: dict[Version, tuple[Version | None, str]] = {}  # asked for by each backend of a release
        for candidate in catalog.releases(companion.project):
            if catalog.yanked(companion.project, candidate) is None:
                for line in catalog.requires(companion.project, candidate):
                    self._add(Requirement(line).specifier, candidate)

    def _add(self, specifier: SpecifierSet, candidate: Version) -> None:
        parts = list(specifier)
        if len(parts) == 1 and parts[0].operator == "==" and not parts[0].version.endswith(".*"):
            self._pins[Version(parts[0].version)].append(candidate)
        else:
            self._ranges.append((specifier, candidate))

    def of(self, release: Version) -> tuple[Version | None, str]:
        """The companion's release whose METADATA names this release, or the reason why there is none."""
        if release not in self._found:
            self._found[release] = self._find(release)
        return self._found[release]

    def _find(self, release: Version) -> tuple[Version | None, str]:
        name = self._companion.project
        paired = list(self._pins.get(release, ()))
        loose: list[Version] = []
        for specifier, candidate in self._ranges:
            if specifier.contains(release, prereleases=True):
                is_bounded = any(part.operator in ("==", "<=", "<", "~=") for part in specifier)
                (paired if is_bounded else loose).append(candidate)
        if paired:
            same = self._companion.prefer_same_version and release in paired
            return (release if same else max(paired)), ""
        if loose:
            return None, f"{name} {max(loose)} does not say which one {self._project} it was built for"
        return None, f"no {name} whose METADATA names {self._project} {release}"
