"""`metawheel detect`'s first half: probing a machine."""

from __future__ import annotations

import re

from metawheel.detect import amd, apple, intel, nvidia, pci
from metawheel.detect.probe import Accelerator, Machine, Note
from metawheel.detect.system import System
from metawheel.errors import UnknownName

DRIVER = "METAWHEEL_CUDA_DRIVER"


def probe(system: System) -> Machine:
    """All accelerators of a machine; raises UnknownName where METAWHEEL_CUDA_DRIVER is no version."""
    adapters, pci_notes = pci.probe(system)
    report, problem, notes = _nvidia(system)
    amd_gpus, amd_notes = amd.probe(system)
    intel_gpus, intel_notes = intel.probe(system, adapters)
    apple_gpus, apple_notes = apple.probe(system)
    gpus = (*report.gpus, *amd_gpus, *intel_gpus, *apple_gpus)
    if report.driver is not None and not report.gpus:
        gpus = (Accelerator(vendor="nvidia"), *gpus)
    if problem is None and report.driver is None and any(item.vendor == "nvidia" for item in adapters):
        problem = "there is an NVIDIA GPU, but not NVIDIA's driver for it"
    return Machine(
        sys_platform=system.sys_platform,
        machine=system.machine,
        accelerators=gpus,
        driver=report.driver,
        windows_driver=system.sys_platform == "win32" or nvidia.is_wsl(system),
        problem=problem,
        notes=(*notes, *amd_notes, *pci_notes, *intel_notes, *apple_notes),
    )


def _nvidia(system: System) -> tuple[nvidia.Report, str | None, tuple[Note, ...]]:
    """The override comes before all probes; they still tell which GPUs there are."""
    if system.sys_platform == "darwin":
        return nvidia.Report(), None, ()
    report, problem, notes = nvidia.probe(system)
    wanted = system.environ.get(DRIVER)
    if not wanted:
        return report, problem, notes
    if not re.fullmatch(r"\d{3,4}(\.\d+){0,3}", wanted):
        raise UnknownName(f"{DRIVER}={wanted!r} is not a driver version such as 525.60.13")
    return nvidia.Report(driver=wanted, gpus=report.gpus), None, (Note(probe=DRIVER, said=wanted), *notes)
