"""Requirement lines (PEP 508) and the constraints of Poetry and Pipenv, as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from metawheel.doctor.lock_text import file_name, text
from metawheel.doctor.model import Declared, Place, Unread

_PIPENV_KEYS = (
    *("os_name", "sys_platform", "platform_machine", "platform_system", "platform_python_implementation"),
    *("python_version", "python_full_version", "implementation_name", "implementation_version"),
)


def declare(line: str, place: Place, *, tool: str, scope: str = "", constraint: bool = False) -> Declared | Unread:
    """Read a requirement line."""
    try:
        found = Requirement(line)
        for clause in found.specifier:
            if clause.operator == "===":
                Version(clause.version)
    except (InvalidRequirement, InvalidVersion, RecursionError) as error:
        return Unread(place=place, text=line, reason=str(error).partition("\n")[0])
    wheel = declare_url(found.url, place, tool=tool) if found.url else None
    return Declared(
        name=canonicalize_name(found.name),
        place=place,
        text=line,
        tool=tool,
        specifier=wheel.specifier if wheel is not None else found.specifier,
        marker=str(found.marker) if found.marker else None,
        extras=extras_as_written(line) or tuple(sorted(found.extras)),
        url=found.url,
        scope=scope,
        hashed="#sha256=" in (found.url or ""),
        constraint=constraint,
    )


def extras_as_written(line: str) -> tuple[str, ...]:
    match = re.match(r"\s*[\w.-]+\s*\[([^\]]*)\]", line)
    return tuple(part.strip() for part in match[1].split(",") if part.strip()) if match else ()


def declare_url(url: str, place: Place, *, tool: str, marker: str | None = None, scope: str = "") -> Declared | None:
    """A bare wheel address or path; None where its name says no project."""
    try:
        name, version, _, _ = parse_wheel_filename(file_name(url))
    except (InvalidWheelFilename, ValueError):
        return None
    return Declared(
        name=name,
        place=place,
        text=url,
        tool=tool,
        specifier=SpecifierSet(f"=={version}"),
        marker=marker,
        url=url,
        scope=scope,
        hashed="#sha256=" in url,
    )


def constraint_of(text: str) -> SpecifierSet | None:
    """A version constraint of Poetry or Pipenv as a PEP 440 specifier; None where it is none."""
    if text.strip() in {"", "*"}:
        return SpecifierSet()
    if "||" in text or "|" in text:
        return None
    try:
        found = SpecifierSet(",".join(_clauses(text)))
        for clause in found:
            if clause.operator == "===":  # takes any text; what is no version pins none
                Version(clause.version)
        return found
    except (InvalidSpecifier, InvalidVersion):
        return None


def _clauses(text: str) -> Iterable[str]:
    for part in re.split(r"\s*,\s*|(?<=[\w.*])\s+(?=[<>=!~^])", text.strip()):
        clause = part.replace(" ", "")
        if clause.startswith("^"):
            version = Version(clause[1:])
            yield f">={version.public},<{_next(version, _caret(version))}"
        elif re.match(r"~(?!=)", clause):
            version = Version(clause[1:])
            yield f">={version.public},<{_next(version, min(1, len(version.release) - 1))}"
        elif re.match(r"=(?!=)", clause):
            yield f"={clause}"
        elif clause[:1].isdigit():
            yield f"=={clause}"
        elif clause not in {"", "*"}:
            yield clause


def _caret(version: Version) -> int:
    """The number of the first part that is not zero."""
    return next((number for number, part in enumerate(version.release) if part), len(version.release) - 1)


def _next(version: Version, number: int) -> str:
    parts = [*version.release[:number], version.release[number] + 1]
    return ".".join(map(str, parts))


def valid_marker(text: str | None) -> bool:
    try:
        return not text or bool(str(Marker(text)))
    except InvalidMarker:
        return False


def combined(*markers: str | None) -> str | None:
    """All of some markers together; unreadable ones count for nothing."""
    found = [marker for marker in markers if marker and valid_marker(marker)]
    return " and ".join(f"({marker})" for marker in found) if len(found) > 1 else (found[0] if found else None)


def marker_of_keys(entry: Mapping[str, Any]) -> str | None:
    """The marker that a dependency's keys amount to: Poetry's `platform` and `python`, Pipenv's names of variables."""
    platform, python = text(entry, "platform"), text(entry, "python")
    return combined(
        text(entry, "markers"),
        f"sys_platform == '{platform}'" if platform and platform.isalnum() else None,
        _python_marker(python) if python else None,
        *(f"{name} {value}" for name in _PIPENV_KEYS if (value := text(entry, name))),
    )


def _python_marker(constraint: str) -> str | None:
    """A constraint on Python as a marker; None where it says nothing."""
    parts = [constraint_of(part) for part in constraint.split("||")]
    lines = [" and ".join(f"python_full_version {c.operator} '{c.version}'" for c in part or ()) for part in parts]
    return " or ".join(f"({line})" for line in lines) if all(lines) else None
