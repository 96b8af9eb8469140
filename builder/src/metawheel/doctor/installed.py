"""An installed environment, as importlib.metadata of its own interpreter has it: nothing installed is imported."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from metawheel.doctor.lock_text import tables, text, texts, version_of
from metawheel.doctor.model import Locked, Place, ProjectError
from metawheel.doctor.targets import PLATFORMS, Target

_TIMEOUT = 60  # seconds

# Runs in the other interpreter, which may be as old as 3.8: the standard library only.
_PROBE = r"""
import importlib.metadata as m, json, platform, sys, sysconfig
sys.path = [p for p in sys.path if p]
found = []
for d in m.distributions():
    name = d.metadata["Name"]
    if name:
        files = [str(f) for f in (d.files or [])]
        owned = [f for f in files if f.endswith("/__init__.py") and f.count("/") == 1]
        found.append({"name": name, "version": d.version, "requires": d.requires or [], "modules": owned,
                      "where": str(d.locate_file(""))})
sys.stdout.write(json.dumps({"sys_platform": sys.platform, "machine": platform.machine(),
                  "python": "%d.%d.%d" % sys.version_info[:3],
                  "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                  "prefix": sys.prefix, "distributions": found}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed, as a lock of one target."""

    path: str  # the environment's folder
    target: Target
    packages: tuple[Locked, ...]
    modules: tuple[tuple[str, tuple[str, ...]], ...]  # a module's file → the projects that own it, if several
    kind: str = "environment"
    unhashed: tuple[tuple[str, Place], ...] = ()
    selections: tuple[str, ...] = ("",)

    def covers(self, target: Target) -> bool:
        return target == self.target

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        del target, selection
        return self.packages


def read_environment(python: Path) -> Environment:
    """Ask an interpreter, named by its whole path, what is installed; raises ProjectError."""
    try:  # in another folder, so that no module here is taken for an installed one
        done = subprocess.run(
            [str(python), "-c", _PROBE], capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProjectError(f"{python}: cannot be run: {error}") from error
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise ProjectError(f"{python}: could not tell what is installed: {last or 'no answer'}")
    try:
        return environment_of(json.loads(done.stdout))
    except ValueError as error:
        raise ProjectError(f"{python}: what it said of its environment is not JSON: {error}") from None


def environment_of(answer: dict[str, Any]) -> Environment:
    """The probe's answer as values; of one project found twice the first counts, as for import."""
    path = text(answer, "prefix") or ""
    packages: dict[str, Locked] = {}
    owners: dict[str, list[str]] = {}
    for entry in tables(answer, "distributions"):
        name = canonicalize_name(text(entry, "name") or "")
        if name in packages:
            continue
        packages[name] = Locked(
            name=name,
            version=version_of(text(entry, "version")),
            place=Place(path, 1),
            requires=tuple(texts(entry, "requires")),
        )
        for module in texts(entry, "modules"):
            owners.setdefault(module.partition("/")[0], []).append(name)
    return Environment(
        path=path,
        target=_target(answer),
        packages=tuple(packages[name] for name in sorted(packages)),
        modules=tuple((module, tuple(sorted(names))) for module, names in sorted(owners.items()) if len(names) > 1),
    )


def _target(answer: dict[str, Any]) -> Target:
    system, machine = text(answer, "sys_platform") or "", text(answer, "machine") or ""
    known = next((t for t in PLATFORMS.values() if (t.sys_platform, t.machine) == (system, machine)), None)
    base = known or Target(f"{system}-{machine}", system, machine)
    suffix = "t" if answer.get("free_threaded") is True else ""
    return base.with_python((text(answer, "python") or "3.12") + suffix)
