"""Apple: whether the processor has Metal's GPU beside it."""

from __future__ import annotations

from metawheel.detect.probe import Accelerator, Note, from_command
from metawheel.detect.system import System


def brand(text: str) -> str | None:
    """`sysctl -n machdep.cpu.brand_string`, such as "Apple M1 Pro" or "Intel(R) Core(TM) i7 CPU"."""
    return text.strip() or None


def probe(system: System) -> tuple[tuple[Accelerator, ...], tuple[Note, ...]]:
    """The chip, also where the interpreter runs under Rosetta."""
    if system.sys_platform != "darwin":
        return (), ()
    name, note = from_command(system, ("sysctl", "-n", "machdep.cpu.brand_string"), brand)
    is_apple = name.startswith("Apple") if name else system.machine == "arm64"
    return ((Accelerator(vendor="apple", name=name or ""),) if is_apple else ()), (note,)
