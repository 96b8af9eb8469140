"""What the commands share: options, families, upstream access, progress and output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.errors import OutputError

if TYPE_CHECKING:
    from metawheel.family import Family
    from metawheel.upstream.http import Fetcher
    from metawheel.upstream.mirrors import Mirror

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
Url = Annotated[str, typer.Option(help="Address that the site will have, for the commands on its pages.")]
Unhashed = Annotated[bool, typer.Option("--allow-unhashed", help="Take upstream files that have no sha256.")]


def print_error(message: str) -> None:
    typer.echo(f"metawheel: error: {message}", err=True)


def print_warning(message: str) -> None:
    typer.echo(f"metawheel: warning: {message}", err=True)


def print_result(value: str | dict[str, Any]) -> None:
    try:
        typer.echo(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=True))
    except BrokenPipeError:
        raise
    except OSError as error:
        # What its buffer holds would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"standard output: cannot be written: {error.strerror}") from None


def families_of(packages: Path | None, names: list[str] | None) -> tuple[Family, ...]:
    from metawheel.family import find_packages, load_families

    return load_families(packages or find_packages(Path.cwd()), names or ())


def flavour_of(value: str) -> str:
    from metawheel.plan import FLAVOURS

    if value not in FLAVOURS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(FLAVOURS)}", param_hint="--flavour")
    return value


def mirrors_of(values: list[str] | None) -> tuple[Mirror, ...]:
    from metawheel.upstream.mirrors import Mirror

    try:
        return tuple(Mirror.parse(value) for value in values or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--mirror") from None


def http_url(value: str, option: str, more: str = "") -> str:
    """An option's value, if it is an address of the web; `more` is what else the option takes."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or len(value.split()) != 1:
        raise typer.BadParameter(f"{value!r} is no http or https URL{more}", param_hint=option)
    return value


def url_of(value: str) -> str:
    return f"{http_url(value, '--url').rstrip('/')}/" if value else ""


def fetcher_of(mirror: list[str] | None, *, patient: bool = True) -> Fetcher:
    from metawheel.upstream.http import Fetcher

    if patient:
        return Fetcher(mirrors_of(mirror))
    return Fetcher(mirrors_of(mirror), timeout=(3.0, 15.0), retries=0)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal, nothing in a pipe; gives a function of (done, total).

    It is there from the first call until all is done, so that the bars of stages which follow each other can share a
    `with`.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    try:
        yield update
    finally:
        bar.stop()


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar for each running download on a terminal; gives a function of (name, done, total bytes)."""
    if not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}

    def update(name: str, done: int, total: int | None) -> None:
        bar.start()
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
        bar.update(tasks[name], completed=done, total=total, visible=total is None or done < total)

    try:
        yield update
    finally:
        bar.stop()


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as lines, with the columns aligned."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def plain(text: str) -> str:
    """Upstream's text on one line that a terminal takes for nothing but text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
