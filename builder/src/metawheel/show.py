"""`metawheel show`: one wrapper, what it covers and what it leaves out. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
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
        if requirement.url or requirement.marker or len(requirement.specifier) != len(exact) or len(exact) > 1:
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
    wrapper = emitted.get(version)
    release = wrapper.release if wrapper is not None else version
    # What a wrapper of a wrapper lacks is left out where its builds are pinned.
    behind = {name, *(canonicalize_name(Requirement(line).name) for line in (wrapper.requires if wrapper else ()))}
    omissions = tuple(o for o in plan.omissions if o.wrapper in behind and o.version == release)
    _refuse_unknown_extras(requirement, wrapper, omissions)
    return Shown(name=name, version=version, wrapper=wrapper, versions=versions, omissions=omissions)


def _refuse_unknown_extras(wanted: Requirement, wrapper: Wrapper | None, omissions: Iterable[Omission]) -> None:
    """Raise UnknownName for an extra that a wrapper has not; of one that was left out there is something to tell."""
    if wrapper is None:
        return
    extras = {extra for extra, _ in wrapper.extras}
    left_out = {omission.what.split()[1] for omission in omissions if omission.what.startswith("extra ")}
    if strange := {canonicalize_name(extra) for extra in wanted.extras} - extras - left_out:
        has = ", ".join(sorted(extras)) or "none"
        raise UnknownName(f"{wrapper.key} has no extra {', '.join(sorted(strange))}; it has {has}")
