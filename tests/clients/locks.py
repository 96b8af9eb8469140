"""Our own reading of what a lock installs where, independent of the client that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.clients.lock_base import Lock, Locked, LockError
from tests.clients.lock_flat import ReportLock, RequirementsLock
from tests.clients.lock_pdm import PdmLock
from tests.clients.lock_pipfile import PipfileLock
from tests.clients.lock_poetry import PoetryLock
from tests.clients.lock_uv import UvLock
from tests.clients.targets import (
    LINUX_AARCH64,
    LINUX_X86_64,
    MACOS_ARM64,
    MACOS_X86_64,
    TARGETS,
    WINDOWS_AMD64,
    WINDOWS_ARM64,
    Target,
)

__all__ = [
    "LINUX_AARCH64",
    "LINUX_X86_64",
    "MACOS_ARM64",
    "MACOS_X86_64",
    "TARGETS",
    "WINDOWS_AMD64",
    "WINDOWS_ARM64",
    "Lock",
    "LockError",
    "Locked",
    "PdmLock",
    "PipfileLock",
    "PoetryLock",
    "ReportLock",
    "RequirementsLock",
    "Target",
    "UvLock",
    "read_lock",
]


def read_lock(path: Path, known: Mapping[str, str] | None = None) -> Lock:
    """Read a lock by its file name; a Poetry lock of before 2.0 needs the pyproject.toml beside it.

    `known` gives the file name of each sha256, for locks that name no files.
    """
    text = path.read_text(encoding="utf-8")
    if path.name == "uv.lock":
        return UvLock(text)
    if path.name == "poetry.lock":
        project = path.with_name("pyproject.toml")
        return PoetryLock(text, project.read_text(encoding="utf-8") if project.exists() else None)
    if path.name == "pdm.lock":
        return PdmLock(text)
    if path.name == "Pipfile.lock":
        return PipfileLock(text, known)
    if path.suffix == ".json":
        return ReportLock(text)
    if path.suffix == ".txt":
        return RequirementsLock(text, known)
    raise LockError(f"{path.name} is no lock that is known here")
