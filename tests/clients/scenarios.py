"""Reading scenarios.toml: which client, set up how, must do what with which project."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from tests.clients.targets import TARGETS, Target

TABLE = Path(__file__).with_name("scenarios.toml")
# What a project gets on each target; "" where the wrapper does not cover it and so installs nothing.
Builds = Mapping[str, tuple[str, ...]]
Expect = Literal["right", "refused", "wrong"]


@dataclass(frozen=True)
class Project:
    """What a user asks for, and the builds that are right; a key `extra/name` is for when that extra is used."""

    name: str
    title: str
    python: str
    builds: Builds
    requires: tuple[str, ...] = ()
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    switched_from: tuple[str, ...] = ()

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The names of the wrappers in it."""
        lines = (*self.requires, *(line for found in self.optional.values() for line in found))
        names = (Requirement(line).name for line in lines)
        return tuple(name for name in names if name.startswith(("torch-", "jax")))

    def wrapper_for(self, key: str) -> str:
        """The wrapper that brings in what a key of `builds` names."""
        extra = key.rpartition("/")[0]
        lines = self.optional[extra] if extra else self.requires
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


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    client: str
    layout: Layout
    project: Project
    expect: Expect = "right"
    world: str = "pep658"
    core: bool = False
    stranger: bool = False
    wheel_bytes: int = 0  # bytes of upstream's wheels that may be fetched
    gives: Builds = field(default_factory=dict)  # for `wrong`: what comes out instead
    says: str = ""  # for `refused`: what the client says, a regular expression
    why: str = ""
    instead: str = ""  # the key of the scenario to use instead

    @property
    def key(self) -> str:
        """A short name, unique in the table."""
        parts = [self.client, self.layout.name, self.project.name]
        parts += [self.world] * (self.world != "pep658") + ["stranger"] * self.stranger
        return "/".join(parts)

    @property
    def promise(self) -> str:
        """A name for the test that reads like what it proves."""
        verb = {
            "right": "gets the right build on every platform",
            "refused": "is refused and locks nothing",
            "wrong": "is known to go wrong",
        }[self.expect]
        return f"{self.key}: {self.project.title} {verb}"


@dataclass(frozen=True)
class Table:
    """The whole table."""

    wrappers: Mapping[str, tuple[str, ...]]  # by world, NAME==VERSION
    clients: Mapping[str, Mapping[str, str]]  # title and recommended set-up by name
    layouts: Mapping[tuple[str, str], Layout]
    projects: Mapping[str, Project]
    scenarios: tuple[Scenario, ...]


@cache
def table() -> Table:
    """Read the table once; an unknown key or reference is an error."""
    data = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    layouts = {
        (client, name): Layout(client=client, name=name, **facts)
        for client, found in data["layouts"].items()
        for name, facts in found.items()
    }
    projects = {
        name: Project(**{"name": name, **_frozen(facts), "builds": _frozen(facts["builds"])})
        for name, facts in data["projects"].items()
    }
    scenarios = tuple(scenario for row in data["scenario"] for scenario in _rows(row, layouts, projects))
    known = {scenario.key for scenario in scenarios}
    if len(known) < len(scenarios):
        raise ValueError("two scenarios have the same key")
    for scenario in scenarios:
        if scenario.instead and scenario.instead not in known:
            raise ValueError(f"{scenario.key} refers to {scenario.instead}, which is no scenario")
    return Table(_frozen(data["wrappers"]), data["clients"], layouts, projects, scenarios)


def _rows(
    row: dict[str, Any], layouts: Mapping[tuple[str, str], Layout], projects: Mapping[str, Project]
) -> list[Scenario]:
    """One scenario for each project of a row."""
    known = {item.name for item in fields(Scenario)} | {"projects"}
    if unknown := set(row) - known:
        raise ValueError(f"scenario has the unknown key {min(unknown)}")
    facts = {key: value for key, value in row.items() if key not in {"client", "layout", "project", "projects"}}
    if "gives" in facts:
        facts["gives"] = _frozen(facts["gives"])
    wanted = row["projects"] if "projects" in row else [row["project"]]
    layout = layouts[row["client"], row["layout"]]
    return [Scenario(client=row["client"], layout=layout, project=projects[name], **facts) for name in wanted]


def _frozen(facts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in facts.items():
        if isinstance(value, dict):
            found[key] = _frozen(value)
        else:
            found[key] = tuple(value) if isinstance(value, list) else value
    return found
