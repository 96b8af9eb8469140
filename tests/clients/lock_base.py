"""What every lock reader shares: the questions that can be put to a lock, and the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from tests.clients.targets import TARGETS, Target


class LockError(AssertionError):
    """A lock that contradicts itself or cannot be read as one."""


class AmbiguousLockError(LockError):
    """A lock that means several versions of one project at once."""


@dataclass(frozen=True)
class Locked:
    """One project as a lock has it for a target."""

    name: str
    version: str
    # Every file the lock names for it; None where the lock's form names none.
    files: tuple[str, ...] | None = None
    # Those an installer on the target would take; empty is "locked, but nothing to install there".
    installable: tuple[str, ...] = ()
    # The index or URL that the lock says it comes from, where it says so.
    source: str | None = None


@dataclass(frozen=True)
class Scope:
    """What a lock is asked about: where, and with which extras and groups of the project."""

    target: Target
    extras: frozenset[str]
    groups: frozenset[str]

    def fits(self, marker: str | Marker | None) -> bool:
        """Evaluate a marker."""
        return self.target.fits(marker, self.extras)


class Lock(ABC):
    """A lock that can be asked what is active on a target."""

    @abstractmethod
    def _packages(self, scope: Scope) -> Iterable[Locked]:
        """Yield what is active, `installable` not filled in."""

    def active(
        self, target: Target, *, extras: Iterable[str] = (), groups: Iterable[str] = ("main",)
    ) -> tuple[Locked, ...]:
        """Everything that would be installed on a target, by name."""
        found = {
            (item.name, item.version, item.source): item
            for item in self._packages(Scope(target, frozenset(extras), frozenset(groups)))
        }
        filled = [
            replace(item, installable=tuple(file for file in item.files or () if target.takes(file)))
            for item in found.values()
        ]
        return tuple(sorted(filled, key=lambda item: (item.name, item.version)))

    def find(
        self,
        name: str,
        target: Target,
        *,
        extras: Iterable[str] = (),
        groups: Iterable[str] = ("main",),
    ) -> Locked | None:
        """The one entry of a project on a target, None where it is not installed there."""
        wanted = canonicalize_name(name)
        found = [item for item in self.active(target, extras=extras, groups=groups) if item.name == wanted]
        if len(found) > 1:
            versions = ", ".join(item.version for item in found)
            raise AmbiguousLockError(f"{wanted} is locked more than once on {target.name}: {versions}")
        return found[0] if found else None

    def versions(self, name: str, targets: Iterable[Target] = TARGETS) -> dict[str, str | None]:
        """The version of a project on each target, by the target's name."""
        found = {target.name: self.find(name, target) for target in targets}
        return {target: item.version if item else None for target, item in found.items()}


def table_list(table: Mapping[str, object], key: str) -> list[dict[str, object]]:
    """Read an array of tables that may be absent."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise LockError(f"{key} is not an array of tables")
    return found


def text_or_none(table: Mapping[str, object], key: str) -> str | None:
    """Read a string that may be absent."""
    found = table.get(key)
    return found if isinstance(found, str) else None
