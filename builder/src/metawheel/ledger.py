"""Ledgers: the committed record of a family's upstream files, one file a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from metawheel import jsonl
from metawheel.errors import MALFORMED, LedgerError, UpstreamAlarm
from metawheel.files import write_if_changed
from metawheel.model import UpstreamFile

_KEYS = {field.name: "file" if field.name == "filename" else field.name for field in fields(UpstreamFile)}


def dump(files: Iterable[UpstreamFile]) -> bytes:
    """The one way to write these files down: sorted, a line each, facts that are not known left out."""
    order = sorted(files, key=lambda file: file.sort_key)
    return jsonl.dump("ledger", "files", ({key: getattr(file, name) for name, key in _KEYS.items()} for file in order))


def load(path: Path) -> tuple[UpstreamFile, ...]:
    """Read a ledger; raises LedgerError, which names the file and the line."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise LedgerError(f"{path}: there is no ledger yet; run `metawheel sync`") from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error
    return parse(content, path)


def parse(content: bytes, path: Path) -> tuple[UpstreamFile, ...]:
    """The files that a ledger's content lists; `path` is for messages."""
    restore = f"restore it (git checkout -- {path.name}) and let `metawheel sync` change it"
    files = []
    for number, row in jsonl.parse("ledger", content, path, restore=restore):
        try:
            files.append(_file(row))
        except MALFORMED as error:
            raise LedgerError(f"{path}: line {number} cannot be read: {error}; {restore}") from None
    return tuple(files)


def _file(facts: dict[str, Any]) -> UpstreamFile:
    filename = facts.pop("file")
    if facts.get("requires") is not None:
        facts["requires"] = tuple(facts["requires"])
    file = UpstreamFile(filename=filename, url=facts.pop("url", None), **facts)
    file.name  # noqa: B018  parse it now: an unreadable name is this line's fault
    return file


def save(path: Path, files: Iterable[UpstreamFile], *, write: bool = True) -> bool:
    """Write a ledger if its content changes; whether it does."""
    return write_if_changed(path, dump(files), write=write)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a sync found out about one file."""

    kind: str  # "added", "gone", "back", "yanked", "unyanked", "hashed" or "updated"
    file: UpstreamFile


MOST_LOST = 0.1  # the part of a page's files that may disappear in one sync


def merge(
    known: Iterable[UpstreamFile], listed: Iterable[UpstreamFile], pages: dict[tuple[str, str], str], today: str
) -> tuple[tuple[UpstreamFile, ...], tuple[Change, ...]]:
    """Bring a ledger up to date with what upstream lists; files that are no longer listed are marked gone.

    `pages` gives the address of the page that was read for each (source, project): nothing else is compared.
    Raises UpstreamAlarm where a known file has another sha256, or a page lost more than a tenth of its files.
    """
    known = tuple(known)
    ledger = {_identity(file): file for file in known}
    current = _unique(listed)
    changes: list[Change] = []
    missing = {
        identity: file
        for identity, file in ledger.items()
        if identity not in current and file.gone is None and (file.source, file.project) in pages
    }
    for identity, file in current.items():
        old = ledger.get(identity)
        if old is None:
            old = _moved(file, missing, pages)
            if old is not None:
                del ledger[_identity(old)], missing[_identity(old)]
        if old is None:
            ledger[identity] = replace(file, first_seen=today)
            changes.append(Change(kind="added", file=ledger[identity]))
            continue
        ledger[identity] = _updated(old, file, pages[file.source, file.project])
        changes += _differences(old, ledger[identity])
    _refuse_losses(known, missing.values(), pages)
    for identity, file in missing.items():
        ledger[identity] = replace(file, gone=today)
        changes.append(Change(kind="gone", file=ledger[identity]))
    _follow(ledger)
    order = sorted(changes, key=lambda change: (change.file.sort_key, change.kind))
    return tuple(sorted(ledger.values(), key=lambda file: file.sort_key)), tuple(order)


def _follow(ledger: dict[tuple[str, str, str], UpstreamFile]) -> None:
    """A relabelled build is yanked when the plain build that it was made from is."""
    yanked = {file.sha256: file.yanked for file in ledger.values() if file.sha256 is not None}
    for identity, file in ledger.items():
        if file.upstream_sha256 in yanked:
            ledger[identity] = replace(file, yanked=yanked[file.upstream_sha256])


def _identity(file: UpstreamFile) -> tuple[str, str, str]:
    """A file is known by its name and its canonical address; one name may hold other bytes on another host."""
    return (file.project, file.filename, file.url if file.url is not None else f"{file.source}:")


def _unique(listed: Iterable[UpstreamFile]) -> dict[tuple[str, str, str], UpstreamFile]:
    """Two pages may list one file: the first one's facts hold, the others fill what it lacks."""
    unique: dict[tuple[str, str, str], UpstreamFile] = {}
    for file in listed:
        identity = _identity(file)
        unique[identity] = _filled(unique[identity], file) if identity in unique else file
    return unique


def _filled(file: UpstreamFile, other: UpstreamFile) -> UpstreamFile:
    if file.sha256 and other.sha256 and file.sha256 != other.sha256:
        raise UpstreamAlarm(file.url or file.filename, "is listed twice with different sha256 values")
    if file.sha256 is None:
        file = replace(file, sha256=other.sha256, sha256_from=other.sha256_from)
    return replace(
        file,
        size=file.size if file.size is not None else other.size,
        metadata=file.metadata or other.metadata,
        requires_python=file.requires_python or other.requires_python,
        yanked=file.yanked if file.yanked is not None else other.yanked,
    )


def _moved(
    file: UpstreamFile, missing: dict[tuple[str, str, str], UpstreamFile], pages: dict[tuple[str, str], str]
) -> UpstreamFile | None:
    """The known file that a new address is for: the same source, name and hash, its old address no longer listed."""
    for old in missing.values():
        if old.filename == file.filename and old.source == file.source:
            if old.sha256 and file.sha256 and old.sha256 != file.sha256:
                raise _changed(old, file, pages[file.source, file.project])
            if old.sha256 == file.sha256:
                return old
    return None


def _changed(old: UpstreamFile, new: UpstreamFile, page: str) -> UpstreamAlarm:
    return UpstreamAlarm(
        page,
        f"{new.filename} has sha256 {new.sha256}, but the ledger knows {old.sha256} ({old.sha256_from}); "
        "nothing was changed. Find out why upstream replaced it before you trust either",
    )


def _updated(old: UpstreamFile, new: UpstreamFile, page: str) -> UpstreamFile:
    if old.sha256 and new.sha256 and old.sha256 != new.sha256:
        raise _changed(old, new, page)
    # What was once learnt stays: pages lose hashes and attributes, and get them back.
    return replace(
        new,
        sha256=old.sha256 or new.sha256,
        sha256_from=old.sha256_from if old.sha256 else new.sha256_from,
        size=new.size if new.size is not None else old.size,
        requires_python=new.requires_python or old.requires_python,
        requires=old.requires if new.requires is None else new.requires,
        first_seen=old.first_seen,
    )


def _differences(old: UpstreamFile, new: UpstreamFile) -> list[Change]:
    if old == new:
        return []
    kinds = []
    if old.gone is not None:
        kinds.append("back")
    if (old.yanked is None) != (new.yanked is None):
        kinds.append("yanked" if old.yanked is None else "unyanked")
    if old.sha256 is None and new.sha256 is not None:
        kinds.append("hashed")
    return [Change(kind=kind, file=new) for kind in kinds or ["updated"]]


def _refuse_losses(
    known: Iterable[UpstreamFile], missing: Iterable[UpstreamFile], pages: dict[tuple[str, str], str]
) -> None:
    expected = Counter((file.source, file.project) for file in known if file.gone is None)
    for page, lost in Counter((file.source, file.project) for file in missing).items():
        if lost > MOST_LOST * expected[page]:
            raise UpstreamAlarm(
                pages[page],
                f"lost {lost} of the {expected[page]} files of {page[1]} that the ledger knows, more than a tenth; "
                "nothing was changed. If they are really gone, move the ledger away and sync again",
            )
