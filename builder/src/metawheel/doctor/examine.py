"""`metawheel doctor`: from a project's files to findings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from metawheel.doctor.case import Case
from metawheel.doctor.codes import RULES
from metawheel.doctor.installed import Environment, read_environment
from metawheel.doctor.known import Backend, watched
from metawheel.doctor.ledgers import Ledgers, load_ledgers
from metawheel.doctor.model import Choice, Fault, Finding, NoProject, Project, Rule
from metawheel.doctor.reading import dependency_sources, read_project
from metawheel.doctor.targets import (
    KNOWN_PYTHONS,
    PLATFORMS,
    USUAL,
    USUAL_PYTHON,
    Target,
    declared_platforms,
    declared_pythons,
    parse_platform,
)
from metawheel.errors import UnknownName, masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an examination is asked for."""

    targets: tuple[str, ...] = ()  # platforms; empty: those that the project declares
    pythons: tuple[str, ...] = ()
    backend: Backend | None = None
    ignore: tuple[str, ...] = ()
    environment: Path | None = None  # an interpreter
    packages: Path | None = None  # the folder of families; None: found, or none
    uv_torch_backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an examination found."""

    folder: Path
    files: tuple[str, ...]
    targets: tuple[Target, ...]
    choices: tuple[Choice, ...]
    findings: tuple[Finding, ...]


def examine(folder: Path, options: Options) -> Report:
    """Examine a project; raises ProjectError, UnknownName, and what a packages/ folder that cannot be read raises."""
    project = _read(folder, options)
    case = Case(
        project=project,
        targets=choose_targets(project, options),
        ledgers=_ledgers(project, folder, options),
        backend=options.backend,
        uv_torch_backend=options.uv_torch_backend,
        dependencies=tuple(
            (source, found[0])
            for source in project.sources
            if source.tool == "uv" and (found := dependency_sources(folder, source)) is not None
        ),
    )
    if not options.pythons:
        likely = replace(options, pythons=_likely_pythons(case, options))
        case = replace(case, targets=choose_targets(project, likely))
    return Report(
        folder=folder,
        files=project.files,
        targets=case.targets,
        choices=case.choices,
        findings=judge(case, {*options.ignore, *project.ignore}),
    )


def judge(case: Case, ignore: Iterable[str] = ()) -> tuple[Finding, ...]:
    """What all rules find, in the order of files and lines; equal faults of several targets are one finding."""
    ignored = set(ignore)
    found: list[Finding] = []
    for rule in RULES:
        if rule.code not in ignored:
            found += _merged(rule, rule.check(case))
    return tuple(sorted(found, key=lambda item: (item.place, item.code, item.message)))


def _merged(rule: Rule, faults: Iterable[Fault]) -> list[Finding]:
    targets: dict[tuple[object, str], dict[str, None]] = {}
    first: dict[tuple[object, str], Fault] = {}
    for fault in faults:
        key = (fault.place, fault.what)
        first.setdefault(key, fault)
        targets.setdefault(key, {}).update({fault.target: None} if fault.target else {})
    return [
        Finding(
            code=rule.code,
            title=rule.title,
            severity=rule.severity,
            place=fault.place,
            message=masked(fault.what),
            fix=replace(fault.fix, paste=masked(fault.fix.paste)),
            targets=tuple(targets[key]),
        )
        for key, fault in first.items()
    ]


def choose_targets(project: Project, options: Options) -> tuple[Target, ...]:
    """The targets that are asked for, or else those that the project declares, or else the usual ones."""
    names = options.targets or project.targets
    platforms = [_platform(name) for name in names]
    if not platforms:
        platforms = list(declared_platforms(project.environments)) or [PLATFORMS[name] for name in USUAL]
        platforms += declared_platforms(project.required) if project.required else ()
        for lock in project.locks:
            platforms += [t for t in getattr(lock, "only", None) or () if t not in platforms]
    pythons = options.pythons or _pythons(project)
    for python in pythons:
        parts = python.removesuffix("t").split(".")
        if len(parts) not in {2, 3} or not all(part.isdecimal() for part in parts) or parts[0] != "3":
            raise UnknownName(f"no Python version: {python!r}; write it as 3.11 (or 3.13t for the free-threaded build)")
    found = [platform.with_python(python) for platform in dict.fromkeys(platforms) for python in dict.fromkeys(pythons)]
    return (*found, *(lock.target for lock in project.locks if isinstance(lock, Environment)))


def _pythons(project: Project) -> tuple[str, ...]:
    return project.pythons or declared_pythons(project.python or _locked_python(project))


def _likely_pythons(case: Case, options: Options) -> tuple[str, ...]:
    """Where nobody says which Python is meant: the usual one, unless what is pinned has wheels for another only."""
    if _pythons(case.project) != (USUAL_PYTHON,) or case.project.python or _locked_python(case.project):
        return options.pythons
    missing: dict[str, int] = {}
    for python in (USUAL_PYTHON, *sorted(KNOWN_PYTHONS, key=lambda text: -int(text.removeprefix("3.")))):
        targets = tuple(target.with_python(python) for target in case.targets)
        missing[python] = sum(choice.wheel is False for choice in replace(case, targets=targets).choices)
        if missing[python] == 0:
            break
    return (min(missing, key=lambda python: missing[python]),)


def _platform(name: str) -> Target:
    found = parse_platform(name)
    if found is None:
        raise UnknownName(f"no platform {name!r}; there are {', '.join(PLATFORMS)}")
    return found


def _locked_python(project: Project) -> str | None:
    return next((python for lock in project.locks if (python := getattr(lock, "python", None))), None)


def _read(folder: Path, options: Options) -> Project:
    if options.environment is None:
        return read_project(folder)
    environment = read_environment(options.environment)
    try:
        project = read_project(folder)
    except NoProject:
        project = Project()
    return replace(project, locks=(*project.locks, environment), files=(*project.files, environment.path))


def _ledgers(project: Project, folder: Path, options: Options) -> Ledgers:
    names = {item.name for item in project.declared}
    names |= {package.name for lock in project.locks for package in lock.packages}
    wanted = {name for name in names if watched(name)}
    if not wanted:
        return Ledgers()
    from metawheel.family import find_packages

    packages = options.packages
    for start in (Path(os.path.realpath(folder)), Path.cwd()):
        if packages is None:
            try:
                packages = find_packages(start)
            except UnknownName:
                continue
    return load_ledgers(packages, wanted) if packages is not None else Ledgers()
