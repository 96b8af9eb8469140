"""Project files as a user of each client would write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


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
) -> Path:
    """Write a Poetry 2 project; `pins` maps a dependency's name to the source it is bound to."""
    lines = head(dependencies, requires_python, optional)
    lines += ["[tool.poetry]", "package-mode = false", ""]
    if pins:
        lines += ["[tool.poetry.dependencies]"]
        lines += [f"{name} = {{ source = {json.dumps(source)} }}" for name, source in pins.items()]
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
    strategy: str | None = None,
) -> Path:
    """Write a uv project; `pins` maps a name to its index, `optional` holds extras of which one is used."""
    lines = head(dependencies, requires_python, optional)
    if environments or optional or strategy:
        lines += ["[tool.uv]"]
    if environments:
        lines += [f"environments = {json.dumps(list(environments))}"]
    if optional:
        lines += [f"conflicts = [[{', '.join(f'{{ extra = {json.dumps(extra)} }}' for extra in optional)}]]"]
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
    dependencies: Sequence[str], requires_python: str, optional: Mapping[str, Sequence[str]] | None = None
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
    if optional:
        lines += ["[project.optional-dependencies]"]
        lines += [f"{extra} = {json.dumps(list(found))}" for extra, found in optional.items()]
        lines += [""]
    return lines


def write(folder: Path, lines: Sequence[str]) -> Path:
    """Write a pyproject.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
