"""Findings as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format")."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from metawheel import __version__
from metawheel.doctor.codes import RULES
from metawheel.doctor.examine import Report
from metawheel.doctor.model import Edit, Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_BASE = "PROJECT"


def sarif(report: Report, text_of: Callable[[str], str | None]) -> dict[str, Any]:
    """A log of one run; `text_of` gives a file's text, from which the columns of fixes are counted."""
    numbers = {rule.code: number for number, rule in enumerate(RULES)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "metawheel doctor",
                        "version": __version__,
                        "rules": [
                            {
                                "id": rule.code,
                                "name": _pascal(rule.title),
                                "shortDescription": {"text": rule.title},
                                "fullDescription": {"text": (rule.check.__doc__ or rule.title).partition(": ")[2]},
                                "defaultConfiguration": {"level": rule.severity},
                            }
                            for rule in RULES
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, numbers, text_of) for finding in report.findings],
            }
        ],
    }


def _pascal(title: str) -> str:
    return "".join(word.capitalize() for word in title.replace("'", "").replace(",", "").split())


def _result(finding: Finding, numbers: Mapping[str, int], text_of: Callable[[str], str | None]) -> dict[str, Any]:
    where = f"{'; '.join(finding.targets)}: " if finding.targets else ""
    text = f"{where}{finding.message}."
    advice = finding.fix.paste or "; ".join(f"{edit.old} → {edit.new or '(remove)'}" for edit in finding.fix.edits)
    identity = f"{finding.code} {finding.place.path} {finding.message}"
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": numbers[finding.code],
        "level": finding.severity,
        "message": {"text": f"{text}\nFix: {advice}" if advice else text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _location(finding.place.path),
                    "region": {"startLine": max(1, finding.place.line)},
                }
            }
        ],
        "partialFingerprints": {"finding/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]},
    }
    replacements = [_replacement(edit, text_of(edit.place.path)) for edit in finding.fix.edits]
    if replacements and all(item is not None for item in replacements):
        result["fixes"] = [
            {
                "artifactChanges": [
                    {
                        "artifactLocation": _location(finding.fix.edits[0].place.path),
                        "replacements": replacements,
                    }
                ]
            }
        ]
    return result


def _location(path: str) -> dict[str, str]:
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(path), "uriBaseId": _BASE}


def _replacement(edit: Edit, text: str | None) -> dict[str, Any] | None:
    lines = text.split("\n") if text is not None else []
    if not 0 < edit.place.line <= len(lines) or lines[edit.place.line - 1].count(edit.old) != 1:
        return None
    if edit.new is None:  # the whole line, its end too
        after = {"endLine": edit.place.line + 1, "endColumn": 1}
        return {"deletedRegion": {"startLine": edit.place.line, "startColumn": 1, **after}}
    line = lines[edit.place.line - 1]
    start = line.index(edit.old) + 1
    region = {"startLine": edit.place.line, "startColumn": start, "endColumn": start + len(edit.old)}
    return {"deletedRegion": region, "insertedContent": {"text": edit.new}}
