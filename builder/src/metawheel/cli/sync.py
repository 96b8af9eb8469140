"""`metawheel sync`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import (
    Json,
    Mirrors,
    Packages,
    columns,
    download_bars,
    families_of,
    fetcher_of,
    plain,
    print_error,
    print_result,
    progress_bar,
)

if TYPE_CHECKING:
    from packaging.version import Version

    from metawheel.ledger import Change
    from metawheel.model import Problem
    from metawheel.sync import SyncRun


def sync(
    families: Annotated[list[str] | None, typer.Argument(metavar="[FAMILY]...", show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if there is something new.")] = False,
    hash_missing: Annotated[
        bool, typer.Option("--hash-missing", help="Also download what has no sha256, to compute it.")
    ] = False,
    mirror: Mirrors = None,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Bring the ledgers up to date with what upstream lists."""
    from metawheel.sync import sync_all, today

    if check and hash_missing:
        raise typer.BadParameter("writes what --check must not", param_hint="--hash-missing")
    with progress_bar("pages") as pages, progress_bar("families") as ledgers, download_bars() as on_bytes:
        run = sync_all(
            families_of(packages, families),
            families_of(packages, None),
            fetcher_of(mirror),
            today(),
            pages=pages,
            ledgers=ledgers,
            on_bytes=on_bytes if hash_missing else None,
            write=not check,
        )
    print_result(sync_json(run) if as_json else sync_text(run, check=check))
    print_failures(run)
    raise typer.Exit(run.exit_code or int(check and run.changed))


def print_failures(run: SyncRun) -> None:
    for failure in run.failures:
        kept = "" if failure.changed else "; its ledger is as it was"
        print_error(f"{failure.family}: {failure.error}{kept}")


def sync_text(run: SyncRun, *, check: bool = False) -> str:
    lines = []
    for result in run.results:
        if result.error is not None and not result.changes:
            continue
        kinds = Counter(change.kind for change in result.changes)
        summary = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        if not summary:
            summary = "other facts changed" if result.changed else "no change; nothing written"
        lines.append(f"{result.family}: {summary}")
        lines += [f"  {line}" for line in _by_build(result.changes)]
        lines += [f"  not read: {plain(p.item)} ({plain(p.reason)}) on {p.url}" for p in result.problems]
    lines += [f"{'would write' if check else 'wrote'} {path}" for path in run.projects]
    return "\n".join(lines)


def _by_build(changes: Iterable[Change]) -> list[str]:
    """A line for each project, version and backend: what changed there."""
    counts: dict[tuple[str, Version, str], Counter[str]] = {}
    for change in changes:
        file = change.file
        key = (file.project, file.release, file.local or "plain")
        counts.setdefault(key, Counter())[change.kind] += 1
    if not counts:
        return []
    return columns(
        [
            [project, str(version), build, ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))]
            for (project, version, build), found in sorted(counts.items())
        ]
    )


def sync_json(run: SyncRun) -> dict[str, Any]:
    return {
        "families": [
            {
                "family": result.family,
                "changed": result.changed,
                "changes": [_change(change) for change in result.changes],
                "problems": [_problem(problem) for problem in result.problems],
                "error": None
                if result.error is None
                else {
                    "kind": type(result.error).__name__,
                    "exit_code": result.error.exit_code,
                    "message": str(result.error),
                },
            }
            for result in run.results
        ],
        "projects": list(run.projects),
    }


def _change(change: Change) -> dict[str, Any]:
    file = change.file
    return {
        "kind": change.kind,
        "project": file.project,
        "version": str(file.release),
        "local": file.local,
        "file": file.filename,
        "url": file.url,
        "sha256": file.sha256,
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {"url": problem.url, "item": problem.item, "reason": problem.reason}
