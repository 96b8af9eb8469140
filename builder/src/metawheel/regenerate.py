"""`metawheel regenerate`: follow upstream in one go: sync, build, check; what is published comes after a good check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from packaging.version import Version

from metawheel import ledger
from metawheel.build import Built, build
from metawheel.check import Finding, check_site
from metawheel.family import Family
from metawheel.inputs import Options
from metawheel.ledger import Change
from metawheel.model import Omission, UpstreamFile
from metawheel.sync import Progress, SyncRun, sync_all
from metawheel.upstream.http import Fetcher

Fact = TypeVar("Fact", str, Version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerated:
    """What following upstream came to."""

    synced: SyncRun
    built: Built
    findings: tuple[Finding, ...] = ()
    releases: tuple[tuple[str, str], ...] = ()  # project and version: releases that no ledger had before
    backends: tuple[tuple[str, str], ...] = ()  # project and local version label: builds that no ledger had before
    omissions: tuple[Omission, ...] = ()  # of the releases that changed upstream

    @property
    def changed(self) -> bool:
        return self.synced.changed or not self.built.unchanged

    @property
    def exit_code(self) -> int:
        return 1 if self.findings else self.synced.exit_code


def regenerate(
    families: Sequence[Family],
    site: Path,
    options: Options,
    fetcher: Callable[[], Fetcher],
    today: str,
    *,
    pages: Progress,
    ledgers: Progress,
    wrappers: Progress,
) -> Regenerated:
    """Sync all families, build the site of what the ledgers then say, and prove it. Raises MetawheelError.

    A source that fails stops its own families only: their ledgers, and so their wrappers, stay as they are.
    """
    known = [file for family in families for file in _known(family)]
    synced = sync_all(families, families, fetcher(), today, pages=pages, ledgers=ledgers)
    for failure in synced.failures:
        if failure.error is not None and any(failure.family == f.name and not f.ledger_path.exists() for f in families):
            raise failure.error  # nothing was ever known of this family: a site without it would be no good
    built = build(families, site, options, fetcher, wrappers)
    changes = [change for result in synced.results for change in result.changes]
    added = [change.file for change in changes if change.kind == "added"]
    return Regenerated(
        synced=synced,
        built=built,
        findings=tuple(check_site(site)),
        releases=tuple((project, str(version)) for project, version in _new(added, known, lambda f: f.release)),
        backends=tuple((project, label) for project, label in _new(added, known, lambda f: f.local or "") if label),
        omissions=_concerned(built.omissions or (), changes),
    )


def _known(family: Family) -> tuple[UpstreamFile, ...]:
    return ledger.load(family.ledger_path) if family.ledger_path.exists() else ()


def _new(
    added: Iterable[UpstreamFile], known: Iterable[UpstreamFile], fact: Callable[[UpstreamFile], Fact]
) -> list[tuple[str, Fact]]:
    """What a fact of the added files says that no file of the same project said before."""
    found = {(file.project, fact(file)) for file in added}
    return sorted(found - {(file.project, fact(file)) for file in known})


def _concerned(omissions: Iterable[Omission], changes: Iterable[Change]) -> tuple[Omission, ...]:
    releases = {str(change.file.release) for change in changes}
    found = [omission for omission in omissions if omission.version in releases]
    return tuple(sorted(found, key=lambda o: (o.wrapper, Version(o.version), o.what, o.reason)))
