"""The display adapters on the PCI bus, whether they have a driver or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metawheel.detect.probe import Note, from_command
from metawheel.detect.system import System

VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
DEVICES = "/sys/bus/pci/devices/*/class"
_WINDOWS = ("powershell", "-NoProfile", "-Command", "(Get-CimInstance Win32_VideoController).PNPDeviceID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A display adapter: vendor, and device in four hexadecimal digits."""

    vendor: str
    device: str


def sysfs_adapter(kind: str, vendor: str, device: str) -> Adapter | None:
    """The files class, vendor and device of a PCI device, such as 0x030000, 0x8086 and 0x56a0."""
    known = VENDORS.get(vendor.strip().removeprefix("0x").lower())
    # Base class 03 is display; compute cards without outputs are 0302 and 0380, and some accelerators 1200.
    if known is None or not re.match(r"0x(03|1200)", kind.strip()):
        return None
    return Adapter(vendor=known, device=device.strip().removeprefix("0x").lower())


def windows_adapters(text: str) -> tuple[Adapter, ...] | None:
    r"""Windows' PNPDeviceIDs, such as PCI\VEN_8086&DEV_56A0&SUBSYS_….; virtual adapters stand under ROOT."""
    found = re.findall(r"^PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", text, re.MULTILINE | re.IGNORECASE)
    adapters = [Adapter(vendor=VENDORS[v.lower()], device=d.lower()) for v, d in found if v.lower() in VENDORS]
    return tuple(adapters)


def probe(system: System) -> tuple[tuple[Adapter, ...], tuple[Note, ...]]:
    """All display adapters."""
    if system.sys_platform == "win32":
        adapters, note = from_command(system, _WINDOWS, windows_adapters)
        return adapters or (), (note,)
    found = []
    for path in system.find(DEVICES):
        folder = path.removesuffix("class")
        texts = [system.read(folder + name) or "" for name in ("class", "vendor", "device")]
        if adapter := sysfs_adapter(*texts):
            found.append(adapter)
    notes = [Note(probe=DEVICES, said=f"{item.vendor} {item.device}") for item in found]
    return tuple(found), tuple(notes or [Note(probe=DEVICES, said="no display adapter")])
