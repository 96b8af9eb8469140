"""The interpreter that is installed for: its tags, its markers and what it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import packaging
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import NormalizedName, canonicalize_name

from metawheel.errors import UnknownName

# Run in the interpreter itself, with our packaging: the tags depend on its build and its libc, not on ours.
_QUERY = """
import sys
sys.path[:] = [path for path in sys.path if path]
import importlib.util, json
from importlib.metadata import distributions
sys.path.insert(0, {packaging!r})
from packaging.markers import default_environment
from packaging.tags import sys_tags
del sys.path[0]
found = {{}}
for item in distributions():
    name = item.metadata["Name"]
    if name:
        found.setdefault(name, item.version)
sys.stdout.write(json.dumps({{
    "tags": [[tag.interpreter, tag.abi, tag.platform] for tag in sys_tags()],
    "environment": default_environment(),
    "installed": found,
    "prefix": sys.prefix,
    "is_venv": sys.prefix != sys.base_prefix,
    "has_pip": importlib.util.find_spec("pip") is not None,
}}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python, and the environment that it is in."""

    executable: str
    tags: Mapping[Tag, int]  # tag → how well it fits, 0 best
    environment: Mapping[str, str]  # of markers
    prefix: str = ""
    is_venv: bool = False
    has_pip: bool = False
    installed: Mapping[NormalizedName, str] = field(default_factory=dict)  # project → version

    @property
    def name(self) -> str:
        """As people say it: Python 3.12 on linux x86_64; 3.13t for the free-threaded build."""
        values = self.environment
        threads = "t" if next(iter(self.tags)).abi.endswith("t") else ""
        return f"Python {values['python_version']}{threads} on {values['sys_platform']} {values['platform_machine']}"

    def rank(self, tags: frozenset[Tag]) -> int | None:
        """How well a wheel with these tags fits, 0 best; None if it cannot be installed."""
        return min((self.tags[tag] for tag in tags if tag in self.tags), default=None)

    def with_minor(self, minor: int) -> Interpreter:
        """The same on CPython 3.minor, with nothing installed."""
        platforms = list(dict.fromkeys(tag.platform for tag in self.tags if tag.platform != "any"))
        python = (3, minor)
        tags = (*cpython_tags(python, platforms=platforms), *compatible_tags(python, f"cp3{minor}", platforms))
        version = f"3.{minor}"
        environment = {
            **self.environment,
            "python_version": version,
            "python_full_version": f"{version}.0",
            "implementation_version": f"{version}.0",
        }
        return replace(self, tags=ranked(tags), environment=environment, installed={})


def ranked(tags: Iterable[Tag]) -> dict[Tag, int]:
    """Tags, the best first, with their places."""
    return {tag: place for place, tag in enumerate(dict.fromkeys(tags))}


def choose_python(wanted: str | None, environ: Mapping[str, str], default: str | None = None) -> str:
    """The interpreter that is meant: the one named, the active environment's, `default`, or what runs metawheel.

    Raises UnknownName where the one named is not there.
    """
    if wanted is None:
        active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
        return (in_folder(Path(active)) if active else None) or default or sys.executable
    path = Path(wanted).expanduser()
    found = in_folder(path) if path.is_dir() else shutil.which(wanted)
    if found is None:
        raise UnknownName(f"--python {wanted}: no such interpreter")
    return os.path.abspath(found)


def in_folder(folder: Path) -> str | None:
    """The interpreter of an environment."""
    candidates: Iterator[Path] = (folder / name for name in ("bin/python", "Scripts/python.exe", "python.exe"))
    return next((str(path) for path in candidates if path.is_file()), None)


def ask(executable: str) -> Interpreter:
    """Ask an interpreter about itself; raises UnknownName where it cannot say."""
    query = _QUERY.format(packaging=str(Path(packaging.__file__).parents[1]))
    try:
        done = subprocess.run([executable, "-c", query], capture_output=True, text=True, timeout=60, check=False)
        facts = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise UnknownName(f"{executable}: is not a Python (3.8 or newer) that runs") from None
    return Interpreter(
        executable=executable,
        tags=ranked(Tag(*parts) for parts in facts["tags"]),
        environment=facts["environment"],
        prefix=facts["prefix"],
        is_venv=facts["is_venv"],
        has_pip=facts["has_pip"],
        installed={canonicalize_name(name): version for name, version in facts["installed"].items()},
    )
