"""Reading the table: which client, set up how, must do what with which project, and how bad it is if not."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from packaging.requirements import Requirement

from tests.clients.targets import TARGETS, Target

TABLE = Path(__file__).with_name("table")
# What a project gets on each target; "" where the wrapper does not cover it and so installs nothing.
Builds = Mapping[str, tuple[str, ...]]
# `refused` is loud: locking or installing ends with an error. `silently wrong` is an environment that nobody is warned
# of: without torch, with another build, or with a stranger's wrapper.
Outcome = Literal["right", "refused", "silently wrong"]
NO_WRAPPER, NO_BUILD, NO_WHEEL = "", "nothing", " without a wheel"


@dataclass(frozen=True)
class Conditions:
    """What a site lists and how it and upstream serve it; see worlds.toml."""

    name: str
    title: str
    wrappers: tuple[str, ...]  # NAME==VERSION
    metadata: bool = True
    redirects: bool = False
    hashes: bool = True
    flavour: str = "pinned"
    relabel: tuple[str, ...] = ()  # PROJECT==VERSION


@dataclass(frozen=True)
class Project:
    """What a user asks for, and the builds that are right; a key `extra/name` is for that extra's or group's use."""

    name: str
    title: str
    python: str
    builds: Builds
    requires: tuple[str, ...] = ()
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    switched_from: tuple[str, ...] = ()
    advised: bool = True  # False where it does not do what is recommended whatever the layout

    @property
    def alternatives(self) -> Mapping[str, tuple[str, ...]]:
        """Its extras and groups, of which one is used."""
        return {**self.optional, **self.groups}

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The names of the wrappers in it."""
        lines = (*self.requires, *(line for found in self.alternatives.values() for line in found))
        names = (Requirement(line).name for line in lines)
        return tuple(name for name in names if name.startswith(("torch-", "jax")))

    def wrapper_for(self, key: str) -> str:
        """The wrapper that brings in what a key of `builds` names."""
        extra = key.rpartition("/")[0]
        lines = self.alternatives[extra] if extra else self.requires
        return next(name for name in (Requirement(line).name for line in lines) if name in self.wrappers)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets, with the project's Python."""
        return tuple(target.with_python(self.python) for target in TARGETS)


@dataclass(frozen=True)
class Layout:
    """A way to set a client up."""

    client: str
    name: str
    title: str
    recommended: bool = False


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    client: str
    layout: Layout
    project: Project
    world: Conditions
    expect: Outcome = "right"
    python: str = ""  # another than the project's
    runs_on: str = ""  # the Python that the client runs on, where it locks for a range up to the project's
    core: bool = False
    stranger: bool = False
    wheel_bytes: int = 0  # bytes of upstream's wheels that may be fetched
    gives: Builds = field(default_factory=dict)  # what comes out instead; without it `refused` is so for every target
    says: str = ""  # what a client that locks nothing says, a regular expression
    why: str = ""
    instead: str = ""  # the key of the scenario to use instead

    @property
    def key(self) -> str:
        """A short name, unique in the table."""
        parts = [self.client, self.layout.name, self.project.name]
        parts += [f"python-{self.python}"] * bool(self.python)
        parts += [self.world.name] * bool(self.world.title) + ["stranger"] * self.stranger
        return "/".join(parts)

    @property
    def title(self) -> str:
        """The project and what is special about it here."""
        python = f"Python {self.python}" if self.python else ""
        stranger = "a stranger has the name on PyPI" if self.stranger else ""
        return ", ".join(filter(None, (self.project.title, python, self.world.title, stranger)))

    @property
    def expected(self) -> Builds:
        """What must come out, right or not."""
        if self.expect == "refused" and not self.gives:
            return {key: (NO_WRAPPER,) * len(builds) for key, builds in self.project.builds.items()}
        return {**self.project.builds, **self.gives}

    @property
    def promise(self) -> str:
        """A name for the test that reads like what it proves."""
        verb = {
            "right": "gets the right build on every platform",
            "refused": "is refused where it cannot be right",
            "silently wrong": "is known to go wrong without a word",
        }[self.expect]
        return f"{self.key}: {self.project.title} {verb}"


def verdict(found: Builds, right: Builds) -> Outcome:
    """Judge what came out by its worst target."""
    cells = [pair for key, builds in right.items() for pair in zip(found[key], builds, strict=True)]
    wrong = [cell for cell, build in cells if cell != build]
    if any(cell != NO_WRAPPER and not cell.endswith(NO_WHEEL) for cell in wrong):
        return "silently wrong"
    return "refused" if wrong else "right"


@dataclass(frozen=True)
class Table:
    """The whole table."""

    worlds: Mapping[str, Conditions]
    clients: Mapping[str, Mapping[str, str]]  # title and recommended set-up by name
    layouts: Mapping[tuple[str, str], Layout]
    projects: Mapping[str, Project]
    scenarios: tuple[Scenario, ...]


@cache
def table() -> Table:
    """Read the table once; an unknown key or reference is an error."""
    data = {
        path.stem: _frozen(tomllib.loads(path.read_text(encoding="utf-8"))) for path in sorted(TABLE.glob("*.toml"))
    }
    clients = data["clients"]
    parts = [data[name] for name in data if name not in {"clients", "projects", "worlds"}]
    layouts = {
        (client, name): Layout(client=client, name=name, **facts)
        for part in parts
        for client, found in part["layouts"].items()
        for name, facts in found.items()
    }
    worlds = {name: Conditions(name=name, **facts) for name, facts in data["worlds"].items()}
    projects = {name: Project(name=name, **facts) for name, facts in data["projects"].items()}
    found = [
        scenario for part in parts for row in part["scenario"] for scenario in _rows(row, layouts, projects, worlds)
    ]
    order = list(clients)
    scenarios = tuple(sorted(found, key=lambda scenario: order.index(scenario.client)))
    known = {scenario.key for scenario in scenarios}
    if len(known) < len(scenarios):
        raise ValueError("two scenarios have the same key")
    for scenario in scenarios:
        if scenario.instead and scenario.instead not in known:
            raise ValueError(f"{scenario.key} refers to {scenario.instead}, which is no scenario")
    return Table(worlds, clients, layouts, projects, scenarios)


def _rows(
    row: Mapping[str, Any],
    layouts: Mapping[tuple[str, str], Layout],
    projects: Mapping[str, Project],
    worlds: Mapping[str, Conditions],
) -> list[Scenario]:
    """One scenario for each project and Python of a row."""
    known = {item.name for item in fields(Scenario)} - {"python"} | {"projects", "pythons"}
    if unknown := set(row) - known:
        raise ValueError(f"scenario has the unknown key {min(unknown)}")
    if row.get("expect", "right") not in get_args(Outcome):
        raise ValueError(f"scenario expects {row['expect']!r}, which is no outcome")
    read = {"client", "layout", "project", "projects", "world", "pythons"}
    facts = {key: value for key, value in row.items() if key not in read}
    facts["layout"] = layouts[row["client"], row["layout"]]
    facts["world"] = worlds[row.get("world", "pep658")]
    return [
        Scenario(
            client=row["client"],
            project=replace(projects[name], python=python or projects[name].python),
            python=python,
            **facts,
        )
        for name in row.get("projects") or [row["project"]]
        for python in row.get("pythons", [""])
    ]


def _frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
