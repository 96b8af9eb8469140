"""`metawheel check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, print_result

if TYPE_CHECKING:
    from metawheel.check import Finding


def check(
    site: Annotated[Path, typer.Argument(metavar="SITE")],
    as_json: Json = False,
) -> None:
    """Prove a site: every page, hash, METADATA and requirement line is as promised."""
    from metawheel.check import check_site

    findings = check_site(site)
    print_result(check_json(findings) if as_json else check_text(findings, site))
    raise typer.Exit(1 if findings else 0)


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
