"""What is known of backends, as tables: minimum drivers, and the architectures that builds hold code for."""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass
from importlib.resources import files

from packaging.specifiers import SpecifierSet
from packaging.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The oldest NVIDIA driver that a CUDA backend runs with (CUDA's minor version compatibility)."""

    backend: str
    cuda: Version
    linux: str  # as NVIDIA writes it: 450.80.02
    windows: str

    def minimum(self, *, windows: bool) -> str:
        return self.windows if windows else self.linux


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The compute capabilities that some releases of a backend hold code for, on one system."""

    backend: str
    releases: SpecifierSet
    system: str  # sys_platform; "" for all
    machine: str  # "" for all
    capabilities: tuple[str, ...]  # "8.6", or "12.0+PTX" with code for what comes later


def _rows(name: str) -> list[dict[str, str]]:
    text = files("metawheel.detect").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def drivers() -> dict[str, Driver]:
    """Every CUDA backend that is known, newest first."""
    return {
        row["backend"]: Driver(
            backend=row["backend"],
            cuda=Version(row["cuda"]),
            linux=row["linux"],
            windows=row["windows"],
        )
        for row in _rows("drivers")
    }


@functools.cache
def _capabilities() -> tuple[Capabilities, ...]:
    return tuple(
        Capabilities(
            backend=row["backend"],
            releases=SpecifierSet(row["releases"]),
            system=row["system"],
            machine=row["machine"],
            capabilities=tuple(row["capabilities"].split()),
        )
        for row in _rows("capabilities")
    )


def capabilities(backend: str, release: str, system: str, machine: str) -> tuple[str, ...] | None:
    """What a release was built for; None: not known, which rules nothing out."""
    for row in _capabilities():
        if (
            row.backend == backend
            and row.system in ("", system)
            and row.machine in ("", machine)
            and row.releases.contains(release, prereleases=True)
        ):
            return row.capabilities
    return None


def runs_on(built: tuple[str, ...], capability: str) -> bool:
    """Whether code for some capabilities runs on a GPU: binary code within its major version, PTX on all later ones.

    (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".)
    """
    gpu = _capability(capability)
    for entry in built:
        code = _capability(entry.removesuffix("+PTX"))
        if code <= gpu and (code[0] == gpu[0] or entry.endswith("+PTX")):
            return True
    return False


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


@functools.cache
def _gfx() -> dict[str, frozenset[str]]:
    return {row["backend"]: frozenset(row["architectures"].split()) for row in _rows("amd")}


def gfx_targets(backend: str) -> frozenset[str] | None:
    """The gfx targets that a ROCm backend was built for; None: not known."""
    return _gfx().get(backend)


@functools.cache
def _intel() -> dict[str, str]:
    return {device: row["name"] for row in _rows("intel") for device in row["devices"].split()}


def intel_name(device: str) -> str | None:
    """The name of an Intel GPU that PyTorch's xpu builds are made for; None: it is none of them."""
    return _intel().get(device)


def cuda_of(backend: str) -> Version | None:
    """The CUDA version that a backend's name stands for; None where it stands for none."""
    if backend in drivers():
        return drivers()[backend].cuda
    if found := re.fullmatch(r"cu(\d+)(\d)", backend):
        return Version(f"{found[1]}.{found[2]}")
    return Version(found[1]) if (found := re.fullmatch(r"cuda(\d+)", backend)) else None


def version_of(backend: str) -> Version:
    """A backend's own version, to tell the newer of two: 12.8 for cu128, 6.2.4 for rocm6.2.4, 0 for cpu and xpu."""
    cuda = cuda_of(backend)
    if cuda is not None:
        return cuda
    found = re.fullmatch(r"[a-z]+(\d+(?:\.\d+)*)", backend)
    return Version(found[1]) if found else Version("0")
