"""What a merge of a ledger with upstream's pages does, tells and refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from metawheel.errors import UpstreamAlarm
from metawheel.ledger import Change, merge
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
    )


def many(count: int) -> list[UpstreamFile]:
    return [torch(f"2.0.{number}+cpu", sha256=digest(str(number))) for number in range(count)]


def kinds(changes: Iterable[Change]) -> list[str]:
    return [change.kind for change in changes]


def first(listed: Iterable[UpstreamFile]) -> tuple[UpstreamFile, ...]:
    return merge((), listed, PAGES, DAY)[0]


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
    assert (files[0].sha256, files[0].sha256_from) == ("a" * 64, "page")


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
    with pytest.raises(UpstreamAlarm, match="listed twice with different sha256") as caught:
        merge((), [torch(sha256="a" * 64), torch(sha256="b" * 64)], PAGES, DAY)
    assert torch().filename.replace("+", "%2B") in str(caught.value)


FACTS: list[dict[str, Any]] = [
    {"sha256": "a" * 64, "sha256_from": "pypi"},
    {"size": 0},
    {"metadata": "b" * 64},
    {"requires_python": ">=3.9"},
    {"yanked": ""},
]


@pytest.mark.parametrize("facts", FACTS, ids=" ".join)
def test_two_pages_that_list_one_file_fill_each_other_up(facts: dict[str, Any]) -> None:
    full = replace(torch(), **facts)
    for listed in ([full, torch()], [torch(), full]):
        assert first(listed) == (replace(full, first_seen=DAY),)


def test_of_two_pages_that_list_one_file_the_first_ones_facts_hold() -> None:
    one = replace(torch(sha256="a" * 64), size=0, metadata="true", requires_python=">=3.9", yanked="")
    other = replace(one, sha256_from="pypi", size=1, metadata="b" * 64, requires_python=">=3.10", yanked="broken")
    assert first([one, other]) == (replace(one, first_seen=DAY),)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"size": 10}, {"size": 0}),
        ({"metadata": "true"}, {"metadata": "b" * 64}),
        ({"metadata": "true"}, {"metadata": None}),
        ({"requires_python": ">=3.9"}, {"requires_python": ">=3.10"}),
        ({"requires": ("torch==2.7.0",)}, {"requires": ()}),
        ({"yanked": "broken"}, {"yanked": ""}),
    ],
)
def test_what_the_page_says_now_replaces_what_it_said_before(before: dict[str, Any], now: dict[str, Any]) -> None:
    files, changes = merge(first([replace(torch(), **before)]), [replace(torch(), **now)], PAGES, LATER)
    assert files == (replace(torch(), **now, first_seen=DAY),)
    assert kinds(changes) == ["updated"]


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


def test_other_bytes_at_a_new_address_are_an_alarm_that_names_page_and_file_and_both_hashes() -> None:
    with pytest.raises(UpstreamAlarm) as caught:
        merge(first([torch(folder="old", sha256="a" * 64)]), [torch(folder="new", sha256="b" * 64)], PAGES, LATER)
    for part in (PAGE, torch().filename, "a" * 64, "b" * 64, "(page)"):
        assert part in str(caught.value)


@pytest.mark.parametrize("new", [torch("3.0.0+cpu", sha256="b" * 64), replace(many(1)[0], source="other", url=None)])
def test_a_file_that_comes_while_one_of_another_name_or_source_goes_is_a_new_file(new: UpstreamFile) -> None:
    new = replace(new, sha256="b" * 64)
    pages = {**PAGES, ("other", "torch"): "https://other.example/torch/"}
    files, changes = merge(first(many(20)), [*many(20)[1:], new], pages, LATER)
    assert sorted(kinds(changes)) == ["added", "gone"]
    assert {file.first_seen for file in files if file.sha256 == new.sha256} == {LATER}


def test_one_name_that_two_sources_list_without_an_address_is_two_files() -> None:
    listed = [replace(torch(), url=None, source=source, sha256=digest(source)) for source in ("one", "two")]
    files, _ = merge((), listed, {}, DAY)
    assert {(file.source, file.sha256) for file in files} == {(file.source, file.sha256) for file in listed}


def test_a_relabelled_build_is_yanked_and_unyanked_with_the_plain_one_and_no_other_is() -> None:
    plain, other = torch("2.7.1", sha256="a" * 64), torch("2.7.2")
    relabelled = replace(torch(sha256="b" * 64), source="ours", upstream_sha256=plain.sha256)
    known, _ = merge((), [plain, other, relabelled], PAGES, DAY)
    for reason in ("broken", "", None):
        yanked = replace(plain, yanked=reason)
        known, _ = merge(known, [yanked, other, relabelled], {**PAGES, ("ours", "torch"): ""}, LATER)
        assert {file.filename: file.yanked for file in known} == {
            plain.filename: reason,
            relabelled.filename: reason,
            other.filename: None,
        }


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
    assert "sync again" in str(caught.value)


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
