"""Project files as a user of each client would write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement


@dataclass(frozen=True)
class PoetrySource:
    """One `[[tool.poetry.source]]`."""

    name: str
    url: str
    priority: Literal["primary", "supplemental", "explicit"] = "primary"


@dataclass(frozen=True)
class UvIndex:
    """One `[[tool.uv.index]]`."""

    name: str
    url: str
    default: bool = False
    explicit: bool = False


def poetry_project(
    folder: Path,
    dependencies: Sequence[str],
    sources: Iterable[PoetrySource],
    *,
    pins: Mapping[str, str] | None = None,
    requires_python: str = ">=3.10",
    optional: Mapping[str, Sequence[str]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a Poetry 2 project; `pins` maps a dependency's name to the source it is bound to."""
    lines = head(dependencies, requires_python, optional, groups)
    lines += ["[tool.poetry]", "package-mode = false", ""]
    bound = [f"{name} = {{ source = {json.dumps(source)} }}" for name, source in (pins or {}).items()]
    if bound and not groups:
        lines += ["[tool.poetry.dependencies]", *bound]
    for group, named in (groups or {}).items():
        own = [line for line in bound if any(line.startswith(f"{Requirement(text).name} =") for text in named)]
        lines += [f"[tool.poetry.group.{group}]", "optional = true", ""]
        lines += [f"[tool.poetry.group.{group}.dependencies]", *own, ""]
    for source in sources:
        lines += ["", "[[tool.poetry.source]]", f'name = "{source.name}"']
        lines += [f'url = "{source.url}"', f'priority = "{source.priority}"']
    return write(folder, lines)


def uv_project(
    folder: Path,
    dependencies: Sequence[str],
    indexes: Iterable[UvIndex],
    *,
    pins: Mapping[str, str] | None = None,
    environments: Sequence[str] = (),
    requires_python: str = ">=3.10",
    optional: Mapping[str, Sequence[str]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    strategy: str | None = None,
) -> Path:
    """Write a uv project; `pins` maps a name to its index, of `optional` and of `groups` one is used."""
    lines = head(dependencies, requires_python, optional, groups)
    exclusive = [("extra", name) for name in optional or ()] + [("group", name) for name in groups or ()]
    if environments or exclusive or strategy:
        lines += ["[tool.uv]"]
    if environments:
        lines += [f"environments = {json.dumps(list(environments))}"]
    if exclusive:
        lines += [f"conflicts = [[{', '.join(f'{{ {kind} = {json.dumps(name)} }}' for kind, name in exclusive)}]]"]
    if strategy:
        lines += [f"index-strategy = {json.dumps(strategy)}"]
    if pins:
        lines += ["", "[tool.uv.sources]"]
        lines += [f"{name} = {{ index = {json.dumps(index)} }}" for name, index in pins.items()]
    for index in indexes:
        lines += ["", "[[tool.uv.index]]", f'name = "{index.name}"', f'url = "{index.url}"']
        lines += ["default = true"] * index.default + ["explicit = true"] * index.explicit
    return write(folder, lines)


def head(
    dependencies: Sequence[str],
    requires_python: str,
    optional: Mapping[str, Sequence[str]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """The lines that every client reads."""
    lines = [
        "[project]",
        'name = "app"',
        'version = "1.0"',
        f'requires-python = "{requires_python}"',
        f"dependencies = {json.dumps(list(dependencies), indent=4)}",
        "",
    ]
    for table, alternatives in (("project.optional-dependencies", optional), ("dependency-groups", groups)):
        if alternatives:
            lines += [f"[{table}]"]
            lines += [f"{name} = {json.dumps(list(found))}" for name, found in alternatives.items()]
            lines += [""]
    return lines


def write(folder: Path, lines: Sequence[str]) -> Path:
    """Write a pyproject.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
