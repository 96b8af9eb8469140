"""`metawheel sync`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from packaging.version import Version

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
    from metawheel.ledger import Change
    from metawheel.model import Problem
    from metawheel.sync import Synced


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
    from metawheel.errors import LedgerError
    from metawheel.sync import Synced, fetch_pages, hash_missing_of, sync_family, today, update_headlines

    if check and hash_missing:
        raise typer.BadParameter("writes what --check must not", param_hint="--hash-missing")
    found = families_of(packages, families)
    fetcher = fetcher_of(mirror)
    with progress_bar("pages") as progress:
        fetch_pages(found, fetcher, progress)
    results = []
    with progress_bar("families") as progress:
        for number, family in enumerate(found, start=1):
            results.append(sync_family(family, fetcher, today(), write=not check))
            progress(number, len(found))
    if hash_missing:
        for number, family in enumerate(found):
            if results[number].error is None:
                with download_bars() as on_bytes:
                    results[number] = results[number].and_then(hash_missing_of(family, fetcher, on_bytes))
    failures = [result for result in results if result.error is not None]
    headlines: list[str] = []
    try:
        headlines = update_headlines(families_of(packages, None), write=not check)
    except LedgerError as error:
        if not failures:
            failures.append(Synced(family="the family folders' projects", error=error))
    print_result(sync_json(results, headlines) if as_json else sync_text(results, headlines, check))
    for failure in failures:
        kept = "" if failure.changed else "; its ledger is as it was"
        print_error(f"{failure.family}: {failure.error}{kept}")
    code = max((failure.error.exit_code for failure in failures if failure.error is not None), default=0)
    if code == 0 and check and (headlines or any(result.changed for result in results)):
        code = 1
    raise typer.Exit(code)


def sync_text(results: Iterable[Synced], headlines: Sequence[str], check: bool) -> str:
    lines = []
    for result in results:
        if result.error is not None and not result.changes:
            continue
        kinds = Counter(change.kind for change in result.changes)
        summary = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        if not summary:
            summary = "other facts changed" if result.changed else "no change; nothing written"
        lines.append(f"{result.family}: {summary}")
        lines += [f"  {line}" for line in _by_build(result.changes)]
        lines += [f"  not read: {plain(p.item)} ({plain(p.reason)}) on {p.url}" for p in result.problems]
    lines += [f"{'would write' if check else 'wrote'} {path}" for path in headlines]
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


def sync_json(results: Iterable[Synced], headlines: Sequence[str]) -> dict[str, Any]:
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
            for result in results
        ],
        "projects": list(headlines),
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
