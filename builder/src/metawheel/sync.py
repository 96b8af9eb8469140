"""`metawheel sync`: bring the ledgers up to date with what upstream lists."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from metawheel import ledger
from metawheel.errors import FamilyError, LedgerError, MetawheelError, OutputError, UpstreamAlarm
from metawheel.family import HASHES_FILE, Family
from metawheel.ledger import Change
from metawheel.model import Problem, UpstreamFile
from metawheel.upstream.http import Fetcher
from metawheel.upstream.metadata import add_requirements
from metawheel.upstream.sources import addresses, read_upstream

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


def fetch_pages(families: Iterable[Family], fetcher: Fetcher, progress: Progress) -> None:
    """Fetch all pages at once; what fails is met again, by its own family, when that reads it."""
    urls = list(dict.fromkeys(url for family in families for url in addresses(family)))
    with ThreadPoolExecutor(PARALLEL_PAGES) as pool:
        futures = [pool.submit(fetcher.page, url) for url in urls]
        for done, future in enumerate(as_completed(futures), start=1):
            future.exception()
            progress(done, len(urls))


def sync_family(family: Family, fetcher: Fetcher, today: str, *, write: bool = True) -> Synced:
    """Read a family's sources and update its ledger; with an error nothing of the ledger changes."""
    try:
        known = ledger.load(family.ledger_path) if family.ledger_path.exists() else ()
        upstream = read_upstream(family, fetcher)
        listed = _with_recorded_hashes(family, upstream.files)
        files, changes = ledger.merge(known, listed, upstream.pages, today)
        files, unpaired = add_requirements(family, files, fetcher)
        changed = _save(family, files, write)
    except MetawheelError as error:
        return Synced(family=family.name, error=error)
    return Synced(
        family=family.name,
        changes=changes,
        problems=upstream.problems + unpaired,
        links=upstream.links,
        changed=changed,
    )


def _save(family: Family, files: Iterable[UpstreamFile], write: bool) -> bool:
    if write:
        return ledger.save(family.ledger_path, files)
    path = family.ledger_path
    return not path.exists() or path.read_bytes() != ledger.dump(files)


def _with_recorded_hashes(family: Family, files: Iterable[UpstreamFile]) -> tuple[UpstreamFile, ...]:
    """Add hashes that upstream's pages lack but others have recorded, from hashes.csv (url, sha256)."""
    path = family.folder / HASHES_FILE
    recorded: dict[str, str] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if not row.get("url") or len(row.get("sha256") or "") != 64:
                    raise FamilyError(f"{path}: every line needs a url and a sha256 of 64 digits; one has {row}")
                recorded[row["url"]] = row["sha256"]
    found = []
    for item in files:
        sha256 = recorded.get(item.url or "")
        if sha256 is not None and item.sha256 is not None and sha256 != item.sha256:
            raise UpstreamAlarm(str(path), f"states {sha256} for {item.filename}, upstream's page {item.sha256}")
        if sha256 is not None and item.sha256 is None:
            item = replace(item, sha256=sha256, sha256_from="recorded")
        found.append(item)
    return tuple(found)


def hash_missing(
    family: Family, fetcher: Fetcher, on_file: Progress, on_bytes: Callable[[str, int, int | None], None]
) -> Synced:
    """Download every file that has no sha256 and record the computed one; each is saved as soon as it is known."""
    try:
        files = {(file.filename, file.source, file.url): file for file in ledger.load(family.ledger_path)}
    except LedgerError as error:
        return Synced(family=family.name, error=error)
    missing = [(key, file) for key, file in files.items() if file.sha256 is None and file.gone is None and file.url]
    changes: list[Change] = []
    failure: MetawheelError | None = None
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        futures = {}
        for key, file in missing:
            report = _bytes_of(file.filename, on_bytes)
            futures[pool.submit(fetcher.hash_file, file.url or "", report)] = (key, file)
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                key, file = futures[future]
                try:
                    sha256, size = future.result()
                except OutputError:
                    raise
                except MetawheelError as error:
                    failure = error  # the other files still go on
                    continue
                files[key] = replace(file, sha256=sha256, sha256_from="computed", size=size)
                changes.append(Change(kind="hashed", file=files[key]))
                ledger.save(family.ledger_path, files.values())
                on_file(done, len(missing))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Synced(family=family.name, changes=tuple(changes), error=failure, changed=bool(changes))


def _bytes_of(name: str, on_bytes: Callable[[str, int, int | None], None]) -> Callable[[int, int | None], None]:
    return lambda done, total: on_bytes(name, done, total)


def write_if_changed(path: Path, content: bytes, *, write: bool) -> bool:
    """Whether a machine-written file differs from what it should hold; writes it if asked to."""
    from metawheel.files import write_atomic

    if path.exists() and path.read_bytes() == content:
        return False
    if write:
        write_atomic(path, content)
    return True
