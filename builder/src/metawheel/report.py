"""What the commands print, for people and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from metawheel.build import Built
from metawheel.check import Finding
from metawheel.coverage import coverage, platform_name, table
from metawheel.ledger import Change
from metawheel.model import Problem, UpstreamFile
from metawheel.show import Shown
from metawheel.sync import Synced


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as lines, with the columns aligned."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def plain(text: str) -> str:
    """Upstream's text on one line that a terminal takes for nothing but text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


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


def build_text(built: Built, site: Path) -> str:
    if built.unchanged:
        return f"{site}: nothing changed; {built.wheels} wheels, not a file touched"
    names = {wrapper.name for wrapper in built.wrappers}
    lines = [
        (
            f"{site}: {len(built.wrappers)} versions of {len(names)} wrappers in {built.wheels} wheels"
            f" ({built.built} built, {built.wheels - built.built} as before); {len(built.changed)} files changed"
        )
    ]
    left = {(omission.wrapper, omission.version) for omission in built.omissions}
    if left:
        lines.append(f"left out in part or whole: {len(left)} versions; `metawheel show NAME==VERSION` says why")
    return "\n".join(lines)


def incomplete(built: Built) -> str:
    return (
        f"{built.pypi_error}, so these pages lack the files that it hosts: "
        f"{', '.join(built.incomplete)}. uv looks no further than the first index that has a page, so it does not "
        "find them; build again when PyPI can be reached"
    )


def build_json(built: Built, site: Path) -> dict[str, Any]:
    return {
        "site": str(site),
        "unchanged": built.unchanged,
        "wheels": built.wheels,
        "built": built.built,
        "changed": list(built.changed),
        "incomplete": list(built.incomplete),
        "pypi_error": built.pypi_error,
        "wrappers": [wrapper.key for wrapper in built.wrappers],
        "omissions": [
            {"wrapper": o.wrapper, "version": o.version, "what": o.what, "reason": o.reason} for o in built.omissions
        ],
    }


def relabel_text(made: Sequence[UpstreamFile], folder: Path) -> str:
    if not made:
        return "nothing to relabel: every plain build asked for has a label already"
    return "\n".join([*(file.filename for file in made), f"{len(made)} wheels in {folder}; ledgers brought up to date"])


def relabel_json(made: Sequence[UpstreamFile]) -> dict[str, Any]:
    return {
        "relabelled": [
            {"file": file.filename, "url": file.url, "sha256": file.sha256, "upstream_sha256": file.upstream_sha256}
            for file in made
        ]
    }


def show_text(shown: Shown) -> str:
    lines = [f"{shown.name} {shown.version}"]
    wrapper = shown.wrapper
    if wrapper is not None:
        lines += [wrapper.summary, ""]
        if wrapper.yanked is not None:
            lines += [f"yanked upstream: {plain(wrapper.yanked)}", ""]
        lines += columns(table(coverage(wrapper)))
        lines += ["", f"Requires-Python {wrapper.requires_python}"]
        lines += [f"Requires-Dist {line}" for line in wrapper.requires]
        for extra, found in wrapper.extras:
            lines += [f"[{extra}] {line}" for line in found]
        lines += ["", "wheels:", *(f"  {name}" for name in wrapper.wheels)]
    else:
        lines.append("is not emitted.")
    if shown.omissions:
        lines += ["", "left out:", *(f"  {o.what}: {plain(o.reason)}" for o in shown.omissions)]
    if len(shown.versions) > 1:
        lines += ["", f"versions: {', '.join(shown.versions)}"]
    return "\n".join(lines)


def show_json(shown: Shown) -> dict[str, Any]:
    wrapper = shown.wrapper
    data: dict[str, Any] = {"name": shown.name, "version": shown.version, "emitted": wrapper is not None}
    if wrapper is not None:
        found = coverage(wrapper)
        data |= {
            "requires_python": wrapper.requires_python,
            "requires_dist": list(wrapper.requires),
            "extras": {extra: list(lines) for extra, lines in wrapper.extras},
            "wheels": list(wrapper.wheels),
            "yanked": wrapper.yanked,
            "coverage": [
                {
                    "platform": platform_name(platform),
                    "sys_platform": platform.sys_platform,
                    "platform_machine": platform.machine,
                    "builds": dict(zip(found.interpreters, row, strict=True)),
                }
                for platform, row in found.rows
            ],
        }
    data["omissions"] = [{"what": omission.what, "reason": omission.reason} for omission in shown.omissions]
    data["versions"] = list(shown.versions)
    return data


def check_text(findings: Sequence[Finding], site: Path) -> str:
    if not findings:
        return f"{site}: every promise holds"
    return "\n".join(
        [*(f"{finding.where}: {finding.what}" for finding in findings), f"{site}: {len(findings)} broken promises"]
    )


def check_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "ok": not findings,
        "findings": [{"where": finding.where, "what": finding.what} for finding in findings],
    }
