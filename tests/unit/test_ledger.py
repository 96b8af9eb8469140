"""Ledgers: one way to write them down, no way to edit them by hand, and what a merge does and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metawheel import jsonl
from metawheel.errors import LedgerError, UpstreamAlarm
from metawheel.ledger import Change, dump, load, merge, parse, save
from metawheel.model import UpstreamFile
from tests.fakes.pages import CANONICAL, digest

PAGE = CANONICAL + "torch/"
PAGES = {("up", "torch"): PAGE}
DAY, LATER = "2026-01-01", "2026-02-02"


def torch(
    version: str = "2.7.1+cpu",
    *,
    folder: str | None = None,
    sha256: str | None = None,
    yanked: str | None = None,
    requires_python: str | None = None,
    gone: str | None = None,
) -> UpstreamFile:
    """A file as a page lists it."""
    name = f"torch-{version}-cp311-cp311-linux_x86_64.whl"
    place = (version.partition("+")[2] if folder is None else folder) + "/"
    return UpstreamFile(
        filename=name,
        source="up",
        url=CANONICAL + place + name.replace("+", "%2B"),
        sha256=sha256,
        sha256_from="page" if sha256 else None,
        yanked=yanked,
        requires_python=requires_python,
        gone=gone,
    )


def many(count: int) -> list[UpstreamFile]:
    return [torch(f"2.0.{number}+cpu", sha256=digest(str(number))) for number in range(count)]


def kinds(changes: Iterable[Change]) -> list[str]:
    return [change.kind for change in changes]


def first(listed: Iterable[UpstreamFile]) -> tuple[UpstreamFile, ...]:
    return merge((), listed, PAGES, DAY)[0]


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
    save(tmp_path / "ledger.jsonl", [torch("2.10.0+cpu"), torch("2.9.0+cpu"), torch("2.9.0+cu128")])
    versions = [str(file.name.version) for file in load(tmp_path / "ledger.jsonl")]
    assert versions == ["2.9.0+cpu", "2.9.0+cu128", "2.10.0+cpu"]


EDITS: dict[str, Callable[[str], str]] = {
    "a digit changed": lambda text: text.replace(digest("1"), "0" + digest("1")[1:]),
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
def test_a_ledger_that_was_edited_by_hand_is_found_out_and_named(edit: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    save(path, many(3))
    text = EDITS[edit](path.read_text())
    assert text != path.read_text()
    path.write_bytes(text.encode())
    with pytest.raises(LedgerError) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_ledger_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        load(tmp_path / "ledger.jsonl")
    assert "metawheel sync" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_new_file_is_added_with_the_day_it_was_first_seen() -> None:
    files, changes = merge(first([torch()]), [torch(), torch("2.8.0+cpu")], PAGES, LATER)
    assert [(change.kind, str(change.file.release)) for change in changes] == [("added", "2.8.0")]
    assert [file.first_seen for file in files] == [DAY, LATER]


def test_a_second_look_at_the_same_page_changes_nothing() -> None:
    known = first(many(20))
    assert merge(known, reversed(many(20)), PAGES, LATER) == (known, ())


def test_a_file_that_disappears_is_marked_gone_and_stays_and_may_come_back() -> None:
    listed = many(20)
    files, changes = merge(first(listed), listed[1:], PAGES, LATER)
    assert kinds(changes) == ["gone"]
    assert [file.gone for file in files] == [LATER] + [None] * 19
    assert merge(files, listed[1:], PAGES, "2026-03-03") == (files, ())
    back, changes = merge(files, listed, PAGES, "2026-03-03")
    assert kinds(changes) == ["back"]
    assert back == first(listed)


def test_a_yank_and_its_end_are_told() -> None:
    files, changes = merge(first([torch()]), [torch(yanked="broken")], PAGES, LATER)
    assert kinds(changes) == ["yanked"]
    assert files[0].yanked == "broken"
    files, changes = merge(files, [torch()], PAGES, LATER)
    assert kinds(changes) == ["unyanked"]
    assert files[0].yanked is None


def test_a_hash_that_the_page_gains_is_told_and_recorded() -> None:
    files, changes = merge(first([torch()]), [torch(sha256="a" * 64)], PAGES, LATER)
    assert kinds(changes) == ["hashed"]
    assert files[0].sha256 == "a" * 64


def test_what_was_once_learnt_stays_when_the_page_loses_it() -> None:
    full = replace(torch(sha256="a" * 64, requires_python=">=3.9"), size=10, requires=("torch==2.7.1",))
    files, changes = merge(first([full]), [torch()], PAGES, LATER)
    assert (files, changes) == (first([full]), ())


def test_a_changed_sha256_is_an_alarm_that_names_page_and_file_and_both_hashes() -> None:
    known = first([*many(3), torch(sha256="a" * 64)])
    with pytest.raises(UpstreamAlarm) as caught:
        merge(known, [*many(3), torch(sha256="b" * 64)], PAGES, LATER)
    for part in (PAGE, torch().filename, "a" * 64, "b" * 64):
        assert part in str(caught.value)


def test_a_computed_sha256_that_the_page_contradicts_is_an_alarm() -> None:
    known = [replace(file, sha256="a" * 64, sha256_from="computed") for file in first([torch()])]
    with pytest.raises(UpstreamAlarm, match="computed"):
        merge(known, [torch(sha256="b" * 64)], PAGES, LATER)


def test_a_hash_that_comes_back_changed_after_the_file_was_gone_is_an_alarm() -> None:
    known = [replace(file, gone=DAY) for file in first([torch(sha256="a" * 64)])]
    with pytest.raises(UpstreamAlarm):
        merge(known, [torch(sha256="b" * 64)], PAGES, LATER)


def test_one_page_that_lists_a_file_twice_with_two_hashes_is_an_alarm() -> None:
    with pytest.raises(UpstreamAlarm) as caught:
        merge((), [torch(sha256="a" * 64), torch(sha256="b" * 64)], PAGES, DAY)
    assert torch().filename.replace("+", "%2B") in str(caught.value)


def test_two_pages_that_list_one_file_fill_each_other_up() -> None:
    (file,) = first([torch(requires_python=">=3.9"), torch(sha256="a" * 64)])
    assert (file.sha256, file.requires_python) == ("a" * 64, ">=3.9")


def test_the_same_bytes_in_another_folder_are_the_same_file() -> None:
    old, new = torch(folder="old", sha256="a" * 64), torch(folder="new", sha256="a" * 64)
    files, changes = merge(first([old]), [new], PAGES, LATER)
    assert [(file.url, file.first_seen) for file in files] == [(new.url, DAY)]
    assert "added" not in kinds(changes)
    assert "gone" not in kinds(changes)


def test_one_name_with_other_bytes_in_another_folder_is_another_file() -> None:
    full, plain = torch(folder="cu121_full", sha256="a" * 64), torch(folder="cu121", sha256="b" * 64)
    files, changes = merge(first([full]), [full, plain], PAGES, LATER)
    assert kinds(changes) == ["added"]
    assert {file.url: file.sha256 for file in files} == {full.url: "a" * 64, plain.url: "b" * 64}


def test_the_hash_of_one_folder_is_not_taken_for_a_file_in_another() -> None:
    files, _ = merge(
        first([*many(20), torch(folder="cu121_full", sha256="a" * 64)]),
        [*many(20), torch(folder="cu121")],
        PAGES,
        LATER,
    )
    assert {file.sha256 for file in files if file.url == torch(folder="cu121").url} == {None}


@pytest.mark.parametrize(("of", "lost"), [(10, 1), (20, 2), (39, 3)])
def test_a_page_may_lose_up_to_a_tenth_of_its_files(of: int, lost: int) -> None:
    _, changes = merge(first(many(of)), many(of)[lost:], PAGES, LATER)
    assert kinds(changes) == ["gone"] * lost


@pytest.mark.parametrize(("of", "lost"), [(1, 1), (9, 1), (10, 2), (19, 2), (20, 3), (20, 20)])
def test_a_page_that_lost_more_than_a_tenth_of_its_files_is_an_alarm(of: int, lost: int) -> None:
    with pytest.raises(UpstreamAlarm) as caught:
        merge(first(many(of)), many(of)[lost:], PAGES, LATER)
    assert PAGE in str(caught.value)
    assert f"{lost} of the {of}" in str(caught.value)


def test_new_files_do_not_make_up_for_lost_ones() -> None:
    with pytest.raises(UpstreamAlarm):
        merge(first(many(20)), [*many(20)[3:], *(torch(f"3.0.{n}+cpu") for n in range(30))], PAGES, LATER)


def test_files_that_were_gone_before_do_not_count_as_lost_again() -> None:
    known = [replace(file, gone=DAY) if n < 10 else file for n, file in enumerate(first(many(20)))]
    with pytest.raises(UpstreamAlarm):
        merge(known, many(20)[12:], PAGES, LATER)
    _, changes = merge(known, many(20)[11:], PAGES, LATER)
    assert kinds(changes) == ["gone"]


def test_a_page_that_was_not_read_loses_nothing() -> None:
    known = first(many(3))
    other = [replace(torch("9.0+cpu"), source="elsewhere")]
    files, changes = merge(known, other, {("elsewhere", "torch"): "https://elsewhere.example/"}, LATER)
    assert kinds(changes) == ["added"]
    assert {file for file in files if file.source == "up"} == set(known)


@pytest.mark.parametrize(
    "row", [{}, {"file": 1}, {"file": None}, {"file": []}, {"file": "x.whl"}, {"file": "x", "y": 1}]
)
def test_a_line_that_is_no_file_is_named_though_the_digest_fits(row: dict[str, object]) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.jsonl: line 2 cannot be read"):
        parse(jsonl.dump("ledger", "files", [row]), Path("ledger.jsonl"))
