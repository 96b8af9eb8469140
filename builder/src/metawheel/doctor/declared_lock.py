"""Pins as a lock: where nothing is locked, what requirement lines themselves say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from metawheel.doctor.lock_text import file_name
from metawheel.doctor.model import Declared, Locked, LockedFile, Place
from metawheel.doctor.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLock:
    """The requirement lines of one file and what it includes; a version is known where it is pinned."""

    path: str
    declared: tuple[Declared, ...]
    python: str | None = None
    environments: tuple[str, ...] = ()
    kind: str = "requirements"
    unhashed: tuple[tuple[str, Place], ...] = ()

    @property
    def selections(self) -> tuple[str, ...]:
        return ("", *sorted({item.scope for item in self.declared if item.scope}))

    @property
    def packages(self) -> tuple[Locked, ...]:
        return tuple(_locked(item, None) for item in self.declared if not item.constraint)

    def covers(self, target: Target) -> bool:
        fits = not self.environments or any(target.fits(marker) for marker in self.environments)
        return fits and target.meets(self.python)

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        here = [item for item in self.declared if item.scope in {"", selection} and target.fits(item.marker)]
        bounds = {item.name: item for item in here if item.constraint and item.pin is not None}
        found: dict[tuple[str, str], Locked] = {}
        pinned = {item.name for item in here if not item.constraint and item.pin is not None}
        for item in here:
            if item.constraint or (item.pin is None and item.name in pinned):
                continue
            locked = _locked(item, bounds.get(item.name))
            found.setdefault((locked.name, str(locked.version)), locked)
        return tuple(found.values())


def _locked(item: Declared, bound: Declared | None) -> Locked:
    by = item if item.pin is not None or bound is None else bound
    wheel = file_name(item.url) if item.url else ""
    return Locked(
        name=item.name,
        version=by.pin,
        place=by.place,
        wanted=str(item.specifier or ""),
        files=(LockedFile(filename=wheel),) if wheel.endswith(".whl") else None,
        source=item.url,
        registry=item.url is None,
    )


def requirements_unhashed(declared: Iterable[Declared]) -> tuple[tuple[str, Place], ...]:
    """The lines without a hash of a file in which others have one: pip then refuses all (hash-checking mode)."""
    lines = [item for item in declared if not item.constraint]
    if not any(item.hashed for item in lines):
        return ()
    return tuple((item.name, item.place) for item in lines if not item.hashed)
