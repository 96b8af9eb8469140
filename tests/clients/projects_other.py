"""Project files for PDM, pipenv and Poetry 1.8, as a user of each would write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from tests.clients.projects import PoetrySource, head, write


@dataclass(frozen=True)
class PdmSource:
    """One `[[tool.pdm.source]]`; `only` are the packages that come from it and from nowhere else."""

    name: str
    url: str
    only: Sequence[str] = ()


def pdm_project(
    folder: Path,
    dependencies: Sequence[str],
    sources: Iterable[PdmSource],
    *,
    requires_python: str,
    optional: Mapping[str, Sequence[str]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a PDM project."""
    lines = head(dependencies, requires_python, optional, groups)
    for source in sources:
        lines += ["", "[[tool.pdm.source]]", f'name = "{source.name}"', f'url = "{source.url}"', "verify_ssl = false"]
        if source.only:
            lines += [f"include_packages = {json.dumps(list(source.only))}"]
    return write(folder, lines)


def poetry1_project(
    folder: Path,
    dependencies: Sequence[str],
    sources: Iterable[PoetrySource],
    *,
    pins: Mapping[str, str],
    requires_python: str,
) -> Path:
    """Write a project in the form that Poetry had before it read `[project]`."""
    lines = ["[tool.poetry]", 'name = "app"', 'version = "1.0"', 'description = ""', "authors = []"]
    lines += ["package-mode = false", "", "[tool.poetry.dependencies]", f'python = "{requires_python}"']
    for text in dependencies:
        requirement = Requirement(text)
        facts = [f'version = "{str(requirement.specifier) or "*"}"']
        if requirement.extras:
            facts.append(f"extras = {json.dumps(sorted(requirement.extras))}")
        if requirement.name in pins:
            facts.append(f'source = "{pins[requirement.name]}"')
        lines.append(f"{requirement.name} = {{ {', '.join(facts)} }}")
    for source in sources:
        lines += ["", "[[tool.poetry.source]]", f'name = "{source.name}"']
        lines += [f'url = "{source.url}"', f'priority = "{source.priority}"']
    return write(folder, lines)


def pipfile(
    folder: Path, dependencies: Sequence[str], sources: Mapping[str, str], *, pins: Mapping[str, str], python: str
) -> Path:
    """Write a Pipfile; `pins` maps a package to the source it is bound to, listed or not."""
    lines = []
    for name, url in sources.items():
        lines += ["[[source]]", f'name = "{name}"', f'url = "{url}"', "verify_ssl = false", ""]
    lines += ["[packages]"]
    requirements = [Requirement(text) for text in dependencies]
    named = {requirement.name for requirement in requirements}
    requirements += [Requirement(name) for name in pins if name not in named]
    for requirement in requirements:
        facts = [f'version = "{str(requirement.specifier) or "*"}"']
        if requirement.extras:
            facts.append(f"extras = {json.dumps(sorted(requirement.extras))}")
        if requirement.name in pins:
            facts.append(f'index = "{pins[requirement.name]}"')
        lines.append(f"{requirement.name} = {{ {', '.join(facts)} }}")
    lines += ["", "[requires]", f'python_version = "{python}"']
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pipfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
