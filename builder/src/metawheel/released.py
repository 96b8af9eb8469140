"""The record of released wrappers, beside each family's ledger: what was published is never made differently."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.version import Version

from metawheel import jsonl
from metawheel.errors import MALFORMED, LedgerError
from metawheel.family import Family
from metawheel.files import write_if_changed
from metawheel.model import Released

RELEASED_FILE = "released.jsonl"


def dump(released: Iterable[Released]) -> bytes:
    """The one way to write released wrappers down: sorted, a line each."""
    order = sorted(released, key=lambda item: (item.flavour, item.name, Version(item.version)))
    return jsonl.dump("released", "wrappers", map(_row, order))


def _row(item: Released) -> dict[str, Any]:
    return {
        "wrapper": item.name,
        "version": item.version,
        "release": item.release if item.release != item.version else None,
        "reissued": item.reissued,
        "flavour": item.flavour,
        "view": item.view,
        "wheels": dict(sorted(item.wheels.items())),
        "summary": item.summary,
        "requires_python": item.requires_python,
        "requires": item.requires,
        "extras": dict(item.extras) or None,
        "readme": item.readme,
    }


def load(family: Family) -> tuple[Released, ...]:
    """A family's released wrappers; none where nothing was published. Raises LedgerError."""
    path = family.folder / RELEASED_FILE
    try:
        return parse(path.read_bytes(), path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error


def parse(content: bytes, path: Path) -> tuple[Released, ...]:
    """The released wrappers that a record's content lists; `path` is for messages."""
    restore = f"restore it (git checkout -- {path.name}); only publishing writes it"
    found = []
    for number, row in jsonl.parse("released", content, path, restore=restore):
        try:
            extras = tuple((extra, tuple(lines)) for extra, lines in row.pop("extras", {}).items())
            found.append(
                Released(
                    name=row.pop("wrapper"),
                    release=row.pop("release", row["version"]),
                    requires=tuple(row.pop("requires")),
                    extras=extras,
                    view=row.pop("view", None),
                    **row,
                )
            )
        except MALFORMED as error:
            raise LedgerError(f"{path}: line {number} cannot be read: {error}; {restore}") from None
    return tuple(found)


def add(family: Family, items: Iterable[Released]) -> None:
    """Add to a family's record, in one step."""
    write_if_changed(family.folder / RELEASED_FILE, dump([*load(family), *items]))
