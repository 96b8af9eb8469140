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
) -> Path:
    """Write a Poetry 2 project; `pins` maps a dependency's name to the source it is bound to."""
    lines = _head(dependencies, requires_python)
    lines += ["[tool.poetry]", "package-mode = false", ""]
    if pins:
        lines += ["[tool.poetry.dependencies]"]
        lines += [f"{name} = {{ source = {json.dumps(source)} }}" for name, source in pins.items()]
    for source in sources:
        lines += ["", "[[tool.poetry.source]]", f'name = "{source.name}"']
        lines += [f'url = "{source.url}"', f'priority = "{source.priority}"']
    return _write(folder, lines)


def uv_project(
    folder: Path,
    dependencies: Sequence[str],
    indexes: Iterable[UvIndex],
    *,
    pins: Mapping[str, str] | None = None,
    environments: Sequence[str] = (),
    requires_python: str = ">=3.10",
) -> Path:
    """Write a uv project; `pins` maps a dependency's name to the index it is bound to."""
    lines = _head(dependencies, requires_python)
    if environments:
        lines += ["[tool.uv]", f"environments = {json.dumps(list(environments))}"]
    if pins:
        lines += ["", "[tool.uv.sources]"]
        lines += [f"{name} = {{ index = {json.dumps(index)} }}" for name, index in pins.items()]
    for index in indexes:
        lines += ["", "[[tool.uv.index]]", f'name = "{index.name}"', f'url = "{index.url}"']
        lines += ["default = true"] * index.default + ["explicit = true"] * index.explicit
    return _write(folder, lines)


def _head(dependencies: Sequence[str], requires_python: str) -> list[str]:
    return [
        "[project]",
        'name = "app"',
        'version = "1.0"',
        f'requires-python = "{requires_python}"',
        f"dependencies = {json.dumps(list(dependencies), indent=4)}",
        "",
    ]


def _write(folder: Path, lines: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
