"""Pipfile, as Pipenv reads it."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from metawheel.doctor.lock_text import table, tables, text
from metawheel.doctor.model import Declared, Index, Project, Source, Unread
from metawheel.doctor.pyproject_poetry import poetry_dependency
from metawheel.doctor.toml_text import Toml


def read_pipfile(toml: Toml) -> Project:
    """What a Pipfile says."""
    items = list(_packages(toml))
    wanted = text(table(toml.data, "requires"), "python_version")
    return Project(
        files=(toml.path,),
        python=f"=={wanted}.*" if wanted else None,
        declared=tuple(item for item in items if isinstance(item, Declared)),
        unread=tuple(item for item in items if isinstance(item, Unread)),
        indexes=tuple(
            Index(
                url=text(entry, "url") or "",
                place=toml.place("source", number, "url"),
                tool="pipenv",
                name=text(entry, "name"),
                role="primary" if number == 0 else "restricted",
            )
            for number, entry in enumerate(tables(toml.data, "source"))
        ),
        sources=tuple(_sources(toml)),
    )


def _packages(toml: Toml) -> Iterator[Declared | Unread]:
    for section, scope in (("packages", ""), ("dev-packages", "group:dev")):
        for name, value in table(toml.data, section).items():
            entry = {"version": value} if isinstance(value, str) else value
            if isinstance(entry, dict):
                yield poetry_dependency(name, entry, toml.place(section, name), tool="pipenv", scope=scope)


def _sources(toml: Toml) -> Iterator[Source]:
    for section in ("packages", "dev-packages"):
        for name in (packages := table(toml.data, section)):
            if index := text(packages.get(name), "index"):
                yield Source(name=canonicalize_name(name), place=toml.place(section, name), tool="pipenv", index=index)
