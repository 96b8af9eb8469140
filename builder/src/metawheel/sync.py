"""`metawheel sync`: bring the ledgers up to date with what upstream lists."""

from __future__ import annotations

import csv
import functools
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from metawheel import ledger, released
from metawheel.errors import (
    FamilyError,
    LedgerError,
    MetawheelError,
    OutputError,
    SourceError,
    Unparsable,
    UpstreamAlarm,
)
from metawheel.family import HASHES_FILE, Family
from metawheel.files import sha256_of
from metawheel.headline import write_headlines
from metawheel.ledger import Change
from metawheel.model import Problem, UpstreamFile
from metawheel.parallel import threads
from metawheel.plan import plan
from metawheel.upstream.download import downloaded
from metawheel.upstream.http import Fetcher
from metawheel.upstream.metadata import add_requirements
from metawheel.upstream.sources import Reader, addresses, read_upstream, wants

PARALLEL_PAGES = 8
PARALLEL_DOWNLOADS = 4

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a sync did, or would do, to one family's ledger."""

    family: str
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()
    links: int = 0  # links to wheels that the family's pages hold
    error: MetawheelError | None = None
    changed: bool = False  # the ledger's content differs from what is on disk

    def and_then(self, later: Synced) -> Synced:
        """This and a later step on the same family as one result."""
        return replace(
            self,
            changes=self.changes + later.changes,
            error=self.error or later.error,
            changed=self.changed or later.changed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRun:
    """What a sync did, or would do, to all families asked for."""

    results: tuple[Synced, ...]
    projects: tuple[str, ...] = ()  # files of the family folders' projects that differ
    failures: tuple[Synced, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.projects) or any(result.changed for result in self.results)

    @property
    def exit_code(self) -> int:
        return max((failure.error.exit_code for failure in self.failures if failure.error is not None), default=0)


def sync_all(
    families: Sequence[Family],
    every: Iterable[Family],
    fetcher: Fetcher,
    today: str,
    *,
    pages: Progress = lambda done, total: None,
    ledgers: Progress = lambda done, total: None,
    on_bytes: Callable[[str, int, int | None], None] | None = None,
    write: bool = True,
) -> SyncRun:
    """Sync some families' ledgers, then bring the projects in the folders of `every` family up to date.

    With `on_bytes`, files without sha256 are downloaded, too. A family that fails keeps its ledger; the others go on.
    """
    _fetch_pages(families, fetcher, pages)
    reader = Reader(fetcher)
    results = []
    for number, family in enumerate(families, start=1):
        results.append(_sync_family(family, reader, fetcher, today, write=write))
        ledgers(number, len(families))
    if on_bytes is not None:
        for number, family in enumerate(families):
            if results[number].error is None:
                results[number] = results[number].and_then(hash_missing_of(family, fetcher, on_bytes))
    failures = [result for result in results if result.error is not None]
    projects: list[str] = []
    try:
        projects = update_headlines(every, write=write)
    except LedgerError as error:
        if not failures:
            failures.append(Synced(family="the family folders' projects", error=error))
    return SyncRun(results=tuple(results), projects=tuple(projects), failures=tuple(failures))


def _fetch_pages(families: Iterable[Family], fetcher: Fetcher, progress: Progress) -> None:
    """Fetch all pages at once; what fails is met again, by its own family, when that reads it."""
    urls = list(dict.fromkeys(url for family in families for url in addresses(family)))
    with threads(PARALLEL_PAGES) as pool:
        futures = [pool.submit(fetcher.page, url) for url in urls]
        for done, future in enumerate(as_completed(futures), start=1):
            future.exception()
            progress(done, len(urls))


def _sync_family(family: Family, reader: Reader, fetcher: Fetcher, today: str, *, write: bool) -> Synced:
    """Read a family's sources and update its ledger; with an error nothing of the ledger changes."""
    try:
        known = ledger.load(family.ledger_path) if family.ledger_path.exists() else ()
        upstream = read_upstream(family, reader)
        listed = _with_recorded_hashes(family, upstream.files)
        # What a narrower family no longer wants is not lost; what is ours alone, relabelled builds, stays.
        sources = {source.name for source in family.source}
        known = tuple(f for f in known if f.upstream_sha256 or f.source not in sources or wants(family, f))
        files, changes = ledger.merge(known, listed, upstream.pages, today)
        files, unpaired = add_requirements(family, files, fetcher)
        changed = ledger.save(family.ledger_path, files, write=write)
    except MetawheelError as error:
        return Synced(family=family.name, error=error)
    return Synced(
        family=family.name,
        changes=changes,
        problems=upstream.problems + unpaired,
        links=upstream.links,
        changed=changed,
    )


def _with_recorded_hashes(family: Family, files: Iterable[UpstreamFile]) -> tuple[UpstreamFile, ...]:
    """Add hashes that upstream's pages lack but others have recorded, from hashes.csv (url, sha256)."""
    path = family.folder / HASHES_FILE
    recorded: dict[str, str] = {}
    if path.exists():
        try:
            rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise FamilyError(f"{path}: cannot be read: {error}") from None
        for row in rows:
            if not row.get("url") or not re.fullmatch(r"[0-9a-f]{64}", row.get("sha256") or ""):
                raise FamilyError(f"{path}: every line needs a url and a sha256 of 64 hex digits; one has {row}")
            recorded[row["url"]] = row["sha256"]

    def hashed(item: UpstreamFile) -> UpstreamFile:
        sha256 = recorded.get(item.url or "")
        if sha256 is None or item.sha256 == sha256:
            return item
        if item.sha256 is not None:
            raise UpstreamAlarm(str(path), f"states {sha256} for {item.filename}, upstream's page {item.sha256}")
        return replace(item, sha256=sha256, sha256_from="recorded")

    return tuple(hashed(item) for item in files)


def hash_missing_of(family: Family, fetcher: Fetcher, on_bytes: Callable[[str, int, int | None], None]) -> Synced:
    """Download every file that has no sha256 and record the computed one; each is saved as soon as it is known.

    `on_bytes` gets a file's name, the bytes so far and the whole number of bytes, where known.
    """
    try:
        files = {(file.filename, file.source, file.url): file for file in ledger.load(family.ledger_path)}
    except MetawheelError as error:
        return Synced(family=family.name, error=error)
    missing = {key: file for key, file in files.items() if file.sha256 is None and file.gone is None and file.url}
    changes: list[Change] = []
    failure: MetawheelError | None = None
    try:
        with threads(PARALLEL_DOWNLOADS) as pool:
            futures = {
                pool.submit(_hashed, file, fetcher, functools.partial(on_bytes, file.filename)): key
                for key, file in missing.items()
            }
            for future in as_completed(futures):
                key = futures[future]
                try:
                    files[key] = future.result()
                except SourceError as error:
                    failure = failure or error  # the other files still go on
                    continue
                changes.append(Change(kind="hashed", file=files[key]))
                ledger.save(family.ledger_path, files.values())
    except OutputError as error:
        failure = error
    return Synced(family=family.name, changes=tuple(changes), error=failure, changed=bool(changes))


def _hashed(file: UpstreamFile, fetcher: Fetcher, progress: Callable[[int, int | None], None]) -> UpstreamFile:
    """A file with its sha256 and size, found by downloading it; raises SourceError, also for what is no such wheel."""
    url = file.url or ""
    with downloaded(fetcher, url, progress) as path:
        size = path.stat().st_size
        if file.size not in (None, size):
            raise UpstreamAlarm(url, f"has {size} bytes, the ledger says {file.size}; no sha256 was recorded")
        if not zipfile.is_zipfile(path):
            raise Unparsable(url, "is no wheel; is it an error page, or one to log in on?")
        return replace(file, sha256=sha256_of(path), sha256_from="computed", size=size)


def update_headlines(families: Iterable[Family], *, write: bool = True) -> list[str]:
    """Bring the projects in the family folders up to date with the ledgers; returns the paths that differ.

    Nothing is done while a family has no ledger: what the others may pin depends on all of them.
    """
    families = tuple(families)
    if not all(family.ledger_path.exists() for family in families):
        return []
    ledgers = {family.name: ledger.load(family.ledger_path) for family in families}
    planned = plan(families, ledgers, released={family.name: released.load(family) for family in families})
    return write_headlines(families, planned, write=write)


def today() -> str:
    """The date that a new file's `first_seen` gets: SOURCE_DATE_EPOCH's, or today's (UTC)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise MetawheelError(f"SOURCE_DATE_EPOCH is {epoch!r}: it has to be a number of seconds") from None
    return moment.date().isoformat()
