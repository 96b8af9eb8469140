"""Ledgers: one way to write them down, and no way to edit them by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metawheel import jsonl
from metawheel.errors import LedgerError
from metawheel.ledger import dump, load, parse, save
from metawheel.model import UpstreamFile
from tests.fakes.ledgers import wheel
from tests.fakes.pages import CANONICAL, digest

TEXT = st.text(max_size=20)
HASH = st.binary(min_size=32, max_size=32).map(bytes.hex)
VERSION = st.builds(
    "{}.{}{}".format, st.integers(0, 99), st.integers(0, 99), st.sampled_from(["", ".post1", "+cpu", "+cu9"])
)
FILE = st.builds(
    UpstreamFile,
    filename=VERSION.map("torch-{}-cp311-cp311-linux_x86_64.whl".format),
    source=st.sampled_from(["up", "other"]),
    url=st.none() | TEXT.map(lambda text: CANONICAL + text),
    sha256=st.none() | HASH,
    sha256_from=st.none() | st.sampled_from(["page", "pypi", "computed"]),
    size=st.none() | st.integers(0, 1 << 40),
    metadata=st.none() | HASH | st.just("true"),
    requires_python=st.none() | TEXT,
    yanked=st.none() | TEXT,
    requires=st.none() | st.lists(TEXT, max_size=2).map(tuple),
    first_seen=st.dates().map(str),
    gone=st.none() | st.dates().map(str),
)
FILES = st.lists(FILE, max_size=6, unique_by=lambda file: file.sort_key)


@settings(max_examples=50, deadline=None)
@given(FILES)
def test_what_is_written_is_what_is_read(files: list[UpstreamFile]) -> None:
    assert set(parse(dump(files), Path("ledger.jsonl"))) == set(files)


@settings(max_examples=50, deadline=None)
@given(FILES, st.randoms())
def test_a_ledger_does_not_depend_on_the_order_of_its_files(files: list[UpstreamFile], random: Random) -> None:
    shuffled = list(files)
    random.shuffle(shuffled)
    assert dump(shuffled) == dump(files)


@settings(max_examples=50, deadline=None)
@given(FILES)
def test_a_ledger_has_one_plain_line_for_each_file_below_its_head(files: list[UpstreamFile]) -> None:
    content = dump(files)
    lines = content.decode("ascii").split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(files) + 1
    assert json.loads(lines[0])["files"] == len(files)
    assert sorted(json.loads(line)["file"] for line in lines[1:]) == sorted(file.filename for file in files)


def test_a_ledger_is_sorted_by_version_not_by_text(tmp_path: Path) -> None:
    files = [wheel(f"torch-{version}-py3-none-any.whl") for version in ("2.10.0+cpu", "2.9.0+cpu", "2.9.0+cu128")]
    save(tmp_path / "ledger.jsonl", files)
    versions = [str(file.name.version) for file in load(tmp_path / "ledger.jsonl")]
    assert versions == ["2.9.0+cpu", "2.9.0+cu128", "2.10.0+cpu"]


THREE = [wheel(f"torch-2.0.{number}+cpu-py3-none-any.whl", "cpu") for number in range(3)]
HASH_OF_ONE = str(THREE[1].sha256)

EDITS: dict[str, Callable[[str], str]] = {
    "a digit changed": lambda text: text.replace(HASH_OF_ONE, "0" + HASH_OF_ONE[1:]),
    "a line removed": lambda text: "".join(text.splitlines(keepends=True)[:-1]),
    "lines reordered": lambda text: "".join([text.splitlines(keepends=True)[i] for i in (0, 2, 1, 3)]),
    "a line appended": lambda text: text + text.splitlines(keepends=True)[-1],
    "cut off": lambda text: text[:-10],
    "broken JSON": lambda text: text.replace('"file":', '"file"', 3),
    "head lost": lambda text: text.partition("\n")[2],
    "head emptied": lambda text: "{}\n" + text.partition("\n")[2],
    "another format": lambda text: text.replace('"ledger": 1', '"ledger": 99'),
    "no text": lambda text: "",
    "a conflict of git": lambda text: "<<<<<<< ours\n" + text,
    "other line ends": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_that_was_edited_by_hand_is_found_out_and_named_with_the_way_out(edit: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    save(path, THREE)
    text = EDITS[edit](path.read_text())
    assert text != path.read_text()
    path.write_bytes(text.encode())
    with pytest.raises(LedgerError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert ("reads format 1" if edit == "another format" else "git checkout -- ledger.jsonl") in str(caught.value)


def test_a_ledger_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        load(tmp_path / "ledger.jsonl")
    assert "metawheel sync" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_ledger_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").mkdir()
    with pytest.raises(LedgerError, match=r"ledger\.jsonl: cannot be read: \w"):
        load(tmp_path / "ledger.jsonl")


def test_what_a_write_would_change_is_told_without_writing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert save(path, THREE, write=False)
    assert not path.exists()
    assert save(path, THREE)
    assert not save(path, THREE, write=False)


@pytest.mark.parametrize(
    "row", [{}, {"file": 1}, {"file": None}, {"file": []}, {"file": "x.whl"}, {"file": "x", "y": 1}]
)
def test_a_line_that_is_no_file_is_named_though_the_digest_fits(row: dict[str, object]) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.jsonl: line 2 cannot be read"):
        parse(jsonl.dump("ledger", "files", [row]), Path("ledger.jsonl"))


def test_a_line_that_is_no_json_is_named_though_the_digest_fits() -> None:
    head = json.dumps({"ledger": 1, "files": 1, "sha256": digest("{\n")})
    with pytest.raises(LedgerError, match=r"ledger\.jsonl: line 2 cannot be read"):
        parse(f"{head}\n{{\n".encode(), Path("ledger.jsonl"))
