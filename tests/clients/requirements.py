"""What the real upstream wheels require, from a committed data file, for stand-ins to say the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from tests.fakes.wheels import WheelSpec

DATA = Path(__file__).with_name("data") / "requirements.json"
# Up to 2.1 upstream's own builds bundle CUDA and name none of these.
NAMES_CUDA_SINCE = Version("2.2")
VENDOR = ("nvidia-", "cuda-", "triton")


@dataclass(frozen=True)
class Facts:
    """The parts of a METADATA file that decide how it resolves."""

    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    extras: tuple[str, ...] = ()


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def facts_of(filename: str) -> Facts:
    """Look up what a wheel requires; one of a version that the data does not hold requires nothing."""
    spec = WheelSpec(filename)
    version = spec.version
    known = _data().get(spec.name, {}).get(version.public)
    if known is None:
        return Facts()
    plain = known["plain"]
    if version.local is None:
        return _facts(plain.get(_platform(spec)) or plain["linux_x86_64"])
    if version.local in known["local"]:
        return _facts(known["local"][version.local])
    default = _facts(plain["linux_x86_64"])
    if version.local.startswith("cu") and version >= NAMES_CUDA_SINCE:
        return default
    kept = tuple(line for line in default.requires if not line.startswith(VENDOR))
    return Facts(kept, default.requires_python, default.extras)


def stand_in(url: str, *, padding: int = 0) -> WheelSpec:
    """Describe a stand-in for the wheel at one of upstream's URLs."""
    facts = facts_of(WheelSpec(url).filename)
    return WheelSpec(url, facts.requires, facts.requires_python, facts.extras, padding=padding)


def all_lines() -> tuple[str, ...]:
    """Every requirement line in the data, extras left out, for a stand-in index to satisfy."""
    lines: dict[str, None] = {}
    for versions in _data().values():
        for known in versions.values():
            for group in ("plain", "local"):
                for entry in known[group].values():
                    lines.update(dict.fromkeys(entry["requires_dist"]))
    return tuple(line for line in sorted(lines) if "extra ==" not in str(Requirement(line).marker))


def _facts(entry: dict[str, Any]) -> Facts:
    return Facts(tuple(entry["requires_dist"]), entry["requires_python"], tuple(entry["provides_extra"]))


def _platform(spec: WheelSpec) -> str:
    platforms = " ".join(tag.platform for tag in spec.tags)
    if "macosx" in platforms:
        return "macos_arm64"
    if "win" in platforms:
        return "windows_amd64"
    return "linux_aarch64" if "aarch64" in platforms else "linux_x86_64"
