"""AMD: the gfx target of each GPU."""

from __future__ import annotations

import re

from metawheel.detect.probe import Accelerator, Note, from_command, from_file
from metawheel.detect.system import System

KFD_NODES = "/sys/class/kfd/kfd/topology/nodes/*/properties"


def kfd_target(text: str) -> str | None:
    """A node's properties: `gfx_target_version` is major * 10000 + minor * 100 + step; "" for the CPU's node, 0.

    Minor and step are hexadecimal digits in the name: 90010 is gfx90a.
    """
    found = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
    if found is None:
        return None
    version = int(found[1])
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""


def enumerator_targets(text: str) -> tuple[str, ...] | None:
    """`rocm_agent_enumerator`: a target a line; gfx000 stands for the CPU, up to ROCm 5."""
    lines = text.split()
    if not all(re.fullmatch(r"gfx[0-9a-f]+", line) for line in lines):
        return None
    return tuple(line for line in lines if line != "gfx000")


def rocminfo_gpus(text: str) -> tuple[tuple[str, str], ...] | None:
    """`rocminfo`: the target and the marketing name of each agent that is a GPU."""
    if "HSA Agents" not in text:
        return None
    agents = re.split(r"^Agent \d+\s*$", text, flags=re.MULTILINE)[1:]
    found = []
    for agent in agents:
        target = re.search(r"^  Name:\s+(gfx[0-9a-f]+)\s*$", agent, re.MULTILINE)
        name = re.search(r"^  Marketing Name:[ \t]*(.*?)\s*$", agent, re.MULTILINE)
        if target:
            found.append((target[1], name[1] if name else ""))
    return tuple(found)


def probe(system: System) -> tuple[tuple[Accelerator, ...], tuple[Note, ...]]:
    """The kernel's topology first, then ROCm's tools; in WSL there are only these."""
    notes: list[Note] = []
    gpus: list[Accelerator] = []
    if system.sys_platform != "linux":
        return (), ()
    for path in system.find(KFD_NODES):
        target, note = from_file(system, path, kfd_target)
        notes.append(Note(probe=path, said=target or "no GPU") if target is not None else note)
        if target:
            gpus.append(Accelerator(vendor="amd", architecture=target))
    if not notes:
        notes.append(Note(probe=KFD_NODES, said="not there"))
    if not gpus:
        named, note = from_command(system, ("rocminfo",), rocminfo_gpus)
        notes.append(note)
        gpus += [Accelerator(vendor="amd", name=name, architecture=target) for target, name in named or ()]
    if not gpus:
        targets, note = from_command(system, ("rocm_agent_enumerator",), enumerator_targets)
        notes.append(note)
        gpus += [Accelerator(vendor="amd", architecture=target) for target in targets or ()]
    return tuple(gpus), tuple(notes)
