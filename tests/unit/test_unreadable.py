"""What the file system refuses is told in one sentence with the path, whichever file it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import NoneType

import pytest

from metawheel import changes, ledger, released
from metawheel.changes import CHANGES_FILE
from metawheel.errors import LedgerError, MetawheelError, OutputError
from metawheel.files import write_atomic
from metawheel.relabel import relabel
from metawheel.released import RELEASED_FILE
from metawheel.site import MANIFEST, Manifest
from metawheel.upstream.http import Fetcher
from tests.fakes.ledgers import TORCH, build_site, torch_files, write_family


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


def _spoilt(value: object, *, optional: bool = False) -> Iterator[object]:
    """A value of a manifest with another type somewhere in it, once for each place and type."""
    right = (str, NoneType) if optional else type(value)
    kinds: tuple[object, ...] = (None, [], {}, "x", 1)
    yield from (other for other in kinds if not isinstance(other, right))
    if isinstance(value, dict):
        for key, item in value.items():
            for other in _spoilt(item, optional=key in ("view", "reissued", "yanked")):
                yield {**value, key: other}
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in _spoilt(item))


def test_a_manifest_with_a_value_of_another_type_or_without_a_key_is_refused(tmp_path: Path) -> None:
    write_family(tmp_path / "packages" / "torch", TORCH, torch_files())
    build_site(tmp_path / "packages", tmp_path / "site")
    good = json.loads((tmp_path / "site" / MANIFEST).read_bytes())
    lacking = ({name: value for name, value in good.items() if name != key} for key in good)
    read = []
    for data in (*_spoilt(good), *lacking):
        with suppress(OutputError):
            Manifest.parse(json.dumps(data).encode(), "here", "do something")
            read.append(data)
    assert read == []
    assert Manifest.parse(json.dumps(good).encode(), "here", "do something") == Manifest.load(tmp_path / "site")


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
