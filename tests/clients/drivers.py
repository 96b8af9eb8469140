"""How each client is set up and told to lock: one function for those that lock for every platform at once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.lock_poetry import PoetryLock
from tests.clients.locks import Lock, read_lock
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.projects_other import poetry1_project
from tests.clients.scenarios import Scenario
from tests.clients.targets import Target
from tests.clients.worlds import Traffic, World

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Locking:
    """A scenario about to be run."""

    scenario: Scenario
    world: World
    folder: Path
    requires: Sequence[str]  # the project's, or what it required before

    @property
    def pypi(self) -> str:
        """The index that stands in for PyPI."""
        return (self.world.strangers if self.scenario.stranger else self.world.pypi).simple

    @property
    def proxy(self) -> str:
        """One index that puts ours before PyPI."""
        return self.world.proxy.simple("strangers" if self.scenario.stranger else "pypi")

    @property
    def ours(self) -> str:
        """Our index: the merged one, or the view of the wrapper's backend."""
        view = self.scenario.project.wrappers[0].partition("-")[2]
        return self.world.site.view(view) if self.layout.endswith("view") else self.world.site.simple

    @property
    def layout(self) -> str:
        return self.scenario.layout.name

    @property
    def python(self) -> Path:
        return require_interpreter(self.first_python)

    @property
    def first_python(self) -> str:
        """The first Python that the project takes, on which the client runs."""
        return self.scenario.runs_on or self.scenario.project.python

    @property
    def requires_python(self) -> str:
        """The Pythons that the project takes."""
        return f">={self.first_python},<3.{self.scenario.project.targets[0].version_info[1] + 1}"

    def run(self, client: str, args: Sequence[str], env: Mapping[str, str] | None = None) -> Done:
        """Run a client, whatever its exit status."""
        own = self.python if envs.CLIENTS[client].in_project else None
        return envs.run(client, args, cwd=self.folder, env=env, python=own, interpreters=[self.python], status=None)


@dataclass(frozen=True)
class Result:
    """The lock for each target by name, None where the client refused, and what it said last.

    Where a client locks each extra or group apart, the names are `target extra`.
    """

    locks: Mapping[str, Lock | None]
    said: str = ""
    traffic: Traffic | None = None  # of locking, where the driver did more than that

    def lock_for(self, target: Target, used: str) -> Lock | None:
        """The lock for a target and the extra or group that is used."""
        apart = f"{target.name} {used}"
        return self.locks[apart if apart in self.locks else target.name]


def everywhere(locking: Locking, done: Done, lock: str) -> Result:
    """One lock for all targets."""
    read = read_lock(locking.folder / lock, locking.world.names) if done.returncode == 0 else None
    targets = locking.scenario.project.targets
    return Result({target.name: read for target in targets}, done.stdout + done.stderr)


def uv(locking: Locking) -> Result:
    """Lock with uv."""
    ours, pypi = UvIndex("metawheel", locking.ours), UvIndex("pypi", locking.pypi, default=True)
    indexes = {
        "explicit": [UvIndex("metawheel", locking.ours, explicit=True), pypi],
        "default": [UvIndex("pypi", locking.pypi), UvIndex("metawheel", locking.ours, default=True)],
        "only": [UvIndex("metawheel", locking.ours, default=True)],
    }.get(locking.layout, [ours, pypi])
    explicit = locking.layout == "explicit"
    project = locking.scenario.project
    uv_project(
        locking.folder,
        locking.requires,
        indexes,
        pins=dict.fromkeys(project.wrappers, "metawheel") if explicit else None,
        requires_python=locking.requires_python,
        optional=project.optional,
        groups=project.groups,
        strategy="unsafe-best-match" if locking.layout == "best-match" else None,
    )
    return everywhere(locking, locking.run("uv", ["lock", "--python", str(locking.python)]), "uv.lock")


Priority = Literal["primary", "supplemental", "explicit"]


def poetry(locking: Locking) -> Result:
    """Lock with Poetry 1.8 or 2."""
    project = locking.scenario.project
    priorities: dict[str, Priority] = {"primary": "primary", "only": "primary", "explicit": "explicit"}
    ours = PoetrySource("metawheel", locking.ours, priorities.get(locking.layout, "supplemental"))
    pypi = PoetrySource("stand-in", locking.pypi, "supplemental" if locking.layout == "primary" else "primary")
    sources = [ours] if locking.layout == "only" else [ours, pypi]
    pins = {} if locking.layout in {"primary", "only", "unnamed"} else dict.fromkeys(project.wrappers, "metawheel")
    if locking.scenario.client == "poetry":
        poetry_project(
            locking.folder,
            locking.requires,
            sources,
            pins=pins,
            requires_python=locking.requires_python,
            optional=project.optional,
            groups=project.groups,
        )
        regenerate = ["--regenerate"] * (locking.layout == "regenerate")
        return everywhere(locking, locking.run("poetry", ["lock", *regenerate]), "poetry.lock")
    poetry1_project(locking.folder, locking.requires, sources, pins=pins, requires_python=locking.requires_python)
    done = locking.run("poetry-1.8", ["lock", "--no-update"])
    texts = [(locking.folder / name).read_text(encoding="utf-8") for name in ("poetry.lock", "pyproject.toml")]
    lock = PoetryLock(*texts, as_installed=True)
    return Result({target.name: lock for target in project.targets}, done.stdout + done.stderr)


Driver = Callable[[Locking], Result]
