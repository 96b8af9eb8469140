"""pyproject.toml: PEP 621, dependency groups (PEP 735), uv, Poetry and PDM; and uv.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from metawheel.doctor.lock_text import file_name, table, tables, text, texts
from metawheel.doctor.model import Declared, Extra, Index, Place, Project, Source, Unread
from metawheel.doctor.requirement_lines import combined, constraint_of, declare, declare_url
from metawheel.doctor.toml_text import Toml

Items = Iterator[Declared | Unread]
_POETRY_ROLES = {"primary": "primary", "default": "primary", "explicit": "explicit"}


def read_pyproject(toml: Toml) -> Project:
    """What a pyproject.toml says; keys of a wrong type say nothing."""
    project, tool = table(toml.data, "project"), table(toml.data, "tool")
    poetry = table(tool, "poetry")
    items = [*_pep621(toml), *_groups(toml), *_uv_lines(toml), *_pdm_groups(toml), *_poetry(toml)]
    declared = _joined(item for item in items if isinstance(item, Declared))
    own = text(project, "name") or text(poetry, "name")
    doctor = table(table(tool, "metawheel"), "doctor")
    return Project(
        files=(toml.path,),
        name=own,
        python=text(project, "requires-python") or _poetry_python(poetry),
        declared=declared,
        unread=tuple(item for item in items if isinstance(item, Unread)),
        indexes=(*uv_indexes(toml, ("tool", "uv")), *_poetry_indexes(toml), *_pdm_indexes(toml)),
        sources=(*uv_sources(toml), *_poetry_sources(toml)),
        extras=tuple(
            Extra(name=name, place=toml.place("project", "optional-dependencies", name))
            for name in table(project, "optional-dependencies")
        ),
        extras_named=(*_own_extras(declared, own), *_conflict_extras(toml)),
        environments=tuple(texts(table(tool, "uv"), "environments")),
        required=tuple(texts(table(tool, "uv"), "required-environments")),
        settings=uv_settings(toml, ("tool", "uv")),
        targets=tuple(texts(doctor, "targets")),
        pythons=tuple(texts(doctor, "python-versions")),
        ignore=tuple(texts(doctor, "ignore")),
    )


def _lines(toml: Toml, keys: tuple[str, ...], *, tool: str, scope: str = "") -> Items:
    """The requirement lines of an array."""
    found: Any = toml.data
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    for number, line in enumerate(found if isinstance(found, list) else []):
        if isinstance(line, str):
            yield declare(line, toml.place(*keys, number), tool=tool, scope=scope)


def _pep621(toml: Toml) -> Items:
    yield from _lines(toml, ("project", "dependencies"), tool="pep621")
    for extra in table(table(toml.data, "project"), "optional-dependencies"):
        yield from _lines(toml, ("project", "optional-dependencies", extra), tool="pep621", scope=f"extra:{extra}")


def _groups(toml: Toml) -> Items:
    for group in table(toml.data, "dependency-groups"):
        yield from _lines(toml, ("dependency-groups", group), tool="pep621", scope=f"group:{group}")


def _uv_lines(toml: Toml) -> Items:
    yield from _lines(toml, ("tool", "uv", "dev-dependencies"), tool="uv", scope="group:dev")
    for key in ("constraint-dependencies", "override-dependencies"):
        for item in _lines(toml, ("tool", "uv", key), tool="uv"):
            yield replace(item, constraint=True) if isinstance(item, Declared) else item


def _pdm_groups(toml: Toml) -> Items:
    for group in table(table(table(toml.data, "tool"), "pdm"), "dev-dependencies"):
        keys = ("tool", "pdm", "dev-dependencies", group)
        yield from _lines(toml, keys, tool="pdm", scope=f"group:{group}")


def _poetry_tables(toml: Toml) -> Iterator[tuple[tuple[str, ...], str]]:
    """The tables that hold dependencies, each with its scope."""
    poetry = table(table(toml.data, "tool"), "poetry")
    yield ("tool", "poetry", "dependencies"), ""
    yield ("tool", "poetry", "dev-dependencies"), "group:dev"
    for group in table(poetry, "group"):
        yield ("tool", "poetry", "group", group, "dependencies"), f"group:{group}"


def _poetry_entries(toml: Toml) -> Iterator[tuple[str, Mapping[str, Any], Place, str]]:
    """Each dependency: name, its keys, its place and scope; one of several constraints by itself."""
    for keys, scope in _poetry_tables(toml):
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


def _poetry(toml: Toml) -> Items:
    listed = {item.name for item in _pep621(toml) if isinstance(item, Declared)}
    extras = table(table(table(toml.data, "tool"), "poetry"), "extras")
    for name, entry, place, scope in _poetry_entries(toml):
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
    platform = text(entry, "platform") or text(entry, "sys_platform")
    marker = combined(
        text(entry, "markers"), f"sys_platform == '{platform}'" if platform and platform.isalnum() else None
    )
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


def _joined(items: Iterable[Declared]) -> tuple[Declared, ...]:
    return tuple(sorted(items, key=lambda item: (item.place.line, item.name)))


def _poetry_python(poetry: Mapping[str, Any]) -> str | None:
    wanted = table(poetry, "dependencies").get("python")
    specifiers = [constraint_of(part) for part in wanted.split("||")] if isinstance(wanted, str) else []
    return "||".join(str(item) for item in specifiers if item is not None) or None


def uv_indexes(toml: Toml, keys: tuple[str, ...]) -> Iterator[Index]:
    """The indexes of uv's table, which is `tool.uv` or the whole of uv.toml."""
    uv: Any = toml.data
    for key in keys:
        uv = table(uv, key)
    for number, entry in enumerate(tables(uv, "index")):
        role = (
            "explicit" if entry.get("explicit") is True else "primary" if entry.get("default") is True else "ordinary"
        )
        yield Index(
            url=text(entry, "url") or "",
            place=toml.place(*keys, "index", number, "explicit" if role == "explicit" else "url"),
            tool="uv",
            name=text(entry, "name"),
            role=role,
        )
    for holder, where in ((uv, keys), (table(uv, "pip"), (*keys, "pip"))):
        if url := text(holder, "index-url"):
            yield Index(url=url, place=toml.place(*where, "index-url"), tool="uv", role="primary")
        for key, role in (("extra-index-url", "ordinary"), ("find-links", "links")):
            for number, url in enumerate(texts(holder, key)):
                yield Index(url=url, place=toml.place(*where, key, number), tool="uv", role=role)


def uv_settings(toml: Toml, keys: tuple[str, ...]) -> tuple[tuple[str, str, Place], ...]:
    uv: Any = toml.data
    for key in keys:
        uv = table(uv, key)
    found: list[tuple[str, str, Place]] = []
    for holder, where in ((uv, keys), (table(uv, "pip"), (*keys, "pip"))):
        for key in ("index-strategy", "torch-backend"):
            value = text(holder, key)
            found += [(f"uv.{key}", value, toml.place(*where, key))] if value else []
    return tuple(found)


def uv_sources(toml: Toml) -> Iterator[Source]:
    sources = table(table(table(toml.data, "tool"), "uv"), "sources")
    for name, value in sources.items():
        for number, entry in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(entry, dict):
                continue
            keys: tuple[str | int, ...] = ("tool", "uv", "sources", name)
            kind = next((key for key in ("index", "git", "url", "path", "workspace") if key in entry), "index")
            scope = (
                f"extra:{entry['extra']}" if "extra" in entry else f"group:{entry['group']}" if "group" in entry else ""
            )
            yield Source(
                name=canonicalize_name(name),
                place=toml.place(*keys, number) if isinstance(value, list) else toml.place(*keys),
                tool="uv",
                index=text(entry, "index"),
                kind=kind,
                value=str(entry.get(kind, "")),
                marker=text(entry, "marker"),
                scope=scope,
            )


def _poetry_sources(toml: Toml) -> Iterator[Source]:
    for name, entry, place, scope in _poetry_entries(toml):
        kind = next((key for key in ("git", "url", "path") if key in entry), "index")
        if kind != "index" or "source" in entry:
            yield Source(
                name=canonicalize_name(name),
                place=place,
                tool="poetry",
                index=text(entry, "source"),
                kind=kind,
                value=str(entry.get(kind, "")),
                marker=text(entry, "markers"),
                scope=scope,
            )


def _poetry_indexes(toml: Toml) -> Iterator[Index]:
    for number, entry in enumerate(tables(table(table(toml.data, "tool"), "poetry"), "source")):
        priority = (text(entry, "priority") or "primary").lower()
        key = "priority" if "priority" in entry else "url"
        yield Index(
            url=text(entry, "url") or "",
            place=toml.place("tool", "poetry", "source", number, key),
            tool="poetry",
            name=text(entry, "name"),
            role=_POETRY_ROLES.get(priority, "extra"),
        )


def _pdm_indexes(toml: Toml) -> Iterator[Index]:
    for number, entry in enumerate(tables(table(table(toml.data, "tool"), "pdm"), "source")):
        links = text(entry, "type") == "find_links"
        yield Index(
            url=text(entry, "url") or "",
            place=toml.place("tool", "pdm", "source", number, "url"),
            tool="pdm",
            name=text(entry, "name"),
            role="links" if links else "primary" if text(entry, "name") == "pypi" else "ordinary",
            only=tuple(texts(entry, "include_packages")),
        )


def _own_extras(declared: Iterable[Declared], own: str | None) -> Iterator[Extra]:
    """Where a project names its own extras: `name[extra]`."""
    for item in declared:
        if own is not None and item.name == canonicalize_name(own):
            yield from (Extra(name=extra, place=item.place) for extra in item.extras)


def _conflict_extras(toml: Toml) -> Iterator[Extra]:
    found = table(table(toml.data, "tool"), "uv").get("conflicts")
    for number, items in enumerate(found if isinstance(found, list) else []):
        for position, item in enumerate(items if isinstance(items, list) else []):
            if extra := text(item, "extra"):
                yield Extra(name=extra, place=toml.place("tool", "uv", "conflicts", number, position, "extra"))


def local_path(source: Source) -> str | None:
    """The folder that a source names, if it does."""
    return source.value if source.kind == "path" and not file_name(source.value).endswith((".whl", ".gz")) else None
