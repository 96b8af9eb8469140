"""Targets: an interpreter on a platform, as markers (PEP 508) and compatibility tags (PEP 425) see it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags, mac_platforms
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

_SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
KNOWN_PYTHONS = tuple(f"3.{minor}" for minor in range(8, 15))
OLD_PYTHONS = ("3.6", "3.7")  # for projects that take no newer one
USUAL_PYTHON = "3.12"  # where neither the user nor the project says one
NEWEST_GLIBC = 39  # 2.39: what a current Linux has
NEWEST_MACOS = (15, 0)


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """An interpreter on a platform; the name is how `--target` spells the platform."""

    name: str
    sys_platform: str
    machine: str
    python: str = USUAL_PYTHON
    free_threaded: bool = False

    def __str__(self) -> str:
        return f"{self.name} py{self.python}{'t' if self.free_threaded else ''}"

    def with_python(self, text: str) -> Target:
        return replace(self, python=text.removesuffix("t"), free_threaded=text.endswith("t"))

    @property
    def mac(self) -> bool:
        return self.sys_platform == "darwin"

    def fits(self, marker: str | None, extras: Iterable[str] = ()) -> bool:
        """Whether a marker holds here; one on extras holds where one of these makes it so, an unreadable one does."""
        if not marker:
            return True
        return any(_holds(self, marker, extra) for extra in ("", *extras))

    def takes(self, filename: str) -> bool:
        """Whether an installer would take a wheel, by its file name."""
        return _takes(self, filename)

    def meets(self, requires_python: str | None) -> bool:
        """Whether the interpreter is in a Requires-Python specifier; Poetry's `||` is understood."""
        if not requires_python or requires_python.strip() == "*":
            return True
        return any(_has_release(part, self.python, unreadable=True) for part in requires_python.split("||"))

    @property
    def full_python(self) -> str:
        return self.python if self.python.count(".") > 1 else f"{self.python}.9"


@functools.cache
def _has_release(specifier: str, python: str, *, unreadable: bool) -> bool:
    """Whether a specifier takes a Python or, of a minor version, any release: a project may take only some of them."""
    try:
        found = SpecifierSet(specifier.replace(" ", ""))
    except InvalidSpecifier:
        return unreadable
    releases = [python] if python.count(".") > 1 else [f"{python}.{micro}" for micro in range(30)]
    return any(found.contains(release, prereleases=True) for release in releases)


@functools.cache
def _marker(text: str) -> Marker | None:
    try:
        return Marker(text)
    except InvalidMarker:
        return None


@functools.lru_cache(maxsize=1 << 16)
def _holds(target: Target, text: str, extra: str) -> bool:
    parsed = _marker(text)
    if parsed is None:
        return True
    try:
        chosen = frozenset({extra} if extra else ())
        return parsed.evaluate({**_environment(target), "extra": extra, "extras": chosen})
    except (UndefinedEnvironmentName, UndefinedComparison, ValueError, KeyError):
        return True  # `dependency_groups` (PEP 751) and nonsense: may hold


@functools.cache
def _environment(target: Target) -> dict[str, str]:
    return {
        "implementation_name": "cpython",
        "implementation_version": target.full_python,
        "os_name": "nt" if target.sys_platform == "win32" else "posix",
        "platform_machine": target.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": _SYSTEMS.get(target.sys_platform, ""),
        "platform_version": "",
        "python_full_version": target.full_python,
        "python_version": ".".join(target.python.split(".")[:2]),
        "sys_platform": target.sys_platform,
    }


def _platforms(target: Target) -> Sequence[str]:
    if target.sys_platform == "win32":
        return (f"win_{target.machine.lower()}",)
    if target.mac:
        return tuple(mac_platforms(NEWEST_MACOS, target.machine))
    oldest = 5 if target.machine in {"x86_64", "i686"} else 17
    found = []
    for minor in range(NEWEST_GLIBC, oldest - 1, -1):
        found.append(f"manylinux_2_{minor}_{target.machine}")
        if minor in _MANYLINUX:
            found.append(f"{_MANYLINUX[minor]}_{target.machine}")
    return (*found, f"linux_{target.machine}")


@functools.cache
def _tags(target: Target) -> frozenset[object]:
    major, minor = (int(part) for part in target.python.split(".")[:2])
    plain = f"cp{major}{minor}"
    abi = plain + ("t" if target.free_threaded else "m" if minor < 8 else "")
    platforms = _platforms(target)
    return frozenset(
        (
            *cpython_tags((major, minor), [abi], platforms),
            *compatible_tags((major, minor), plain, platforms),
        )
    )


@functools.lru_cache(maxsize=1 << 14)
def _takes(target: Target, filename: str) -> bool:
    try:
        found = parse_wheel_filename(filename)[3]
    except (InvalidWheelFilename, ValueError):
        return False
    return not _tags(target).isdisjoint(found)


PLATFORMS = {
    target.name: target
    for target in (
        Target("linux-x86_64", "linux", "x86_64"),
        Target("linux-aarch64", "linux", "aarch64"),
        Target("macos-arm64", "darwin", "arm64"),
        Target("macos-x86_64", "darwin", "x86_64"),
        Target("windows-amd64", "win32", "AMD64"),
        Target("windows-arm64", "win32", "ARM64"),
    )
}
USUAL = ("linux-x86_64", "macos-arm64", "windows-amd64")
_SYNONYMS = {
    "linux": "linux manylinux",
    "macos": "macos macosx mac darwin apple",
    "windows": "windows win win32",
    "x86_64": "amd64 x64 intel",  # x86_64 itself is spelled amd64 before it is looked up
    "arm": "aarch64 arm64",
}
_WORDS = {word: meant for meant, words in _SYNONYMS.items() for word in words.split()}
_NAMES = {
    ("linux", "x86_64"): "linux-x86_64",
    ("linux", "arm"): "linux-aarch64",
    ("macos", "x86_64"): "macos-x86_64",
    ("macos", "arm"): "macos-arm64",
    ("windows", "x86_64"): "windows-amd64",
    ("windows", "arm"): "windows-arm64",
}


def parse_platform(text: str) -> Target | None:
    """A platform by any of its usual names: linux-x86_64, darwin-arm64, win_amd64, x86_64-unknown-linux-gnu."""
    spelled = text.lower().replace("x86_64", "amd64")
    words = {_WORDS[word] for word in re.split(r"[-_ ]", spelled) if word in _WORDS}
    for (system, machine), name in _NAMES.items():
        if {system, machine} == words:
            return PLATFORMS[name]
    return None


def declared_platforms(markers: Sequence[str]) -> tuple[Target, ...]:
    """Of all platforms, those that a project's markers name; the usual ones where it has none."""
    if not markers:
        return tuple(PLATFORMS[name] for name in USUAL)
    found = [target for target in PLATFORMS.values() if any(_names(target, text) for text in markers)]
    if len(found) == len(PLATFORMS):
        return tuple(PLATFORMS[name] for name in USUAL)
    return tuple(found)


def _names(target: Target, marker: str) -> bool:
    """Whether a marker fits, and asks for the platform's machine if it is not a usual one."""
    asked = re.search(rf"platform_machine\s*==\s*['\"]{target.machine}['\"]", marker) is not None
    return target.fits(marker) and (asked or target.name in USUAL)


def declared_pythons(requires_python: str | None) -> tuple[str, ...]:
    """The oldest interpreter that Requires-Python takes, and the newest where it has an upper bound.

    Without a bound the newest is left out: no project means all interpreters to come.
    """
    if not requires_python or requires_python.strip() == "*":
        return (USUAL_PYTHON,)
    parts = requires_python.split("||")
    fitting, old = (
        [text for text in pythons if any(_has_release(part, text, unreadable=False) for part in parts)]
        for pythons in (KNOWN_PYTHONS, OLD_PYTHONS)
    )
    if not fitting:
        return tuple(old[-1:]) or (USUAL_PYTHON,)
    bounded = fitting[-1] != KNOWN_PYTHONS[-1]
    return tuple(dict.fromkeys((fitting[0], fitting[-1]) if bounded else (fitting[0],)))
