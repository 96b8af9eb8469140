"""pyproject.toml: PEP 621, dependency groups (PEP 735), uv and PDM, what pixi and Rye add, and uv.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name

from metawheel.doctor.lock_text import file_name, table, tables, text, texts
from metawheel.doctor.model import Declared, Extra, Index, Place, Project, Source, Unread
from metawheel.doctor.pyproject_poetry import (
    optional_groups,
    poetry_dependencies,
    poetry_indexes,
    poetry_python,
    poetry_sources,
)
from metawheel.doctor.requirement_lines import declare
from metawheel.doctor.toml_text import Toml

Items = Iterator[Declared | Unread]


def read_pyproject(toml: Toml) -> Project:
    """What a pyproject.toml says; keys of a wrong type say nothing."""
    project, tool = table(toml.data, "project"), table(toml.data, "tool")
    poetry = table(tool, "poetry")
    items = [*_pep621(toml), *_groups(toml), *_uv_lines(toml), *_pdm_groups(toml)]
    listed = {item.name for item in _pep621(toml) if isinstance(item, Declared)}
    items += poetry_dependencies(toml, listed)
    declared = _joined(item for item in items if isinstance(item, Declared))
    own = text(project, "name") or text(poetry, "name")
    doctor = table(table(tool, "metawheel"), "doctor")
    return Project(
        files=(toml.path,),
        name=own,
        python=text(project, "requires-python") or poetry_python(poetry),
        declared=declared,
        unread=tuple(item for item in items if isinstance(item, Unread)),
        indexes=(
            *uv_indexes(toml, ("tool", "uv")),
            *_pixi_indexes(toml),
            *_rye_indexes(toml),
            *poetry_indexes(toml),
            *_pdm_indexes(toml),
        ),
        sources=(*uv_sources(toml), *poetry_sources(toml)),
        extras=tuple(
            Extra(name=name, place=toml.place("project", "optional-dependencies", name))
            for name in table(project, "optional-dependencies")
        ),
        extras_named=(*_own_extras(declared, own), *_conflict_extras(toml)),
        environments=_markers(table(tool, "uv"), "environments"),
        required=_markers(table(tool, "uv"), "required-environments"),
        settings=uv_settings(toml, ("tool", "uv")),
        targets=tuple(texts(doctor, "targets")),
        pythons=tuple(texts(doctor, "python-versions")),
        ignore=tuple(texts(doctor, "ignore")),
        optional_groups=tuple(optional_groups(toml)),
        built_with=tuple(_build_requirements(toml)),
        dynamic=not {"dependencies", "optional-dependencies"}.isdisjoint(texts(project, "dynamic")),
    )


def _build_requirements(toml: Toml) -> Iterator[NormalizedName]:
    """What is needed to build the project or a dependency: uv's sources hold for it too."""
    uv = table(table(toml.data, "tool"), "uv")
    lists = [table(toml.data, "build-system").get("requires"), *table(uv, "extra-build-dependencies").values()]
    for item in (item for lines in lists if isinstance(lines, list) for item in lines):
        line = item if isinstance(item, str) else text(item, "requirement") or ""
        found = declare(line, Place(toml.path, 1), tool="uv")
        if isinstance(found, Declared):
            yield found.name


def _markers(uv: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The markers of environments, which uv takes as one string too."""
    one = text(uv, key)
    return (one,) if one is not None else tuple(texts(uv, key))


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
    groups = table(toml.data, "dependency-groups")
    for group in groups:
        for name in _with_included(groups, group):
            yield from _lines(toml, ("dependency-groups", name), tool="pep621", scope=f"group:{group}")


def _with_included(groups: Mapping[str, Any], group: str) -> tuple[str, ...]:
    """A dependency group and those that it includes (PEP 735), each once."""
    found = [group]
    spelled = {canonicalize_name(name): name for name in groups}
    for name in found:
        for item in tables(groups, name):
            included = spelled.get(canonicalize_name(text(item, "include-group") or ""))
            if included is not None and included not in found:
                found.append(included)
    return tuple(found)


def _uv_lines(toml: Toml) -> Items:
    yield from _lines(toml, ("tool", "uv", "dev-dependencies"), tool="uv", scope="group:dev")
    for key in ("constraint-dependencies", "override-dependencies"):
        for item in _lines(toml, ("tool", "uv", key), tool="uv"):
            overrides = key == "override-dependencies"
            yield replace(item, constraint=True, override=overrides) if isinstance(item, Declared) else item


def _pdm_groups(toml: Toml) -> Items:
    for group in table(table(table(toml.data, "tool"), "pdm"), "dev-dependencies"):
        keys = ("tool", "pdm", "dev-dependencies", group)
        yield from _lines(toml, keys, tool="pdm", scope=f"group:{group}")


def _joined(items: Iterable[Declared]) -> tuple[Declared, ...]:
    return tuple(sorted(items, key=lambda item: (item.place.line, item.name)))


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
            flat=text(entry, "format") == "flat",
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


def _pixi_indexes(toml: Toml) -> Iterator[Index]:
    """The indexes that pixi passes to uv, which it is built on."""
    pixi = table(table(toml.data, "tool"), "pixi")
    features = table(pixi, "feature")
    holders = [(pixi, ()), *((table(features, name), ("feature", name)) for name in features)]
    for holder, inner in holders:
        options, keys = table(holder, "pypi-options"), ("tool", "pixi", *inner, "pypi-options")
        if url := text(options, "index-url"):
            yield Index(url=url, place=toml.place(*keys, "index-url"), tool="uv", role="primary")
        for number, url in enumerate(texts(options, "extra-index-urls")):
            yield Index(url=url, place=toml.place(*keys, "extra-index-urls", number), tool="uv")
        for number, entry in enumerate(tables(options, "find-links")):
            if url := text(entry, "url"):
                yield Index(url=url, place=toml.place(*keys, "find-links", number), tool="uv", role="links")


def _rye_indexes(toml: Toml) -> Iterator[Index]:
    """The indexes that Rye passes to uv."""
    for number, entry in enumerate(tables(table(table(toml.data, "tool"), "rye"), "sources")):
        name = text(entry, "name")
        links = text(entry, "type") == "find-links"
        yield Index(
            url=text(entry, "url") or "",
            place=toml.place("tool", "rye", "sources", number, "url"),
            tool="uv",
            name=name,
            role="links" if links else "primary" if name == "default" else "ordinary",
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
