"""Machine-written records: JSON lines under a head that tells their number and sha256, so that a hand edit is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metawheel.errors import MALFORMED, LedgerError

FORMAT = 1


def dump(kind: str, unit: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """The one way to write a record down: a row a line, facts that are not known (None) left out."""
    body = b"".join(
        json.dumps({key: value for key, value in row.items() if value is not None}, ensure_ascii=True).encode() + b"\n"
        for row in rows
    )
    head = {kind: FORMAT, unit: body.count(b"\n"), "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(head).encode() + b"\n" + body


def parse(kind: str, content: bytes, path: Path, *, restore: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a record with their line numbers.

    Raises LedgerError, which names the file (`path`), the line and the way out (`restore`).
    """
    head, _, body = content.partition(b"\n")
    try:
        expected = json.loads(head)
        if expected[kind] != FORMAT:
            raise LedgerError(f"{path}: {kind} format {expected[kind]}; this metawheel reads format {FORMAT}")
        digest = expected["sha256"]
    except MALFORMED:
        raise LedgerError(f"{path}: line 1 is not the head of a {kind}; {restore}") from None
    if hashlib.sha256(body).hexdigest() != digest:
        raise LedgerError(f"{path}: was edited by hand, its lines do not match the sha256 in line 1; {restore}")
    for number, line in enumerate(body.splitlines(), start=2):
        try:
            row = json.loads(line)
        except MALFORMED as error:
            raise LedgerError(f"{path}: line {number} cannot be read: {error}; {restore}") from None
        yield number, row
