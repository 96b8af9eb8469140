"""The machine and the versions that figures belong to, and the environments of what is compared."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.clients.envs import Client, ensure


def machine() -> str:
    """One line on the machine."""
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return f"{_processor()}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.release()}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions(names: Iterable[str]) -> dict[str, str]:
    """Python and some of the distributions that this interpreter has."""
    return {"Python": platform.python_version(), **{name: version(name) for name in names}}


def tool(name: str, *, python_module: bool = False) -> Path:
    """A program from the package registry in an environment of its own, made once; its interpreter if asked to."""
    folder = ensure(Client(name, name, (name,)))
    return folder / ("python" if python_module else name)


def tool_version(name: str) -> str:
    """The version of what `tool` gives."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    command = [str(tool(name, python_module=True)), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
