"""Intel: GPUs by their PCI device, or by what clinfo calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from metawheel.detect.facts import intel_name
from metawheel.detect.pci import Adapter
from metawheel.detect.probe import Accelerator, Note, from_command
from metawheel.detect.system import System


def clinfo_gpus(text: str) -> tuple[str, ...] | None:
    """`clinfo`: the names of Intel's devices that are GPUs, such as "Intel(R) Graphics [0x56a0]"."""
    if "Platform Name" not in text:
        return None
    found = []
    for block in re.split(r"^\s*Device Name\b", text, flags=re.MULTILINE)[1:]:
        name = block.partition("\n")[0].strip()
        of_intel = re.search(r"^\s*Device Vendor ID\s+0x8086", block, re.MULTILINE)
        kind = re.search(r"^\s*Device Type\s+(.*)$", block, re.MULTILINE)
        if of_intel and "GPU" in (kind[1] if kind else "GPU"):  # Intel's OpenCL for CPUs says CPU
            found.append(name)
    return tuple(found)


def named(name: str) -> Accelerator:
    """A GPU by the name that clinfo gives it: it says the PCI device, or the brand."""
    device = re.search(r"\[0x([0-9a-fA-F]{4})\]", name)
    return Accelerator(vendor="intel", name=name, architecture=device[1].lower() if device else None)


def probe(system: System, adapters: Iterable[Adapter]) -> tuple[tuple[Accelerator, ...], tuple[Note, ...]]:
    """The adapters on the bus; clinfo where there is none, as in WSL."""
    gpus = [
        Accelerator(vendor="intel", name=intel_name(item.device) or "", architecture=item.device)
        for item in adapters
        if item.vendor == "intel"
    ]
    if gpus or system.sys_platform != "linux":
        return tuple(gpus), ()
    names, note = from_command(system, ("clinfo",), clinfo_gpus)
    return tuple(named(name) for name in names or ()), (note,)
