"""Finding Python interpreters of a given version on the machine that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest


@cache
def _probe(python: Path) -> tuple[str, Path] | None:
    code = "import os, sys; print('%d.%d' % sys.version_info[:2], os.path.realpath(sys.executable))"
    try:
        done = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # A version manager's shim is on PATH under a name whose version may not be switched on.
    if done.returncode != 0:
        return None
    version, _, executable = done.stdout.strip().partition(" ")
    return version, Path(executable)


def version_of(python: Path) -> str | None:
    """Ask an interpreter for its `3.x`, None where it does not run."""
    found = _probe(python)
    return found[0] if found else None


def _candidates(version: str) -> Iterator[Path]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    roots = [os.environ.get("PYENV_ROOT"), "~/.pyenv", "~/.local/share/uv"]
    for root in (Path(root).expanduser() for root in roots if root):
        for folder in ("versions", "python"):
            yield from sorted(root.glob(f"{folder}/*/bin/python{version}"), reverse=True)


@cache
def find_interpreter(version: str) -> Path | None:
    """Find a working interpreter of a version such as `3.10`, None where the machine has none."""
    for python in _candidates(version):
        found = _probe(python) if python.is_file() else None
        # The real executable and not the shim: a shim finds nothing once HOME is another folder.
        if found is not None and found[0] == version:
            return found[1]
    return None


def require_interpreter(*versions: str) -> Path:
    """Find an interpreter of the first version that the machine has, or skip the test."""
    for version in versions:
        found = find_interpreter(version)
        if found is not None:
            return found
    pytest.skip(f"no Python {' or '.join(versions)} on this machine")
