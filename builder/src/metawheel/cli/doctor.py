"""`metawheel doctor`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, Packages, columns, plain, print_result

if TYPE_CHECKING:
    from metawheel.doctor import Report
    from metawheel.doctor.fixes import Applied
    from metawheel.doctor.model import Choice, Finding


def doctor(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", show_default=False)] = Path(),
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A platform, such as linux-x86_64 or macos-arm64. Repeatable.  [default: those of the project]",
            show_default=False,
        ),
    ] = None,
    python_version: Annotated[
        list[str] | None,
        typer.Option(help="A Python, such as 3.11. Repeatable.  [default: that of the project]", show_default=False),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="What the machines have: cpu, cu128, rocm6.2, xpu, cuda12 …", show_default=False),
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Examine an installed environment too.")] = False,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="That environment, or its interpreter.  [default: the project's .venv, or the active one]",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A code to leave out. Repeatable.", show_default=False)
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Apply the safe fixes; a backup is left beside each file.")
    ] = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as SARIF 2.1.0.", show_default=False)
    ] = None,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Say which torch or jax build a project's files would install where, and what is wrong with them."""
    from metawheel.doctor import Options, examine
    from metawheel.doctor.codes import CODES
    from metawheel.doctor.fixes import apply, read_raw
    from metawheel.doctor.known import backend_named
    from metawheel.files import write_atomic

    for code in ignore or ():
        if code not in CODES:
            raise typer.BadParameter(f"{code!r} is no code; there are {', '.join(CODES)}", param_hint="--ignore")
    if backend is not None and backend_named(backend) is None:
        raise typer.BadParameter(f"{backend!r} is no backend, such as cpu or cu128", param_hint="--backend")
    options = Options(
        targets=tuple(target or ()),
        pythons=tuple(python_version or ()),
        backend=backend_named(backend),
        ignore=tuple(ignore or ()),
        environment=_interpreter(project, python) if env or python is not None else None,
        packages=packages,
        uv_torch_backend=os.environ.get("UV_TORCH_BACKEND") or None,
    )
    report = examine(project, options)
    applied: tuple[Applied, ...] = ()
    if fix:
        applied = apply(project, report.findings)
        report = examine(project, options) if applied else report

    def text_of(path: str) -> str | None:
        return read_raw(project, path)

    if sarif is not None:
        from metawheel.doctor.sarif import sarif as log

        write_atomic(sarif, json.dumps(log(report, text_of), indent=2).encode() + b"\n")
    print_result(doctor_json(report, applied, text_of) if as_json else doctor_text(report, applied, text_of))
    raise typer.Exit(1 if report.findings else 0)


def _interpreter(project: Path, python: str | None) -> Path:
    """The interpreter that is named, or the project's, or the active one, as an absolute path; raises UnknownName."""
    from metawheel.detect.interpreter import choose_python, in_folder

    named = python or in_folder(project / ".venv")
    return Path(choose_python(named, os.environ, shutil.which("python3") or shutil.which("python")))


def doctor_text(report: Report, applied: Sequence[Applied], text_of: Callable[[str], str | None]) -> str:
    lines = []
    for path in dict.fromkeys(choice.by for choice in report.choices):
        lines += [plain(path), *(f"  {line}" for line in columns(_table(path, report.choices))), ""]
    for finding in report.findings:
        lines += [*_finding_lines(finding, text_of), ""]
    lines += [f"{plain(item.path)}: {item.edits} fixed; as it was: {plain(item.backup)}" for item in applied]
    errors = sum(finding.severity == "error" for finding in report.findings)
    files = f"{len(report.files)} file{'s' if len(report.files) != 1 else ''}"
    if not report.findings:
        return "\n".join([*lines, f"nothing wrong in {files}"])
    safe = sum(finding.fix.safe for finding in report.findings)
    hint = f"; --fix can apply {safe}" if safe else ""
    total = len(report.findings)
    summary = f"{total} finding{'s' if total != 1 else ''} in {files}: {errors} error{'s' if errors != 1 else ''}, "
    return "\n".join([*lines, f"{summary}{total - errors} warning{'s' if total - errors != 1 else ''}{hint}"])


def _table(path: str, choices: Sequence[Choice]) -> list[list[str]]:
    """A row for each target, a column for each project."""
    found: dict[str, dict[str, list[str]]] = {}
    for choice in choices:
        if choice.by == path:
            selection = choice.selection.replace(":", " ")
            row = f"{choice.target} ({selection})" if selection else str(choice.target)
            found.setdefault(row, {}).setdefault(choice.project, []).append(_cell(choice))
    projects = sorted({project for row in found.values() for project in row})
    rows = [
        [plain(row), *(", ".join(cells.get(project, ["–"])) for project in projects)] for row, cells in found.items()
    ]
    return [["target", *projects], *rows]


def _cell(choice: Choice) -> str:
    version = plain(choice.version or choice.wanted or "any")
    known = choice.backend is not None and "+" not in version
    backend = f" ({plain(choice.backend or '')})" if known else ""
    return f"{version}{backend}{' no wheel' if choice.wheel is False else ''}"


def _finding_lines(finding: Finding, text_of: Callable[[str], str | None]) -> list[str]:
    targets = f"{'; '.join(finding.targets)}: " if finding.targets else ""
    lines = [f"{plain(str(finding.place))}: {finding.code} {finding.severity}: {plain(targets + finding.message)}"]
    shown = _patch(finding, text_of)
    body = shown.splitlines()[2:] if shown else finding.fix.paste.splitlines()
    other = {edit.place.path for edit in finding.fix.edits if shown} - {finding.place.path}
    body = [*(f"{path}:" for path in other), *body]
    return lines + [f"    {plain(line)}" for line in body if not line.startswith("@@")]


def _patch(finding: Finding, text_of: Callable[[str], str | None]) -> str | None:
    from metawheel.doctor.fixes import patch

    paths = {edit.place.path for edit in finding.fix.edits}
    if len(paths) != 1:
        return None
    path = paths.pop()
    text = text_of(path)
    return patch(text, path, finding.fix.edits) if text is not None else None


def doctor_json(report: Report, applied: Sequence[Applied], text_of: Callable[[str], str | None]) -> dict[str, Any]:
    return {
        "ok": not report.findings,
        "files": list(report.files),
        "targets": [
            {"platform": target.name, "python": f"{target.python}{'t' if target.free_threaded else ''}"}
            for target in report.targets
        ],
        "builds": [
            {
                "by": choice.by,
                "selection": choice.selection or None,
                "platform": choice.target.name,
                "python": choice.target.python,
                "project": choice.project,
                "version": choice.version,
                "wanted": choice.wanted or None,
                "backend": choice.backend,
                "file": choice.filename,
                "wheel": choice.wheel,
            }
            for choice in report.choices
        ],
        "findings": [
            {
                "code": finding.code,
                "title": finding.title,
                "severity": finding.severity,
                "file": finding.place.path,
                "line": finding.place.line,
                "message": finding.message,
                "targets": list(finding.targets),
                "fix": {"paste": finding.fix.paste, "patch": _patch(finding, text_of), "safe": finding.fix.safe},
            }
            for finding in report.findings
        ],
        "fixed": [{"file": item.path, "backup": item.backup, "edits": item.edits} for item in applied],
    }
