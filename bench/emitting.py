"""Emitting the wrappers' wheels, against the tools that build any project's wheel."""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.ledgers import PACKAGES, scaled, without_newest
from bench.machine import machine, versions
from bench.measure import MEGABYTE, Cost, in_turns, run
from bench.report import Part, Table
from metawheel.build import write_projects
from metawheel.family import load_families
from metawheel.inputs import Options, make_plan
from metawheel.model import Wrapper
from metawheel.project import TAG_VARIABLE

ROOT = Path(__file__).parents[1]
PROJECTS = 3
BUILD = (sys.executable, "-m", "build", "--wheel")
OTHERS: Mapping[str, Sequence[str]] = {
    "hatchling, a process each": (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"),
    "python -m build --no-isolation": (*BUILD, "--no-isolation", "-o"),
    "python -m build": (*BUILD, "-o"),
}


def emit(work: Path, rounds: int, scales: Sequence[int]) -> Part:
    """Every measurement of this part."""
    wrappers = make_plan(load_families(PACKAGES), Options()).wrappers
    return Part(
        title="Emitting",
        tables=(
            _tools(work, wrappers, rounds),
            _scales(work, scales, rounds),
            *(_changes(work / f"changes-{times}", times, rounds) for times in scales[:2]),
        ),
        versions=versions(["build", "hatchling"]),
        machine=machine(),
    )


def _tools(work: Path, wrappers: Sequence[Wrapper], rounds: int) -> Table:
    chosen = [wrappers[len(wrappers) * number // PROJECTS] for number in range(PROJECTS)]
    write_projects(chosen, work / "projects")
    wheels = sum(len(wrapper.wheels) for wrapper in wrappers)
    contenders = {"metawheel": partial(_emit_all, work / "emitted")}
    contenders |= {name: partial(_build_each, command, chosen, work) for name, command in OTHERS.items()}
    costs = in_turns(contenders, rounds)
    return Table(
        title="A wheel",
        about=(
            f"metawheel plans and builds the whole committed set, {wheels} wheels of {len(wrappers)} wrappers, in one "
            f"process and its workers, start included; the others one wheel of each of {PROJECTS} of its projects."
        ),
        rows={name: _each(cost, wheels if name == "metawheel" else PROJECTS) for name, cost in costs.items()},
    )


def _each(cost: Cost, wheels: int) -> dict[str, float | None]:
    return {
        "wheels/s": wheels / cost.wall,
        "ms a wheel": cost.wall / wheels * 1000,
        "processor ms a wheel": cost.processor / wheels * 1000,
        "peak MB": cost.memory / MEGABYTE,
    }


def _emit_all(folder: Path) -> Cost:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return run([sys.executable, "-m", "bench.ours", "emit", PACKAGES, folder], cwd=ROOT)


def _build_each(command: Sequence[str], wrappers: Sequence[Wrapper], work: Path) -> Cost:
    cost = Cost(wall=0, processor=0, memory=0)
    for wrapper in wrappers:
        tag = wrapper.wheels[0].removesuffix(".whl").split("-", 2)[2]
        project = work / "projects" / f"{wrapper.name}-{wrapper.version}"
        cost += run([*command, work / "built"], cwd=project, env={**os.environ, TAG_VARIABLE: tag})
    return cost


def _scales(work: Path, scales: Sequence[int], rounds: int) -> Table:
    rows: dict[str, dict[str, float | None]] = {}
    for times in scales:
        packages = scaled(work / f"packages-{times}", times)
        count = len(make_plan(load_families(packages), Options()).wrappers)
        costs = [_build_site(packages, work / "site") for _ in range(rounds if times == 1 else 1)]
        cost = Cost.median(costs)
        each = {"wrappers": count, "processor ms a wrapper": cost.processor / count * 1000}
        rows[f"{times} times"] = {**each, **cost.values()}
    return Table(
        title="As versions grow",
        about="`metawheel build --offline`, the whole command: the committed ledgers with so many times the releases.",
        rows=rows,
    )


def _build_site(packages: Path, site: Path, before: Path | None = None) -> Cost:
    shutil.rmtree(site, ignore_errors=True)
    if before is not None:
        shutil.copytree(before, site)
    return run([sys.executable, "-m", "metawheel", "build", "--offline", "-o", site, "--packages", packages])


def _changes(work: Path, times: int, rounds: int) -> Table:
    packages = scaled(work / "packages", times)
    older, site = without_newest(work / "packages-before", packages), work / "site"
    before, whole = work / "site-before", work / "site-whole"
    _build_site(older, before)
    _build_site(packages, whole)
    states = {"from nothing": None, "one new release": before, "nothing new": whole}
    costs = in_turns({name: partial(_build_site, packages, site, state) for name, state in states.items()}, rounds)
    return Table(
        title="After one new release" if times == 1 else f"After one new release of {times} times as many",
        about=(
            "`metawheel build --offline` over the site of the same ledgers without PyTorch's newest release; what is "
            "new are wheels that were built, and files in the site that were written, not taken over."
        ),
        rows={name: {**cost.values(), **_new(whole, states[name])} for name, cost in costs.items()},
    )


def _new(site: Path, before: Path | None) -> dict[str, float]:
    """How many wheels and files a site has that are not in another as they are."""
    files = [path for path in site.rglob("*") if path.is_file()]
    new = [path for path in files if before is None or not _is_in(before / path.relative_to(site), path)]
    return {"new wheels": sum(path.suffix == ".whl" for path in new), "new files": len(new)}


def _is_in(old: Path, new: Path) -> bool:
    return old.is_file() and filecmp.cmp(old, new, shallow=False)
