"""Machines described by the texts that their tools print, interpreters, and offers to choose from."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name

from metawheel.detect.interpreter import Interpreter, ranked
from metawheel.detect.offers import Catalog, Offer
from metawheel.detect.system import Nvml, Output
from tests.fakes.ledgers import environment, sha256

MACHINES = Path(__file__).parents[1] / "data" / "machines"


@dataclass(frozen=True, kw_only=True)
class FakeSystem:
    """A machine in memory; a program that is described has no answer but the described ones."""

    sys_platform: str = "linux"
    machine: str = "x86_64"
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[tuple[str, ...], Output] = field(default_factory=dict)
    answer: Nvml | str | None = None

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def find(self, pattern: str) -> Sequence[str]:
        return sorted(fnmatch.filter(self.files, pattern))

    def run(self, *command: str) -> Output | None:
        if command in self.commands:
            return self.commands[command]
        has_it = any(known[0] == command[0] for known in self.commands)
        return Output(status=1, text="the report does not say") if has_it else None

    def nvml(self) -> Nvml | str | None:
        return self.answer


@dataclass(frozen=True, kw_only=True)
class Described:
    """A machine of tests/data/machines, and what is to be found on it."""

    name: str
    system: FakeSystem
    expected: Mapping[str, Any]
    sources: tuple[str, ...]
    python: str


def described() -> tuple[Described, ...]:
    """All machines of tests/data/machines."""
    return tuple(_described(path) for path in sorted(MACHINES.glob("*.toml")))


def _described(path: Path) -> Described:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    texts = data.get("text", [])
    nvml = data.get("nvml")
    system = FakeSystem(
        sys_platform=data["sys_platform"],
        machine=data["machine"],
        files={text["file"]: text["content"] for text in texts if "file" in text},
        commands={
            tuple(text["command"]): Output(status=text.get("status", 0), text=text["content"])
            for text in texts
            if "command" in text
        },
        answer=nvml
        and Nvml(driver=nvml["driver"], gpus=tuple((name, capability) for name, capability in nvml["gpus"])),
    )
    return Described(
        name=path.stem,
        system=system,
        expected=data["expected"],
        sources=tuple(text["source"] for text in [*texts, *([nvml] if nvml else [])]),
        python=data.get("python", "3.12"),
    )


PLATFORM_TAGS = {
    ("linux", "x86_64"): ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "linux_x86_64"),
    ("linux", "aarch64"): ("manylinux_2_28_aarch64", "manylinux2014_aarch64", "linux_aarch64"),
    ("win32", "AMD64"): ("win_amd64",),
    ("darwin", "arm64"): ("macosx_14_0_arm64", "macosx_11_0_arm64"),
    ("darwin", "x86_64"): ("macosx_11_0_x86_64", "macosx_10_9_x86_64"),
}


def interpreter(
    python: str = "3.12",
    system: str = "linux",
    machine: str = "x86_64",
    *,
    installed: Mapping[str, str] | None = None,
    has_pip: bool = True,
    prefix: str = "/env",
) -> Interpreter:
    """A CPython that is not there."""
    platforms = PLATFORM_TAGS[system, machine]
    version = (3, int(python.removesuffix("t").split(".")[1]))
    abis = [f"cp3{version[1]}t"] if python.endswith("t") else None
    tags: tuple[Tag, ...] = (
        *cpython_tags(version, abis, platforms),
        *compatible_tags(version, f"cp3{version[1]}", platforms),
    )
    return Interpreter(
        executable=f"{prefix}/bin/python",
        tags=ranked(tags),
        environment=environment(system, machine, python.removesuffix("t")),
        prefix=prefix,
        is_venv=True,
        has_pip=has_pip,
        installed={canonicalize_name(name): version for name, version in (installed or {}).items()},
    )


WIDE = "manylinux_2_28_aarch64.manylinux_2_28_x86_64.win_amd64"


def offer(
    wrapper: str,
    release: str,
    backend: str,
    requires: Sequence[str],
    *,
    extras: Mapping[str, tuple[str, ...]] | None = None,
    tags: str = f"cp310.cp311.cp312-none-{WIDE}",
    yanked: str | None = None,
) -> Offer:
    """One version of a wrapper, as an index offers it."""
    filename = f"{wrapper.replace('-', '_')}-{release}-{tags}.whl"
    return Offer(
        wrapper=wrapper,
        version=release,
        release=release,
        backend=backend,
        requires=tuple(requires),
        extras=extras or {},
        wheels={filename: sha256(filename)},
        urls={filename: f"https://index.invalid/files/{filename}"},
        yanked=yanked,
    )


MAC = "macosx_11_0_arm64"
EVERYWHERE = 'sys_platform != "darwin"'


def torch(
    backend: str, release: str, *, tags: str = f"cp310.cp311.cp312-none-{MAC}.{WIDE}", vision: bool = True
) -> Offer:
    """A torch wrapper: a labelled build, the plain one on macOS; torchvision is an extra of it."""
    minor = release.split(".")[1]
    lines = {
        project: (f"{project}=={version}+{backend} ; {EVERYWHERE}", f'{project}=={version} ; sys_platform == "darwin"')
        for project, version in (("torch", release), ("torchvision", f"0.{int(minor) + 15}.0"))
    }
    extras = {"vision": lines["torchvision"]} if vision else {}
    return offer(f"torch-{canonicalize_name(backend)}", release, backend, lines["torch"], extras=extras, tags=tags)


def jax(backend: str, release: str) -> tuple[Offer, Offer]:
    """The JAX wrappers of the plugin era: jaxlib-… and jax-…."""
    tags = f"cp310.cp311.cp312-none-{MAC}.{WIDE}"
    plugins = [] if backend == "cpu" else [f'jax-{backend}-plugin=={release} ; sys_platform == "linux"']
    lib = [f"jaxlib=={release}", *plugins]
    return (
        offer(f"jaxlib-{backend}", release, backend, lib, tags=tags),
        offer(f"jax-{backend}", release, backend, [*lib, f"jax=={release}"], tags=tags),
    )


# An old cu118 for drivers of CUDA 11, and the newest release without it, as upstream has it.
TORCH = (
    *(torch(backend, "2.13.0") for backend in ("cpu", "cu130", "cu129", "cu126", "rocm6.3", "xpu")),
    *(torch(backend, "2.10.0") for backend in ("cpu", "cu130", "cu129", "cu128", "cu126")),
    *(torch(backend, "2.7.1") for backend in ("cpu", "cu128", "cu126", "cu118")),
    torch("cpu", "2.2.2", tags="cp310.cp311.cp312-none-macosx_10_9_x86_64"),
)
JAX = tuple(item for backend in ("cpu", "cuda12", "cuda13") for item in jax(backend, "0.8.0"))


def catalog(offers: Iterable[Offer] = (*TORCH, *JAX), *, views: bool = True) -> Catalog:
    """An index with these offers, and torch-cuda, which chooses by itself."""
    offers = tuple(offers)
    names = {item.wrapper: item.base for item in offers}
    return Catalog(
        offers=offers,
        names={**names, "torch-cuda": frozenset({"torch-cu130", "torch-cu129"})},
        index="https://index.invalid/simple/",
        views=views,
    )
