"""Writes docs/clients.md from what the last runs of the scenarios found.

    pytest -m clients tests/clients && python -m tests.clients.report

The runs leave an outcome for each row of the table in the cache of client environments; this joins them with the
table. With --check nothing is written, and the exit status says whether an outcome is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.clients.outcome import Record, recorded
from tests.clients.scenarios import Outcome, Scenario, Table, table

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
HEAD = """\
# Clients

<!-- Written by `python -m tests.clients.report` from what the tests found; edit the files in tests/clients/table. -->

Which set-ups give every platform the right build, which do not, and why. Each row was run with the real client against
a site that `metawheel build` made, upstream's gigabytes replaced by small wheels with the true requirement lines, and
judged for Linux x86_64 and aarch64, macOS arm64 and x86_64, and Windows AMD64 by a reading of the lock of our own.
pip, pip-tools and pipenv lock for one platform; they were run as if on each.

- **right**: each platform gets the build of the wrapper's name; where the wrapper does not cover it, a refusal.
- **refused**: on some platform, or on all, the client ends with an error while locking or installing. Nothing wrong is
  installed.
- ⚠️ **silently wrong**: on some platform an environment without torch, with another build, or with a stranger's
  wrapper, and no error. Do not use these.

**Bytes** are those of pages and METADATA that our site and upstream sent, **wheels** those of wheels that were fetched
to lock (each stand-in is 300 kB); both are for all platforms together.
"""
VERDICT: Mapping[Outcome, str] = {"right": "right", "refused": "refused", "silently wrong": "⚠️ **silently wrong**"}


def render(found: Table, records: Mapping[str, Record]) -> str:
    """The page's text."""
    lines = [HEAD]
    for client, facts in found.clients.items():
        rows = [scenario for scenario in found.scenarios if scenario.client == client]
        known = [records[row.key] for row in rows if row.key in records]
        newest = max(known, key=lambda record: record.date, default=None)
        lines += [f"## {facts['title']}", ""]
        lines += [f"Run with version {newest.version} ({newest.date})." if newest else "Not run."]
        lines += ["", f"**Recommended**: {facts['recommended']}", ""]
        lines += ["| set-up | project | result | requests | bytes | wheels |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [_row(row, records.get(row.key)) for row in rows]
        lines += ["", *_reasons(rows, found), ""]
    return "\n".join(lines).rstrip() + "\n"


def set_up(scenario: Scenario) -> str:
    """A layout as the page names it."""
    recommended = scenario.layout.recommended and (scenario.project.advised or scenario.expect == "right")
    return scenario.layout.title + " (recommended)" * recommended


def _row(scenario: Scenario, record: Record | None) -> str:
    traffic = record.traffic if record else None
    outcome = VERDICT[record.outcome] if record else "not run"
    numbers = (traffic.requests, traffic.page_bytes, traffic.wheel_bytes) if traffic else ("", "", "")
    return f"| {' | '.join([set_up(scenario), scenario.title, outcome, *map(str, numbers)])} |"


def _reasons(rows: Iterable[Scenario], found: Table) -> list[str]:
    by_key = {scenario.key: scenario for scenario in found.scenarios}
    reasons: dict[str, None] = {}
    for row in rows:
        if not row.why:
            continue
        gives = "; ".join(
            f"{key}: {', '.join(build or 'refused' for build in builds)}" for key, builds in row.gives.items()
        )
        warning = "⚠️ **Warning**: " * (row.expect == "silently wrong")
        text = f"- {warning}{row.layout.title}, {row.title}: {row.why}."
        text += f" It gives {gives}." * bool(gives)
        if row.instead:
            other = by_key[row.instead]
            title = found.clients[other.client]["title"]
            text += f" Right instead: {title}, {other.layout.title} ({other.title})."
        reasons[text] = None
    return list(reasons)


def summary(found: Table, records: Mapping[str, Record]) -> list[str]:
    """The table that a test run ends with, a line for each scenario that it ran."""
    lines = []
    for scenario in found.scenarios:
        record = records.get(scenario.key)
        if record is not None:
            traffic = record.traffic
            counts = f"{traffic.requests:>4} requests {traffic.page_bytes:>8} B {traffic.wheel_bytes:>8} B of wheels"
            lines.append(f"{scenario.key:<52} {record.version:<10} {record.outcome:<14} {counts}")
    return lines


def _is_current(scenario: Scenario, record: Record | None) -> bool:
    # A row that was edited since says something else than its last run did.
    return record is not None and record.outcome == scenario.expect


def main(arguments: list[str]) -> int:
    """Write the page, or check that every outcome is there."""
    found, records = table(), recorded()
    records = {row.key: records[row.key] for row in found.scenarios if _is_current(row, records.get(row.key))}
    missing = [scenario.key for scenario in found.scenarios if scenario.key not in records]
    for key in missing:
        sys.stderr.write(f"{key}: not run\n")
    if "--check" not in arguments:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(render(found, records), encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
