"""Compatibility tags and environment markers: from the one to the other, and guards made of them. Pure."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from metawheel.model import Cell, Platform

FREE_THREADED_SINCE = (3, 13)
MAX_FILE_NAME = 200  # bytes; file systems allow 255, and servers and lock files add to a name

# platform.machine() where it is not what the platform tag says.
_WINDOWS = {
    "win_amd64": Platform("win32", "AMD64"),
    "win_arm64": Platform("win32", "ARM64"),
    "win32": Platform("win32", "x86"),
}
_LINUX = re.compile(r"(?:linux|manylinux1|manylinux2010|manylinux2014|(?:many|musl)linux_\d+_\d+)_(?P<machine>\w+)")
_MACOS = re.compile(r"macosx_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>\w+)")
_GLIBC = {"linux": (0, 0), "manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


@functools.cache
def platforms(platform_tag: str) -> tuple[Platform, ...]:
    """The platforms that a platform tag may be for; none for `any` and for tags that are not known."""
    if platform_tag in _WINDOWS:
        return (_WINDOWS[platform_tag],)
    if match := _MACOS.fullmatch(platform_tag):
        machine = match["machine"]
        machines = {"universal2": ("x86_64", "arm64"), "intel": ("x86_64",)}.get(machine, (machine,))
        return tuple(Platform("darwin", machine) for machine in machines)
    if match := _LINUX.fullmatch(platform_tag):
        return (Platform("linux", match["machine"]),)
    return ()


@functools.cache
def system_version(platform_tag: str) -> tuple[int, ...]:
    """The oldest glibc, musl or macOS that a tag stands for: a greater one is stricter."""
    if match := _MACOS.fullmatch(platform_tag):
        return (int(match["major"]), int(match["minor"]))
    if match := re.match(r"(?:many|musl)linux_(\d+)_(\d+)_", platform_tag):
        return (int(match[1]), int(match[2]))
    return _GLIBC.get(platform_tag.partition("_")[0], (0, 0))


@functools.cache
def _python_version(interpreter: str) -> tuple[int, ...]:
    digits = re.sub(r"\D", "", interpreter)
    return (int(digits[0]), int(digits[1:])) if len(digits) > 1 else (int(digits or 3),)


class PythonTag(NamedTuple):
    """A Python and an ABI tag (PEP 425)."""

    interpreter: str
    abi: str

    @property
    def version(self) -> tuple[int, ...]:
        """The Python version it names: (3, 11) for cp311, (3,) for py3."""
        return _python_version(self.interpreter)

    @property
    def marker(self) -> str | None:
        """The environment marker for it; None where markers cannot tell (free-threaded builds, other Pythons)."""
        if self.abi.endswith("t") or not self.interpreter.startswith(("cp", "py")) or self.version[0] < 3:
            return None
        if len(self.version) == 1:
            return 'python_version >= "3"'
        version = ".".join(map(str, self.version))
        exact = self.interpreter.startswith("cp") and self.abi != "abi3"
        return f'python_version {"==" if exact else ">="} "{version}"'


@functools.cache
def _meet(first: tuple[str, str], second: tuple[str, str]) -> PythonTag | None:
    """The tag of the interpreters that two tags are both for; None where there are none."""
    for one, two in ((PythonTag(*first), PythonTag(*second)), (PythonTag(*second), PythonTag(*first))):
        if one == two or two.interpreter == "py3":
            return one
        if two.abi == "none" and one.interpreter == two.interpreter and one.abi != "abi3":
            return one
        if two.abi == "abi3" and one.version >= two.version and not one.abi.endswith("t"):
            # `none` is for the free-threaded build too, which has no stable ABI.
            return PythonTag(one.interpreter, one.interpreter) if one.abi == "none" else one
    return None


def intersect(one: Iterable[Cell], other: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells for which two projects both have a wheel; `build` stays that of the first."""
    others = tuple(other)
    found = {
        Cell(
            interpreter=python.interpreter,
            abi=python.abi,
            platform_tag=max(a.platform_tag, b.platform_tag, key=lambda tag: (system_version(tag), tag)),
            platform=a.platform,
            build=a.build,
        )
        for a in one
        for b in others
        if a.platform == b.platform and (python := _meet((a.interpreter, a.abi), (b.interpreter, b.abi))) is not None
    }
    return tuple(sorted(found, key=cell_key))


def cell_key(cell: Cell) -> tuple[object, ...]:
    return (PythonTag(cell.interpreter, cell.abi).version, cell.interpreter, cell.abi, cell.platform_tag, cell.build)


def guards(name: str, version: str, cells: Iterable[Cell]) -> tuple[str, ...]:
    """Compressed tag sets that together cover a wrapper's cells and nothing else, sorted; one for each wheel.

    A compressed tag set (PEP 425) is a product, so interpreters with other platforms need a wheel of their own.
    The ABI is left out (`none`) where the interpreter tag alone says the same: before free-threaded builds, and
    where the free-threaded one is covered as well.
    """
    abis: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell in cells:
        abis[cell.interpreter, cell.platform_tag].add(cell.abi)
    covered: dict[PythonTag, set[str]] = defaultdict(set)
    for (interpreter, platform_tag), found in abis.items():
        for abi in _needed(interpreter, found):
            covered[PythonTag(interpreter, abi)].add(platform_tag)
    products: dict[tuple[str, frozenset[str]], list[PythonTag]] = defaultdict(list)
    for python, platform_tags in covered.items():
        products[python.abi, frozenset(platform_tags)].append(python)
    prefix = f"{name}-{version}-"
    return tuple(
        sorted(
            tag
            for (abi, platform_tags), pythons in products.items()
            for tag in _compressed(prefix, sorted(pythons, key=lambda p: (p.version, p)), abi, sorted(platform_tags))
        )
    )


def _needed(interpreter: str, abis: set[str]) -> set[str]:
    if "none" in abis:
        return {"none"} | {abi for abi in abis if abi == "abi3"}
    version = PythonTag(interpreter, "").version
    own = {abi for abi in abis if re.fullmatch(r"cp\d+[a-z]*", abi)}
    if own and (version < FREE_THREADED_SINCE or (any(abi.endswith("t") for abi in own) and len(own) > 1)):
        return (abis - own) | {"none"}
    return abis


def _compressed(prefix: str, pythons: Sequence[PythonTag], abi: str, platform_tags: Sequence[str]) -> list[str]:
    """One compressed tag set, or several where its file name would be too long."""
    tag = f"{'.'.join(python.interpreter for python in pythons)}-{abi}-{'.'.join(platform_tags)}"
    if len(f"{prefix}{tag}.whl") <= MAX_FILE_NAME or len(pythons) * len(platform_tags) == 1:
        return [tag]
    if len(platform_tags) > 1:
        half = len(platform_tags) // 2
        parts = [(pythons, platform_tags[:half]), (pythons, platform_tags[half:])]
    else:
        half = len(pythons) // 2
        parts = [(pythons[:half], platform_tags), (pythons[half:], platform_tags)]
    return [tag for p, t in parts for tag in _compressed(prefix, p, abi, t)]


def _by_system(found: Iterable[Platform]) -> dict[str, list[str]]:
    machines: dict[str, list[str]] = {}
    for platform in sorted(found, key=_order):
        machines.setdefault(platform.sys_platform, []).append(platform.machine)
    return machines


_SYSTEMS = ("linux", "darwin", "win32")  # every one that `platforms` gives, in order


def _order(platform: Platform) -> tuple[int, str]:
    return (_SYSTEMS.index(platform.sys_platform), platform.machine)


def marker(found: Iterable[Platform]) -> str:
    """The environment marker (PEP 508) that is true on these platforms and nowhere else."""
    terms = []
    for system, machines in _by_system(found).items():
        any_machine = " or ".join(f'platform_machine == "{machine}"' for machine in machines)
        terms.append(f'sys_platform == "{system}" and {f"({any_machine})" if len(machines) > 1 else any_machine}')
    return terms[0] if len(terms) == 1 else " or ".join(f"({term})" for term in terms)


def complement(found: Iterable[Platform]) -> str:
    """The environment marker that is true everywhere but on these platforms, spelled out: PEP 508 has no `not`."""
    terms = []
    for system, machines in _by_system(found).items():
        no_machine = " and ".join(f'platform_machine != "{machine}"' for machine in machines)
        terms.append(f'sys_platform != "{system}" or {f"({no_machine})" if len(machines) > 1 else no_machine}')
    return terms[0] if len(terms) == 1 else " and ".join(f"({term})" for term in terms)


def partition(pins: Mapping[Platform, str], otherwise: str) -> list[tuple[str, str | None]]:
    """Requirements with markers that are disjoint and cover every environment; the last is the complement."""
    branches: dict[str, list[Platform]] = defaultdict(list)
    for platform in sorted(pins, key=_order):
        if pins[platform] != otherwise:
            branches[pins[platform]].append(platform)
    if not branches:
        return [(otherwise, None)]
    named = [(requirement, marker(found)) for requirement, found in branches.items()]
    return [*named, (otherwise, complement(p for found in branches.values() for p in found))]
