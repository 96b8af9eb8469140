"""Pages for people: a front page with commands to copy, a page for each wrapper, a matrix of what there is. Pure."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from metawheel.coverage import Coverage, platform_name
from metawheel.family import Family
from metawheel.model import Artifact, Omission, Platform, UpstreamFile, Wrapper
from metawheel.people.overview import Group, all_platforms, all_pythons, group
from metawheel.people.setups import (
    PLACEHOLDER,
    Client,
    Step,
    clients,
    fill,
    packages,
    platform_values,
    python_name,
    python_values,
    wrapper_values,
)
from metawheel.plan import Plan
from metawheel.site import HostedFiles
from metawheel.upstream.mirrors import Mirror, mirrored, without_user

FRONT, MATRIX, DATA = "index.html", "matrix.html", "static/people.json"
STATIC = ("people.css", "people.js", "icon.svg")
# No inline script, style or event handler, and nothing from elsewhere.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


def pages(
    families: Iterable[Family],
    plan: Plan,
    wheels: Mapping[str, Artifact],
    hosted: HostedFiles,
    mirrors: Sequence[Mirror] = (),
    *,
    url: str = "",
) -> dict[str, bytes]:
    """Every page for people by its path in the site; `url` is the site's address, where the build knows it."""
    groups = group(families, plan)
    environment = _environment()
    found = {
        FRONT: _render(environment, "front.html", groups=groups, up="", **_front(groups, url)),
        MATRIX: _render(environment, "matrix.html", groups=groups, up=""),
        DATA: json.dumps(_data(groups), separators=(",", ":"), ensure_ascii=True).encode() + b"\n",
    }
    link = functools.partial(_link, hosted=hosted, mirrors=mirrors)
    for page in (page for item in groups for page in item.pages):
        found[page.path] = _render(environment, "wrapper.html", page=page, wheels=wheels, link=link, up="../")
    root = files("metawheel") / "templates" / "people"
    return found | {f"static/{name}": (root / name).read_bytes() for name in STATIC}


def _usual(covered: Coverage, platform: Platform) -> str:
    """The newest interpreter there, one that all platforms have and that is not free-threaded if there is such."""
    rows = [dict(zip(covered.interpreters, row, strict=True)) for _, row in covered.rows]
    there = [python for python, build in zip(covered.interpreters, dict(covered.rows)[platform], strict=True) if build]
    is_everywhere = {python: all(row[python] for row in rows) for python in there}
    return max(there, key=lambda python: (not python.endswith("t"), is_everywhere[python], there.index(python)))


def _front(groups: Sequence[Group], url: str) -> dict[str, Any]:
    """What the front page needs: what can be picked, and every client's steps for what is picked first."""
    every = [page for item in groups for page in item.pages]
    maps = [covered for page in every for covered in page.maps.values()]
    picked: dict[str, str] = {}
    shown: list[tuple[Client, list[tuple[Step, str]]]] = []
    if every and every[0].newest.flavour == "pinned":
        wrapper = every[0].newest
        covered = every[0].maps[wrapper.version]
        platforms = {platform for platform, _ in covered.rows}
        platform = next(platform for platform in all_platforms(maps) if platform in platforms)
        python = _usual(covered, platform)
        picked = {"wrapper": wrapper.name, "platform": str(platform), "python": python}
        values = wrapper_values(wrapper) | python_values(python) | platform_values(platform)
        values["url"] = url or PLACEHOLDER
        shown = [(client, [(step, fill(step, values)) for step in client.steps]) for client in clients()]
    return {
        "shown": shown,
        "picked": picked,
        "pythons": all_pythons(maps),
        "platforms": all_platforms(maps),
        "extras": sorted({extra for page in every for wrapper in page.versions for extra, _ in wrapper.extras}),
        "url": url,
        "placeholder": PLACEHOLDER,
    }


def _data(groups: Sequence[Group]) -> dict[str, Any]:
    """What people.js fills the set-ups in with: which version covers what, and what each choice stands for."""
    every = [page for item in groups for page in item.pages]
    maps = [covered for page in every for covered in page.maps.values()]
    pythons = {python: number for number, python in enumerate(all_pythons(maps))}
    return {
        "pythons": [{"key": python, **python_values(python)} for python in pythons],
        "platforms": {str(platform): platform_values(platform) for platform in all_platforms(maps)},
        "wrappers": {
            page.name: {
                "project": page.project,
                "view": "" if page.view is None else f"{page.view}/",
                "versions": [_facts(wrapper, page.maps[wrapper.version], pythons) for wrapper in page.versions],
            }
            for page in every
        },
    }


def _facts(wrapper: Wrapper, covered: Coverage, pythons: Mapping[str, int]) -> dict[str, Any]:
    """A version: its builds as platform → build → numbers of interpreters."""
    builds: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for platform, row in covered.rows:
        for python, build in zip(covered.interpreters, row, strict=True):
            if build is not None:
                builds[str(platform)][build].append(pythons[python])
    facts: dict[str, Any] = {"version": wrapper.version, "builds": builds, "packages": packages(wrapper)}
    if wrapper.extras:
        facts["extras"] = [extra for extra, _ in wrapper.extras]
    if wrapper.yanked is not None:
        facts["yanked"] = wrapper.yanked
    return facts


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("metawheel", "templates/people"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["policy"] = POLICY
    environment.filters |= {
        "python": python_name,
        "platform": platform_name,
        "systems": _systems,
        "size": _size,
        "tags": lambda filename: filename.removesuffix(".whl").split("-", 2)[2],
        "span": _span,
        "by_project": _by_project,
        "by_reason": _by_reason,
    }
    return environment


def _render(environment: Environment, template: str, **values: Any) -> bytes:
    return environment.get_template(template).render(values).encode() + b"\n"


def _link(file: UpstreamFile, *, hosted: HostedFiles, mirrors: Sequence[Mirror]) -> str | None:
    """Where a file is; None where that is not known, or no address of the web."""
    url = file.url if file.url is not None else hosted.urls.get(file.filename)
    url = None if url is None else without_user(mirrored(url, mirrors))
    return url if url is not None and urlsplit(url).scheme in ("http", "https") else None


def _span(pythons: Iterable[str]) -> str:
    """Interpreters in short: 3.9 – 3.14t."""
    names = [python_name(python) for python in pythons]
    return names[0] if len(names) == 1 else f"{names[0]} – {names[-1]}"


def _systems(platforms: Iterable[Platform]) -> str:
    """Platforms in short: Linux aarch64/x86_64, macOS arm64."""
    machines: dict[str, list[str]] = defaultdict(list)
    for platform in platforms:
        machines[platform_name(platform).partition(" ")[0]].append(platform.machine)
    return ", ".join(f"{system} {'/'.join(found)}" for system, found in machines.items())


def _size(size: int | None) -> str:
    """Bytes as people say them (SI)."""
    value, unit = float(size or 0), 0
    while value >= 1000:
        value, unit = value / 1000, unit + 1
    return "" if size is None else f"{value:.{1 if unit else 0}f} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"


def _by_project(found: Iterable[UpstreamFile]) -> dict[str, list[UpstreamFile]]:
    by_project: dict[str, list[UpstreamFile]] = defaultdict(list)
    for file in sorted(found, key=lambda file: file.sort_key):
        by_project[f"{file.project} {file.name.version}"].append(file)
    return by_project


def _by_reason(omissions: Iterable[Omission]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for omission in omissions:
        found[omission.reason].append(omission.what)
    return found
