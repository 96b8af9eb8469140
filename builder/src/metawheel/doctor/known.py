"""What the doctor knows without ledgers: known.toml beside this file."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from metawheel.doctor.targets import Target

ACCELERATED = frozenset({"cu", "cuda", "rocm", "xpu"})


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend: its kind (cpu, cu, cuda, rocm or xpu) and how upstream spells it, which may not be known."""

    kind: str
    name: str | None = None

    @property
    def accelerated(self) -> bool:
        return self.kind in ACCELERATED

    @property
    def family(self) -> str:
        """Its kind, CUDA spelled in one way."""
        return "cu" if self.kind == "cuda" else self.kind

    def __str__(self) -> str:
        return self.name or {"cu": "CUDA", "cuda": "CUDA", "rocm": "ROCm"}.get(self.kind, self.kind)


@functools.cache
def known() -> Mapping[str, Any]:
    return tomllib.loads(files("metawheel.doctor").joinpath("known.toml").read_text(encoding="utf-8"))


@functools.cache
def watched(name: NormalizedName) -> bool:
    """Whether upstream publishes the project in builds."""
    return any(re.fullmatch(pattern, name) for pattern in known()["watched"])


@functools.cache
def modules_of(name: NormalizedName) -> tuple[str, ...]:
    """The modules that the project shares with another."""
    return tuple(module for module, projects in known()["modules"].items() if name in projects)


@functools.cache
def of_interest(name: NormalizedName) -> bool:
    """Whether any rule asks about the project's files or versions."""
    return watched(name) or bool(modules_of(name)) or wrapper_of(name) is not None


@functools.cache
def wrapper_of(name: NormalizedName) -> tuple[NormalizedName, Backend] | None:
    """The upstream project and backend that a wrapper's name stands for; None for any other project."""
    match = re.fullmatch(known()["wrapper"], name)
    if match is None:
        return None
    return canonicalize_name(match["project"]), backend_named(match["backend"]) or Backend("select")


@functools.cache
def backend_named(text: str | None) -> Backend | None:
    """The backend that a local version label or a folder names; None for a label that names none."""
    match = re.fullmatch(known()["label"], text or "")
    return Backend(match["kind"], text) if match else None


@functools.cache
def plugin_backend(name: NormalizedName) -> Backend | None:
    """The backend that a plugin makes of jaxlib."""
    match = re.fullmatch(r"jax-(cuda\d+|rocm\d+)-(?:plugin|pjrt)", name)
    return backend_named(match[1]) if match else None


def plain_backend(name: NormalizedName, version: Version | None, target: Target) -> Backend | None:
    """What a plain build from PyPI is on a target; None where that depends on a version that is not known."""
    for row in known()["plain"]:
        if name in row["projects"] and (row["sys_platform"], row["machine"]) == (target.sys_platform, target.machine):
            since = Version(row["projects"][name])
            if version is None and since > Version("0"):
                return None
            if version is None or version >= since:
                return Backend(row["kind"])
    return Backend("cpu")


def last_release(name: NormalizedName, target: Target) -> Version | None:
    """The last release with a wheel for the target's platform, where upstream gave it up."""
    for row in known()["last"]:
        if (row["sys_platform"], row["machine"]) == (target.sys_platform, target.machine) and name in row["versions"]:
            return Version(row["versions"][name])
    return None


def paired(torch: Version, companion: str) -> str | None:
    """The release of a companion that was built for a torch release; None: not known, or not pinned."""
    row = known()["pairs"].get(torch.public)
    return (row[known()["companions"].index(companion)] or None) if row else None


def torch_of(companion: str, version: Version) -> str | None:
    """The torch release that a companion's release was built for."""
    number = known()["companions"].index(companion)
    return next((torch for torch, row in known()["pairs"].items() if row[number] == version.public), None)


def index_url(backend: Backend | str) -> str:
    return str(known()["index"]).format(backend=backend)


@functools.cache
def companions_of_torch(name: NormalizedName) -> bool:
    """Whether a project's builds are told apart by the labels of torch, torch itself included."""
    return name == "torch" or name in known()["companions"]
