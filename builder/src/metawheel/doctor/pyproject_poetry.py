"""Poetry's tables of pyproject.toml, and dependencies by keys as Pipenv has them too."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name

from metawheel.doctor.lock_text import table, tables, text, texts
from metawheel.doctor.model import Declared, Index, Place, Source, Unread
from metawheel.doctor.requirement_lines import constraint_of, declare_url, marker_of_keys
from metawheel.doctor.toml_text import Toml

_ROLES = {"primary": "primary", "default": "primary", "explicit": "explicit"}


def _tables(toml: Toml) -> Iterator[tuple[tuple[str, ...], str]]:
    """The tables that hold dependencies, each with its scope."""
    poetry = table(table(toml.data, "tool"), "poetry")
    yield ("tool", "poetry", "dependencies"), ""
    yield ("tool", "poetry", "dev-dependencies"), "group:dev"
    for group in table(poetry, "group"):
        yield ("tool", "poetry", "group", group, "dependencies"), f"group:{group}"


def _entries(toml: Toml) -> Iterator[tuple[str, Mapping[str, Any], Place, str]]:
    """Each dependency: name, its keys, its place and scope; one of several constraints by itself."""
    for keys, scope in _tables(toml):
        found: Any = toml.data
        for key in keys:
            found = table(found, key)
        for name, value in found.items():
            entries = value if isinstance(value, list) else [value]
            for number, entry in enumerate(entries):
                here = (*keys, name, number) if isinstance(value, list) else (*keys, name)
                if canonicalize_name(name) != "python" and isinstance(entry, str | dict):
                    keyed = {"version": entry} if isinstance(entry, str) else entry
                    yield name, keyed, toml.place(*here), scope


def poetry_dependencies(toml: Toml, listed: Container[NormalizedName]) -> Iterator[Declared | Unread]:
    """The dependencies of all tables; those that are listed stand in the project's own table too."""
    extras = table(table(table(toml.data, "tool"), "poetry"), "extras")
    for name, entry, place, scope in _entries(toml):
        normalized = canonicalize_name(name)
        if normalized in listed and "version" not in entry and "url" not in entry:
            continue  # it only adds a source to the project's own line
        chosen = [extra for extra in extras if normalized in map(canonicalize_name, texts(extras, extra))]
        where = f"extra:{chosen[0]}" if entry.get("optional") is True and chosen else scope
        yield poetry_dependency(name, entry, place, tool="poetry", scope=where)


def poetry_dependency(
    name: str, entry: Mapping[str, Any], place: Place, *, tool: str, scope: str = ""
) -> Declared | Unread:
    """A dependency by keys, as Poetry and Pipenv have it."""
    constraint = text(entry, "version") or ""
    marker = marker_of_keys(entry)
    url = text(entry, "url") or text(entry, "file")
    if url and (found := declare_url(url, place, tool=tool, marker=marker, scope=scope)):
        return replace(found, name=canonicalize_name(name))
    if any(sign in constraint for sign in (">=", "<=", "~=", ">", "<", "^", "~")) and "+" in constraint:
        return Unread(place=place, text=f"{name}{constraint}", reason="an ordered comparison takes no local version")
    return Declared(
        name=canonicalize_name(name),
        place=place,
        text=f"{name} = {constraint!r}",
        tool=tool,
        specifier=constraint_of(constraint),
        marker=marker,
        extras=tuple(texts(entry, "extras")),
        url=url,
        scope=scope,
    )


def optional_groups(toml: Toml) -> Iterator[str]:
    """The groups that are installed only when they are asked for."""
    groups = table(table(table(toml.data, "tool"), "poetry"), "group")
    yield from (name for name in groups if table(groups, name).get("optional") is True)


def poetry_python(poetry: Mapping[str, Any]) -> str | None:
    wanted = table(poetry, "dependencies").get("python")
    specifiers = [constraint_of(part) for part in wanted.split("||")] if isinstance(wanted, str) else []
    return "||".join(str(item) for item in specifiers if item is not None) or None


def poetry_sources(toml: Toml) -> Iterator[Source]:
    for name, entry, place, scope in _entries(toml):
        kind = next((key for key in ("git", "url", "path") if key in entry), "index")
        if kind != "index" or "source" in entry:
            yield Source(
                name=canonicalize_name(name),
                place=place,
                tool="poetry",
                index=text(entry, "source"),
                kind=kind,
                value=str(entry.get(kind, "")),
                marker=marker_of_keys(entry),
                scope=scope,
            )


def poetry_indexes(toml: Toml) -> Iterator[Index]:
    for number, entry in enumerate(tables(table(table(toml.data, "tool"), "poetry"), "source")):
        priority = (text(entry, "priority") or "primary").lower()
        key = "priority" if "priority" in entry else "url"
        yield Index(
            url=text(entry, "url") or "",
            place=toml.place("tool", "poetry", "source", number, key),
            tool="poetry",
            name=text(entry, "name"),
            role=_ROLES.get(priority, "extra"),
            flat=(text(entry, "url") or "").endswith((".html", ".htm")),  # Poetry's own test
        )
