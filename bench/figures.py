"""The figures in README.md and docs/: each stands between two marks, and is what results.json has. Pure.

`<!-- bench: NAME -->…<!-- /bench -->`, with a NAME of FIGURES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import number

PAGES = ("README.md", "docs/doctor.md", "docs/serve.md")
_MARKED = re.compile(r"(<!-- bench: (\S+) -->)((?:(?!<!-- /?bench).)*)(<!-- /bench -->)", re.DOTALL)
_MARK = re.compile(r"<!-- /?bench.*")


class FigureError(Exception):
    """A page asks for a figure that there is not."""


@dataclass(frozen=True, slots=True)
class Results:
    """What results.json holds."""

    parts: Mapping[str, Any]

    def figure(self, part: str, table: str, row: str, column: str) -> float:
        """One figure of a table. Raises FigureError."""
        found = self.parts.get(part, {})
        tables = {table["title"]: table["rows"] for table in found.get("tables", ())}
        value: float | None = tables.get(table, {}).get(row, {}).get(column)
        if value is None:
            why = f": {found['skipped']}" if found.get("skipped") else ""
            raise FigureError(f"{part} / {table} / {row} / {column} was not measured{why}")
        return value

    def shown(self, part: str, table: str, row: str, column: str, unit: str = "") -> str:
        """The same as people read it."""
        return number(self.figure(part, table, row, column)) + (f" {unit}" if unit else "")


def filled(page: str, results: Mapping[str, Any]) -> str:
    """A page with every figure as the results have it. Raises FigureError, which names the mark."""
    whole = Results(results)

    def fill(found: re.Match[str]) -> str:
        begin, name, old, end = found.groups()
        if name not in FIGURES:
            raise FigureError(f"there is no figure {name}; there are {', '.join(FIGURES)}")
        around = "\n" if "\n" in old else ""  # a block's marks have lines of their own
        return f"{begin}{around}{FIGURES[name](whole)}{around}{end}"

    if (lone := _MARK.search(_MARKED.sub("", page))) is not None:
        raise FigureError(f"a mark without its other half: {lone[0]}")
    return _MARKED.sub(fill, page)


def _locking(results: Results) -> str:
    ways = {
        "wrapper": "our wrapper",
        "extra index with hashes": "extra source, primary, hashes",
        "wheel URLs": "wheel URLs",
    }
    rows = [["wheels downloaded, time", *ways]]
    for client in ("uv", "poetry"):
        cells = (
            f"{results.shown('lock', client, way, 'wheels, MB', 'MB')}, {results.shown('lock', client, way, 's', 's')}"
            for way in ways.values()
        )
        rows.append([f"`{client} lock`", *cells])
    return _table(rows)


def _running(results: Results) -> str:
    sync = ("sync", "A sync with nothing new", "nothing new")
    page = ("serve", "The page of torch-cpu", "metawheel serve")
    asked = f"{results.shown(*sync, 'requests')} requests, {results.shown(*sync, 'bytes')} bytes of pages"
    wrappers = results.shown("emit", "As versions grow", "1 times", "wrappers")

    def built(row: str) -> str:
        return results.shown("emit", "After one new release", row, "s", "s")

    return _table(
        [
            ["command", "measured"],
            [f"`build` of all {wrappers} wrappers of the committed ledgers", built("from nothing")],
            ["`build` after one new release of PyTorch", built("one new release")],
            ["`build` with nothing new", built("nothing new")],
            ["`sync` of `torch-cpu` and `torch-cuda` with nothing new", f"{results.shown(*sync, 's', 's')}, {asked}"],
            ["`doctor` on a uv.lock of 5,000 packages", _doctor("5,000")(results)],
            ["`serve`, the page of `torch-cpu` to 50 clients", results.shown(*page, "pages/s at 50", "pages a second")],
        ]
    )


def _doctor(packages: str) -> Callable[[Results], str]:
    return lambda results: results.shown("doctor", f"uv.lock, {packages} packages", "metawheel doctor", "s", "s")


def _pages_a_second(row: str) -> Callable[[Results], str]:
    return lambda results: results.shown("serve", "The page of torch-cpu", row, "pages/s at 50")


def _memory(results: Results) -> str:
    return results.shown("serve", "The page of torch-cpu", "metawheel serve", "MB at last", "MB")


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(rows[0]) - 1), *lines[1:]])


FIGURES: Mapping[str, Callable[[Results], str]] = {
    "locking": _locking,
    "running": _running,
    "doctor-500": _doctor("500"),
    "doctor-5000": _doctor("5,000"),
    "serve-pages": _pages_a_second("metawheel serve"),
    "serve-files": _pages_a_second("uvicorn, files"),
    "serve-pypiserver": _pages_a_second("pypiserver"),
    "serve-devpi": _pages_a_second("devpi"),
    "serve-memory": _memory,
}
