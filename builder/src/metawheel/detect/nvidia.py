"""NVIDIA: the driver's version, and the GPUs with their compute capabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from metawheel.detect.probe import Accelerator, Note, from_command, from_file
from metawheel.detect.system import Nvml, System

_VERSION = r"\d{2,4}(?:\.\d+){0,3}"
_BROKEN = re.compile(
    r"Driver/library version mismatch|couldn't communicate with the NVIDIA driver|unknown error", re.IGNORECASE
)
# A GPU's row in the table: number, name, persistence or driver model, bus.
_ROW = re.compile(r"^\|\s+\d+\s{2}(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s+\|\s*[0-9A-Fa-f:]+\.\d", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one probe says; a probe may know of the driver only."""

    driver: str | None = None
    gpus: tuple[Accelerator, ...] = ()


def module_version(text: str) -> Report | None:
    """/sys/module/nvidia/version: the version and nothing else."""
    found = re.fullmatch(_VERSION, text.strip())
    return Report(driver=found[0]) if found else None


def proc_version(text: str) -> Report | None:
    """/proc/driver/nvidia/version: the version stands between double spaces, after "Kernel Module".

    The open kernel modules say "Open Kernel Module for x86_64" there; Jetsons have a version of their own (35.3.1).
    """
    found = re.search(rf"^NVRM version:.*?Kernel Module\b.*?\s\s({_VERSION})(?:\s|$)", text, re.MULTILINE)
    return Report(driver=found[1]) if found else None


def query_with_capability(text: str) -> Report | None:
    """`nvidia-smi --query-gpu=driver_version,compute_cap,name --format=csv,noheader`: a line for each GPU."""
    rows = [[field.strip() for field in line.split(",", 2)] for line in text.splitlines() if line.strip()]
    good = [row for row in rows if len(row) == 3 and re.fullmatch(_VERSION, row[0])]
    if not good:
        return None
    return Report(driver=good[0][0], gpus=tuple(_gpu(name, capability) for _, capability, name in good))


def query(text: str) -> Report | None:
    """`nvidia-smi --query-gpu=driver_version,name --format=csv,noheader`, for those that have no compute_cap."""
    rows = [[field.strip() for field in line.split(",", 1)] for line in text.splitlines() if line.strip()]
    good = [row for row in rows if len(row) == 2 and re.fullmatch(_VERSION, row[0])]
    return Report(driver=good[0][0], gpus=tuple(_gpu(name) for _, name in good)) if good else None


def table(text: str) -> Report | None:
    """Plain `nvidia-smi`. From 610 on its header says "KMD Version"; nvidia-smi's own version may be another."""
    found = re.search(rf"(?:Driver|KMD) Version:\s*({_VERSION})", text)
    if found is None:
        return None
    return Report(driver=found[1], gpus=tuple(map(_gpu, _ROW.findall(text))))


def nvml_report(answer: Nvml) -> Report:
    """NVML's answer."""
    return Report(driver=answer.driver, gpus=tuple(_gpu(name, capability) for name, capability in answer.gpus))


def _gpu(name: str, capability: str | None = None) -> Accelerator:
    known = capability is not None and re.fullmatch(r"\d+\.\d+", capability)
    return Accelerator(vendor="nvidia", name=name, architecture=capability if known else None)


def is_wsl(system: System) -> bool:
    """Whether this is Linux in WSL, where the driver is that of Windows and numbered like it."""
    return "microsoft" in (system.read("/proc/sys/kernel/osrelease") or "").lower()


def is_tegra(driver: str) -> bool:
    """Whether a version is that of a Jetson's own driver (L4T 35.3.1), not of a driver that the table knows."""
    return int(driver.partition(".")[0]) < 100


_FIELDS = "--format=csv,noheader"


def probe(system: System) -> tuple[Report, str | None, tuple[Note, ...]]:
    """Ask one source after the other until driver and compute capabilities are known; the cheap ones come first.

    Gives what they said together, and what is broken.
    """
    driver: str | None = None
    gpus: tuple[Accelerator, ...] = ()
    broken: str | None = None
    notes: list[Note] = []
    for report, note in _reports(system):
        notes.append(note)
        if _BROKEN.search(note.said):
            broken = broken or note.said
        if report is not None:
            driver = driver or report.driver
            if report.gpus and not any(gpu.architecture for gpu in gpus):
                gpus = report.gpus
        if driver is not None and gpus and all(gpu.architecture for gpu in gpus):
            break
    if driver is not None and broken is not None:
        broken = f"{broken}: CUDA will not work until the machine is restarted"
    return Report(driver=driver, gpus=gpus), broken, tuple(notes)


def _reports(system: System) -> Iterator[tuple[Report | None, Note]]:
    if system.sys_platform == "linux":
        yield from_file(system, "/sys/module/nvidia/version", module_version)
        yield from_file(system, "/proc/driver/nvidia/version", proc_version)
    match system.nvml():
        case None:
            yield None, Note(probe="NVML", said="nvidia-ml-py is not installed; metawheel's extra nvml has it")
        case str(error):
            yield None, Note(probe="NVML", said=error)
        case answer:
            yield nvml_report(answer), Note(probe="NVML", said=f"driver {answer.driver}, {len(answer.gpus)} GPUs")
    yield from_command(
        system, ("nvidia-smi", "--query-gpu=driver_version,compute_cap,name", _FIELDS), query_with_capability
    )
    yield from_command(system, ("nvidia-smi", "--query-gpu=driver_version,name", _FIELDS), query)
    yield from_command(system, ("nvidia-smi",), table)
