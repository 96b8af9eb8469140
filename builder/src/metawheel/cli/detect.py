"""`metawheel detect`, and what it shares with `install` and `pip`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, Packages, columns, plain, print_result
from metawheel.errors import MetawheelError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from metawheel.detect.choose import Choice
    from metawheel.detect.interpreter import Interpreter
    from metawheel.detect.offers import Catalog
    from metawheel.detect.probe import Machine

Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="URL",
        envvar="METAWHEEL_INDEX",
        help="A site's index that has the wrappers.",
        show_default=False,
    ),
]
Backend = Annotated[
    str, typer.Option("--backend", envvar="METAWHEEL_BACKEND", help="Such as cpu, cu128 or rocm6.2; auto: detect it.")
]
VersionSpec = Annotated[
    str, typer.Option("--version", metavar="SPEC", help="The release, such as 2.9.1 or '>=2.8,<2.10'.")
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python", metavar="PATH", help="Interpreter or environment.  [default: the active one]", show_default=False
    ),
]


def detect(
    backend: Backend = "auto",
    version: VersionSpec = "",
    index: Index = None,
    packages: Packages = None,
    python: Python = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why, for every backend and every probe.")] = False,
    as_json: Json = False,
) -> None:
    """Detect the accelerators here, and the best backend for each kind of wrapper."""
    from metawheel.detect.machine import probe
    from metawheel.detect.system import Host

    interpreter = interpreter_of(python)
    machine = probe(Host())
    catalog = catalog_of(index, packages, interpreter)
    choices = best(catalog, machine, interpreter, backend=backend, specifier=specifier_of(version))
    show = detect_json if as_json else detect_text
    print_result(show(machine, interpreter, choices, explain=explain))
    raise typer.Exit(exit_code_of(choices.values()))


def best(
    catalog: Catalog, machine: Machine, interpreter: Interpreter, *, backend: str, specifier: SpecifierSet
) -> dict[str, Choice | MetawheelError]:
    """The choice for each kind of wrapper, or why there is none."""
    from metawheel.detect.choose import NoBuild, choose
    from metawheel.errors import UnknownName
    from metawheel.install.wish import kinds

    found: dict[str, Choice | MetawheelError] = {}
    for kind, offers in kinds(catalog).items():
        try:
            found[kind.strip("-")] = choose(offers, machine, interpreter, backend=backend, specifier=specifier)
        except (NoBuild, UnknownName) as error:
            found[kind.strip("-")] = error
    return found


def exit_code_of(choices: Collection[Choice | MetawheelError]) -> int:
    """0 if there is a choice; else 14, or 9 for a backend that no kind of wrapper knows."""
    failures = [choice.exit_code for choice in choices if isinstance(choice, MetawheelError)]
    return max(failures) if failures and len(failures) == len(choices) else 0


def backend_of(backend: str, *, cpu: bool) -> str:
    """The backend that is asked for: --cpu goes before METAWHEEL_BACKEND, and contradicts another --backend."""
    if cpu and backend not in ("auto", "cpu", os.environ.get("METAWHEEL_BACKEND")):
        raise typer.BadParameter(f"is the same as --backend cpu, not {backend}", param_hint="--cpu")
    return "cpu" if cpu else backend


def interpreter_of(python: str | None) -> Interpreter:
    from metawheel.detect.interpreter import ask, choose_python

    return ask(choose_python(python, os.environ))


def catalog_of(index: str | None, packages: Path | None, interpreter: Interpreter) -> Catalog:
    """The index that is named, else the families here."""
    if index is not None:
        from metawheel.cli.common import fetcher_of, http_url
        from metawheel.detect.indexed import from_index

        return from_index(http_url(index, "--index"), fetcher_of(None), interpreter)
    from metawheel.cli.common import families_of
    from metawheel.detect.offers import from_plan
    from metawheel.inputs import Options, make_plan

    return from_plan(make_plan(families_of(packages, None), Options()).wrappers)


def specifier_of(text: str) -> SpecifierSet:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(f"=={text}" if text[:1].isdigit() else text)
    except InvalidSpecifier:
        raise typer.BadParameter(f"{text!r} is not a version specifier", param_hint="--version") from None


def without_password(text: str) -> str:
    """A word of a command line as it may be shown."""
    return re.sub(r"(://[^/@\s:]*):[^/@\s]*@", r"\1:****@", text)


def detect_text(
    machine: Machine, interpreter: Interpreter, choices: dict[str, Choice | MetawheelError], *, explain: bool
) -> str:
    lines = [interpreter.name, *_accelerators(machine)]
    if machine.problem:
        lines.append(f"warning: {plain(machine.problem)}")
    for kind, choice in choices.items():
        lines.append("")
        if isinstance(choice, MetawheelError):
            lines.append(f"{kind}: {plain(str(choice))}")
            continue
        lines.append(f"{choice.offer.wrapper}=={choice.offer.version}: {plain(choice.reason)}")
        if explain:
            lines += columns(
                [(f"  {v.backend}", _release(v), f"{_word(v)}: {plain(v.reason)}") for v in choice.verdicts]
            )
    if explain:
        lines += ["", "probes:", *columns([(f"  {plain(note.probe)}", plain(note.said)) for note in machine.notes])]
    return "\n".join(lines)


def _accelerators(machine: Machine) -> Sequence[str]:
    driver = f", driver {machine.driver}" if machine.driver else ""
    found = [
        f"{item.vendor}: {plain(item.name) or 'name not known'}"
        f"{f' ({item.architecture})' if item.architecture else ''}{driver if item.vendor == 'nvidia' else ''}"
        for item in machine.accelerators
    ]
    return found or ["no accelerator"]


def _word(verdict: Any) -> str:
    return "fits" if verdict.usable else "no"


def _release(verdict: Any) -> str:
    return verdict.offer.release if verdict.offer is not None else "–"


def detect_json(
    machine: Machine, interpreter: Interpreter, choices: dict[str, Choice | MetawheelError], *, explain: bool
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "interpreter": interpreter.executable,
        "python": interpreter.environment["python_full_version"],
        "platform": [interpreter.environment["sys_platform"], interpreter.environment["platform_machine"]],
        "driver": machine.driver,
        "accelerators": [
            {"vendor": item.vendor, "name": item.name, "architecture": item.architecture}
            for item in machine.accelerators
        ],
        "problem": machine.problem,
        "choices": {kind: choice_json(choice, explain=explain) for kind, choice in choices.items()},
    }
    if explain:
        data["probes"] = [{"probe": note.probe, "said": note.said} for note in machine.notes]
    return data


def choice_json(choice: Choice | MetawheelError, *, explain: bool = False) -> dict[str, Any]:
    if isinstance(choice, MetawheelError):
        return {"wrapper": None, "reason": str(choice)}
    data: dict[str, Any] = {
        "wrapper": choice.offer.wrapper,
        "version": choice.offer.version,
        "backend": choice.offer.backend,
        "reason": choice.reason,
    }
    if explain:
        data["backends"] = [
            {"backend": v.backend, "release": _release(v) if v.offer else None, "fits": v.usable, "reason": v.reason}
            for v in choice.verdicts
        ]
    return data
