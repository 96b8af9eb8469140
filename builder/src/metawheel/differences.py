"""What two versions of a wrapper differ in, for people. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from packaging.tags import Tag, parse_tag

from metawheel.model import Platform, Released, Wrapper
from metawheel.tags import FREE_THREADED_SINCE, PythonTag, platforms, system_version

Covered = tuple[Platform, tuple[int, ...], str]  # the interpreter by its version and by its name


def expanded(tags: Iterable[str]) -> frozenset[Tag]:
    """Every tag of some compressed tag sets."""
    return frozenset(tag for compressed in tags for tag in parse_tag(compressed))


def difference(old: Released, new: Wrapper) -> str:
    """Why a wrapper is re-issued."""
    before, now = _covered(old.tags), _covered(new.tags)
    parts = [f"now also for {_listing(now - before)}"] if now - before else []
    parts += [f"no longer for {_listing(before - now)}"] if before - now else []
    if old.requires != new.requires:
        parts.append("other requirement lines")
    one, two = dict(old.extras), dict(new.extras)
    parts += [f"extra {extra} is new" for extra in sorted(two.keys() - one.keys())]
    parts += [f"extra {extra} is gone" for extra in sorted(one.keys() - two.keys())]
    parts += [f"extra {extra} requires others" for extra in sorted(one.keys() & two.keys()) if one[extra] != two[extra]]
    if old.requires_python != new.requires_python:
        parts.append(f"Requires-Python {new.requires_python}, was {old.requires_python}")
    return "; ".join(parts) or "other compatibility tags"


def losses(before: Iterable[str], now: Iterable[str], *, systems: bool) -> str:
    """What compatibility tags let in before and no longer do; "" for nothing, older systems only if asked for."""
    before, now = tuple(before), tuple(now)
    if lost := _covered(before) - _covered(now):
        return _listing(lost)
    old, new = _oldest(before), _oldest(now)
    stricter = sorted({key[0] for key, version in old.items() if key not in new or new[key] > version})
    return f"older systems on {', '.join(map(str, stricter))}" if stricter and systems else ""


def _covered(tags: Iterable[str]) -> set[Covered]:
    return {
        (platform, PythonTag(tag.interpreter, tag.abi).version, python)
        for tag in expanded(tags)
        for platform in platforms(tag.platform)
        for python in _pythons(tag)
    }


def _oldest(tags: Iterable[str]) -> dict[tuple[Platform, str, bool], tuple[int, ...]]:
    """The oldest system for each platform, interpreter and C library (musl or not)."""
    found: dict[tuple[Platform, str, bool], tuple[int, ...]] = {}
    for tag in expanded(tags):
        version = system_version(tag.platform)
        for key in (
            (platform, python, tag.platform.startswith("musllinux_"))
            for platform in platforms(tag.platform)
            for python in _pythons(tag)
        ):
            found[key] = min(version, found.get(key, version))
    return found


def _pythons(tag: Tag) -> tuple[str, ...]:
    """The interpreters of a tag; one without ABI is for the free-threaded build too."""
    both = (tag.interpreter, f"{tag.interpreter}t")
    if tag.abi.startswith("cp") and tag.abi.endswith("t"):
        return both[1:]
    without_abi = tag.interpreter.startswith("cp") and tag.abi == "none"
    return both if without_abi and PythonTag(tag.interpreter, tag.abi).version >= FREE_THREADED_SINCE else both[:1]


def _listing(found: Iterable[Covered]) -> str:
    by_platform: dict[Platform, list[str]] = defaultdict(list)
    for platform, _, python in sorted(found):
        by_platform[platform].append(python)
    return ", ".join(f"{' '.join(pythons)} on {platform}" for platform, pythons in by_platform.items())
