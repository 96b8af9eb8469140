"""What the file system refuses is told in one sentence with the path, whichever file it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metawheel import changes, ledger, released
from metawheel.changes import CHANGES_FILE
from metawheel.errors import LedgerError, MetawheelError, OutputError
from metawheel.files import write_atomic
from metawheel.relabel import relabel
from metawheel.released import RELEASED_FILE
from metawheel.site import MANIFEST, Manifest
from metawheel.upstream.http import Fetcher
from tests.fakes.ledgers import TORCH, write_family


def _released(folder: Path) -> object:
    return released.load(write_family(folder, TORCH, []))


def _relabel(folder: Path) -> object:
    place = folder / "served"
    place.write_text("no folder", encoding="utf-8")
    return relabel([], place, "https://x.invalid/", Fetcher(cache=folder / "cache"), "2026-01-01", lambda *_: None)


@pytest.mark.parametrize(
    ("name", "read", "kind"),
    [
        ("ledger.jsonl", lambda folder: ledger.load(folder / "ledger.jsonl"), LedgerError),
        (RELEASED_FILE, _released, LedgerError),
        (CHANGES_FILE, changes.load, OutputError),
        (MANIFEST, Manifest.load, OutputError),
        ("served", _relabel, OutputError),
    ],
)
def test_a_folder_in_a_files_place_or_a_file_in_a_folders_is_named_with_the_reason(
    tmp_path: Path, name: str, read: Callable[[Path], object], kind: type[MetawheelError]
) -> None:
    if name != "served":
        (tmp_path / name).mkdir()
    with pytest.raises(kind, match=r"cannot be (read|written): (Is a directory|File exists)") as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


def test_a_file_that_was_half_written_when_the_disk_was_full_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_atomic(path, b"new")
    assert [(item.name, item.read_bytes()) for item in tmp_path.iterdir() if item.suffix != ".lock"] == [
        (path.name, b"old")
    ]
