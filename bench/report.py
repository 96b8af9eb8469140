"""Results as JSON and as a Markdown page. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEAD = """\
# Benchmarks

Written by `python -m bench` (`tox -e bench`) from bench/results.json: ours against what one would use instead, in one
run on one machine. Figures are medians; contenders take turns. In brackets: how many times ours. "processor s" is the
time of all processes together and changes little with other load on the machine, "s" is by the clock; "peak MB" is the
most memory that all processes of a contender had at once (PSS, sampled).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Contenders, ours first, and for each the same figures by column; None where one has no such figure."""

    title: str
    about: str
    rows: Mapping[str, Mapping[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        """As results.json has it."""
        rows = {name: {key: _rounded(value) for key, value in row.items()} for name, row in self.rows.items()}
        return {"title": self.title, "about": self.about, "rows": rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the benchmark: its tables, or why there are none; what was compared, on what."""

    title: str
    tables: Sequence[Table] = ()
    skipped: str | None = None
    versions: Mapping[str, str]
    machine: str

    def to_json(self) -> dict[str, Any]:
        """As results.json has it."""
        return {
            "title": self.title,
            "machine": self.machine,
            "versions": dict(sorted(self.versions.items())),
            "skipped": self.skipped,
            "tables": [table.to_json() for table in self.tables],
        }


def dump(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """The content of results.json."""
    return json.dumps(parts, indent=1, ensure_ascii=False) + "\n"


def markdown(parts: Iterable[Mapping[str, Any]]) -> str:
    """The page, from what results.json holds."""
    lines = [HEAD]
    for part in parts:
        versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
        lines += [f"## {part['title']}", "", f"{part['machine']}; {versions}.", ""]
        if part["skipped"]:
            lines += [f"Not measured: {part['skipped']}.", ""]
        for table in part["tables"]:
            lines += [f"### {table['title']}", "", table["about"], "", *_table(table["rows"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(rows: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    ours = next(iter(rows.values()))
    lines = [f"| | {' | '.join(ours)} |", f"|---|{'---:|' * len(ours)}"]
    for number, (name, row) in enumerate(rows.items()):
        cells = [_cell(row.get(key), None if number == 0 else ours[key]) for key in ours]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _cell(value: float | None, ours: float | None) -> str:
    if value is None:
        return "–"
    if not ours:
        return number(value)
    return f"{number(value)} ({number(value / ours)}x)"


def number(value: float) -> str:
    """For people: three significant digits; from a hundred on whole."""
    return f"{round(value):,}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
