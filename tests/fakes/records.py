"""Plans of one small family, in memory, beside what was published of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from metawheel.family import Family
from metawheel.model import Released, UpstreamFile, Wrapper
from metawheel.plan import Plan, plan
from metawheel.project import render_project
from tests.fakes.ledgers import TORCH, torch_files, wheel


def family_of(text: str, name: str = "family") -> Family:
    """A family that has no folder."""
    return Family.model_validate({**tomllib.loads(text), "folder": Path(name)})


def plan_of(
    files: Iterable[UpstreamFile], released: Iterable[Released] = (), *, text: str = TORCH, **options: Any
) -> Plan:
    """The plan of one family."""
    family = family_of(text)
    return plan([family], {family.name: tuple(files)}, released={family.name: tuple(released)}, **options)


def record_of(wrappers: Iterable[Wrapper]) -> list[Released]:
    """Wrappers as they are recorded when they are published."""
    return [
        Released(
            **wrapper.facts(),
            readme=render_project(wrapper)["README.md"],
            wheels=dict.fromkeys(wrapper.wheels, "0" * 64),
        )
        for wrapper in wrappers
    ]


def by_key(planned: Plan) -> dict[str, Wrapper]:
    """The wrappers of a plan by name and version."""
    return {wrapper.key: wrapper for wrapper in planned.wrappers}


def yank(files: Iterable[UpstreamFile], where: Callable[[UpstreamFile], bool]) -> list[UpstreamFile]:
    """The files, some of them yanked."""
    return [replace(file, yanked="broken on this card") if where(file) else file for file in files]


CP312 = "cp312-cp312-linux_x86_64"
FILES = torch_files()
FIRST = plan_of(FILES)
RECORD = record_of(FIRST.wrappers)
NEW_CELL = [*FILES, wheel(f"torch-1.13.1+cu117-{CP312}.whl", "cu117")]
