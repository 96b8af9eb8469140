"""The command line: the only module that prints. What is heavy is imported when a command needs it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel import __version__
from metawheel.errors import MetawheelError

if TYPE_CHECKING:
    from metawheel.family import Family
    from metawheel.upstream.http import Fetcher, Mirror

app = typer.Typer(
    help="Build thin wrapper distributions that pin the right PyTorch or JAX build on every platform.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130  # what typer, too, makes of Ctrl-C

Packages = Annotated[
    Path | None,
    typer.Option("--packages", help="Folder of the families.  [default: packages/ here or above]", show_default=False),
]
Mirrors = Annotated[
    list[str] | None,
    typer.Option(
        "--mirror",
        metavar="FROM=TO",
        help="Use TO, a URL or a folder, for addresses that begin with FROM ('pypi' for PyPI's index). Repeatable.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Flavour = Annotated[str, typer.Option(help="Requirement lines: pinned or direct.")]
Unhashed = Annotated[bool, typer.Option("--allow-unhashed", help="Take upstream files that have no sha256.")]


def main() -> None:
    """Run the command line; a failure becomes one message and its own exit code."""
    try:
        app()
    except MetawheelError as error:
        _error(str(error))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        _error("stopped; what was being written is as it was before")
        if threading.active_count() > 1:  # threads that wait for a server would be waited for
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(1)


def _error(message: str) -> None:
    typer.echo(f"metawheel: error: {message}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"metawheel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
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
    from metawheel import report
    from metawheel.errors import LedgerError
    from metawheel.sync import Synced, fetch_pages, hash_missing_of, sync_family, today, update_headlines

    if check and hash_missing:
        raise typer.BadParameter("writes what --check must not", param_hint="--hash-missing")
    found = _families(packages, families)
    fetcher = _fetcher(mirror)
    with _progress("pages") as progress:
        fetch_pages(found, fetcher, progress)
    results = []
    with _progress("families") as progress:
        for number, family in enumerate(found, start=1):
            results.append(sync_family(family, fetcher, today(), write=not check))
            progress(number, len(found))
    if hash_missing:
        for number, family in enumerate(found):
            if results[number].error is None:
                with _downloads() as on_bytes:
                    results[number] = results[number].and_then(hash_missing_of(family, fetcher, on_bytes))
    failures = [result for result in results if result.error is not None]
    headlines: list[str] = []
    try:
        headlines = update_headlines(_families(packages, None), write=not check)
    except LedgerError as error:
        if not failures:
            failures.append(Synced(family="the family folders' projects", error=error))
    _print(report.sync_json(results, headlines) if as_json else report.sync_text(results, headlines, check))
    for failure in failures:
        kept = "" if failure.changed else "; its ledger is as it was"
        _error(f"{failure.family}: {failure.error}{kept}")
    code = max((failure.error.exit_code for failure in failures if failure.error is not None), default=0)
    if code == 0 and check and (headlines or any(result.changed for result in results)):
        code = 1
    raise typer.Exit(code)


@app.command()
def build(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the site.")],
    families: Annotated[list[str] | None, typer.Argument(metavar="[FAMILY]...", show_default=False)] = None,
    flavour: Flavour = "pinned",
    allow_unhashed: Unhashed = False,
    projects: Annotated[
        Path | None, typer.Option(help="Also leave every wrapper's project in this folder.", show_default=False)
    ] = None,
    mirror: Mirrors = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask PyPI where its files are.")] = False,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Build the site: the wrappers, and the index that serves them."""
    from metawheel import report
    from metawheel.build import Options, make_plan, write_projects
    from metawheel.build import build as build_site

    found = _families(packages, families)
    options = Options(
        flavour=_flavour(flavour), allow_unhashed=allow_unhashed, mirrors=_mirrors(mirror), offline=offline
    )
    with _progress("wrappers") as progress:
        built = build_site(found, output, options, lambda: _fetcher(mirror, patient=False), progress)
    if projects is not None:
        write_projects(make_plan(found, options).wrappers, projects)
    _print(report.build_json(built, output) if as_json else report.build_text(built, output))
    if built.pypi_error is not None and built.incomplete:
        typer.echo(f"metawheel: warning: {report.incomplete(built)}", err=True)


@app.command()
def relabel(
    builds: Annotated[list[str], typer.Argument(metavar="PROJECT==VERSION...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the relabelled wheels.")],
    url: Annotated[str, typer.Option(help="Where that folder will be served.")],
    system: Annotated[
        list[str] | None,
        typer.Option(help="Only builds for this sys_platform, such as darwin. Repeatable.", show_default=False),
    ] = None,
    mirror: Mirrors = None,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Give plain builds a local version label, for a site that hosts files itself."""
    from metawheel import report
    from metawheel.relabel import find_plain
    from metawheel.relabel import relabel as relabel_all
    from metawheel.sync import today, update_headlines

    found = find_plain(_families(packages, None), builds, system or ())
    with _downloads() as on_bytes:
        made = relabel_all(found, output, url, _fetcher(mirror), today(), on_bytes)
    update_headlines(_families(packages, None))
    _print(report.relabel_json(made) if as_json else report.relabel_text(made, output))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME[==VERSION]")],
    flavour: Flavour = "pinned",
    allow_unhashed: Unhashed = False,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Show what a wrapper covers: which build each interpreter gets on each platform, and what is left out."""
    from metawheel import report
    from metawheel.build import Options, make_plan
    from metawheel.show import find

    options = Options(flavour=_flavour(flavour), allow_unhashed=allow_unhashed)
    shown = find(make_plan(_families(packages, None), options), name)
    _print(report.show_json(shown) if as_json else report.show_text(shown))


@app.command()
def check(
    site: Annotated[Path, typer.Argument(metavar="SITE")],
    as_json: Json = False,
) -> None:
    """Prove a site: every page, hash, METADATA and requirement line is as promised."""
    from metawheel import report
    from metawheel.check import check_site

    findings = check_site(site)
    _print(report.check_json(findings) if as_json else report.check_text(findings, site))
    raise typer.Exit(1 if findings else 0)


def _print(value: str | dict[str, Any]) -> None:
    typer.echo(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=True))


def _families(packages: Path | None, names: list[str] | None) -> tuple[Family, ...]:
    from metawheel.family import find_packages, load_families

    return load_families(packages or find_packages(Path.cwd()), names or ())


def _flavour(value: str) -> str:
    from metawheel.plan import FLAVOURS

    if value not in FLAVOURS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(FLAVOURS)}", param_hint="--flavour")
    return value


def _mirrors(values: list[str] | None) -> tuple[Mirror, ...]:
    from metawheel.upstream.http import Mirror

    try:
        return tuple(Mirror.parse(value) for value in values or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--mirror") from None


def _fetcher(mirror: list[str] | None, *, patient: bool = True) -> Fetcher:
    from metawheel.upstream.http import Fetcher

    if patient:
        return Fetcher(_mirrors(mirror))
    return Fetcher(_mirrors(mirror), timeout=(3.0, 15.0), retries=0)


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe; gives a function of (done, total)."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _downloads() -> Iterator[Any]:
    """A progress bar for each running download on a terminal; gives a function of (name, done, total bytes)."""
    if not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def update(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total, visible=total is None or done < total)

        yield update
