"""`metawheel show`: one wrapper, what it covers and what it leaves out. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from metawheel.errors import UnknownName
from metawheel.model import Omission, Wrapper
from metawheel.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What there is to say of a wrapper; without a wrapper, why there is none."""

    name: str
    version: str
    wrapper: Wrapper | None
    versions: tuple[str, ...]  # all that are emitted, newest first
    omissions: tuple[Omission, ...]


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def find(plan: Plan, wanted: str) -> Shown:
    """Find NAME (its newest version) or NAME==VERSION; raises UnknownName."""
    try:
        requirement = Requirement(wanted)
        exact = [specifier.version for specifier in requirement.specifier if specifier.operator == "=="]
        if requirement.specifier and (len(requirement.specifier) != 1 or not exact):
            raise UnknownName(f"{wanted!r} is not NAME or NAME==VERSION")
    except InvalidRequirement:
        raise UnknownName(f"{wanted!r} is not NAME or NAME==VERSION") from None
    name = canonicalize_name(requirement.name)
    emitted = {wrapper.version: wrapper for wrapper in plan.wrappers if wrapper.name == name}
    omitted = {omission.version for omission in plan.omissions if omission.wrapper == name}
    versions = tuple(sorted(emitted, key=Version, reverse=True))
    if not emitted and not omitted:
        known = sorted({wrapper.name for wrapper in plan.wrappers})
        close = difflib.get_close_matches(name, known, 3, 0.5) or known
        raise UnknownName(f"no wrapper is named {name!r}; did you mean {', '.join(close)}?")
    there = versions or tuple(sorted(omitted, key=Version, reverse=True))
    asked = exact[0] if exact else there[0]
    if not _is_version(asked):
        raise UnknownName(f"{wanted!r}: {asked!r} is not a version")
    version = next((v for v in {**emitted, **dict.fromkeys(omitted)} if Version(v) == Version(asked)), asked)
    if version not in emitted and version not in omitted:
        raise UnknownName(f"{name} has no version {version}; upstream has {', '.join(there)}")
    release = emitted[version].release if version in emitted else version
    return Shown(
        name=name,
        version=version,
        wrapper=emitted.get(version),
        versions=versions,
        omissions=tuple(o for o in plan.omissions if (o.wrapper, o.version) == (name, release)),
    )
