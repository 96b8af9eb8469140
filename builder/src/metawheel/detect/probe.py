"""What the probes of all vendors share: an accelerator, a note on what a probe said, and running one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from metawheel.detect.system import System

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A GPU, or what stands for one."""

    vendor: str  # nvidia, amd, intel or apple
    name: str = ""  # as its tool says it
    architecture: str | None = None  # compute capability, gfx target or PCI device; None: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a probe found, or why it found nothing."""

    probe: str  # the file or command
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as far as the choice of a backend goes."""

    sys_platform: str
    machine: str
    accelerators: tuple[Accelerator, ...] = ()
    driver: str | None = None  # of NVIDIA
    windows_driver: bool = False  # numbered as on Windows: there, and in WSL
    problem: str | None = None  # why a GPU that is there will not work as it is
    notes: tuple[Note, ...] = ()

    def of(self, vendor: str) -> tuple[Accelerator, ...]:
        return tuple(item for item in self.accelerators if item.vendor == vendor)


def from_file(system: System, path: str, parse: Callable[[str], T | None]) -> tuple[T | None, Note]:
    """Read a file and parse it."""
    text = system.read(path)
    if text is None:
        return None, Note(probe=path, said="not there")
    return _parsed(path, text, parse(text))


def from_command(system: System, command: Iterable[str], parse: Callable[[str], T | None]) -> tuple[T | None, Note]:
    """Run a program and parse what it printed, if it ended well."""
    words = tuple(command)
    name = " ".join(words)
    output = system.run(*words)
    if output is None:
        return None, Note(probe=name, said=f"{words[0]} is not installed")
    if output.status != 0:
        return None, Note(probe=name, said=_first_line(output.text) or f"ended with {output.status}")
    return _parsed(name, output.text, parse(output.text))


def _parsed(probe: str, text: str, value: T | None) -> tuple[T | None, Note]:
    said = _first_line(text) if value is not None else f"not understood: {_first_line(text)!r}"
    return value, Note(probe=probe, said=said)


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")
