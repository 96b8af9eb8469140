"""What was published stays as it was: a wrapper that would say something else gets a version of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from metawheel.choose import Catalog
from metawheel.model import Released, UpstreamFile
from metawheel.project import render_project
from metawheel.reissue import settle
from metawheel.tags import MAX_FILE_NAME
from tests.fakes.ledgers import TORCH, torch_files, untimed, wheel
from tests.fakes.records import CP312, FILES, FIRST, NEW_CELL, RECORD, by_key, family_of, plan_of, record_of, yank


def test_what_says_the_same_keeps_its_version() -> None:
    again = plan_of(FILES, RECORD)
    assert [(w.key, w.requires, w.extras, w.tags, w.yanked) for w in again.wrappers] == [
        (w.key, w.requires, w.extras, w.tags, w.yanked) for w in FIRST.wrappers
    ]
    assert [render_project(w) for w in again.wrappers] == [render_project(w) for w in FIRST.wrappers]


def test_a_new_cell_upstream_is_a_post_release_and_the_first_stays_as_it_was() -> None:
    found = by_key(plan_of(NEW_CELL, RECORD))
    assert set(found) - set(by_key(FIRST)) == {"torch-cu117==1.13.1.post1", "torch-cuda==1.13.1.post1"}
    new, old = found["torch-cu117==1.13.1.post1"], found["torch-cu117==1.13.1"]
    assert new.reissued == "now also for cp312 on linux x86_64"
    assert new.requires == old.requires
    assert old.yanked is None, "it is still right where it was"
    assert found["torch-cuda==1.13.1"].yanked is None, "and so is what requires it"
    assert render_project(old) == render_project(by_key(FIRST)["torch-cu117==1.13.1"])
    assert {file.filename for file in old.files} >= {file.filename for file in by_key(FIRST)[old.key].files}


@pytest.mark.parametrize("name", ["torch-cuda", "torch-any"])  # in the alphabet after what it requires, and before
def test_what_requires_a_reissued_wrapper_requires_its_new_version(name: str) -> None:
    text = TORCH.replace('"torch-cuda"', f'"{name}"')
    found = by_key(plan_of(NEW_CELL, record_of(plan_of(FILES, text=text).wrappers), text=text))
    assert found[f"{name}==1.13.1.post1"].requires == ("torch-cu117==1.13.1.post1",)
    assert dict(found[f"{name}==1.13.1.post1"].extras) == {"vision": ("torch-cu117[vision]==1.13.1.post1",)}
    assert found[f"{name}==1.13.1"].requires == ("torch-cu117==1.13.1",)


def test_a_build_that_upstream_yanks_is_reissued_without_it_and_the_first_is_yanked_with_the_reason() -> None:
    files = yank(FILES, lambda f: f.project == "torch" and f.local == "cpu" and "win_amd64" in f.filename)
    found = by_key(plan_of(files, RECORD))
    new, old = found["torch-cpu==1.13.1.post1"], found["torch-cpu==1.13.1"]
    assert new.yanked is None
    assert not any("win_amd64" in tag for tag in new.tags)
    assert "no longer for cp310 on win32 AMD64" in (new.reissued or "")
    assert "1.13.1.post1" in (old.yanked or "")
    assert "broken on this card" in (old.yanked or "")
    assert render_project(old) == render_project(by_key(FIRST)["torch-cpu==1.13.1"])
    assert any(file.yanked for file in old.files), "who has locked it still finds its files"
    assert all(file.yanked is None for file in new.files)


def test_a_wholly_yanked_backend_is_yanked_and_not_reissued() -> None:
    files = yank(FILES, lambda f: f.project == "torch" and f.local == "cu116")
    found = [wrapper for wrapper in plan_of(files, RECORD).wrappers if wrapper.name == "torch-cu116"]
    assert [(wrapper.version, wrapper.yanked) for wrapper in found] == [("1.13.1", "broken on this card")]


def test_a_change_that_is_taken_back_is_a_second_post_release() -> None:
    second = record_of(w for w in plan_of(NEW_CELL, RECORD).wrappers if w.reissued)
    found = by_key(plan_of(FILES, [*RECORD, *second]))
    assert found["torch-cu117==1.13.1.post2"].tags == by_key(FIRST)["torch-cu117==1.13.1"].tags
    assert found["torch-cuda==1.13.1.post2"].requires == ("torch-cu117==1.13.1.post2",)
    assert "no longer for cp312" in (found["torch-cu117==1.13.1.post1"].yanked or "")


def test_a_reissue_that_was_released_is_not_issued_again() -> None:
    second = record_of(w for w in plan_of(NEW_CELL, RECORD).wrappers if w.reissued)
    again = by_key(plan_of(NEW_CELL, [*RECORD, *second]))
    assert set(again) == set(by_key(plan_of(NEW_CELL, RECORD)))
    assert again["torch-cu117==1.13.1.post1"].reissued == "now also for cp312 on linux x86_64"


def _more(*tags: str, build: str = "cu117") -> list[UpstreamFile]:
    return [*FILES, *(wheel(f"torch-1.13.1+{build}-{tag}.whl", build) for tag in tags)]


def _stated(requires_python: str) -> list[UpstreamFile]:
    return [replace(file, requires_python=requires_python) for file in FILES]


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (FILES, _more("cp313-cp313t-linux_x86_64"), "now also for cp313t on linux x86_64"),
        (
            FILES,
            _more("cp313-cp313-linux_x86_64", CP312, "cp312-cp312-win_amd64"),
            "now also for cp312 cp313 on linux x86_64, cp312 on win32 AMD64",
        ),
        (_more(CP312), FILES, "no longer for cp312 on linux x86_64"),
        (
            _more("cp312-cp312-win_arm64"),
            _more(CP312),
            "now also for cp312 on linux x86_64; no longer for cp312 on win32 ARM64; other requirement lines",
        ),
        (FILES, _more("cp310-cp310-manylinux2014_x86_64"), "other compatibility tags"),
        (_stated(">=3.8"), _stated(">=3.11"), "Requires-Python >=3.11, was >=3.8"),
        (FILES, [f for f in FILES if f.project == "torch"], "extra vision is gone"),
        ([f for f in FILES if f.project == "torch"], FILES, "extra vision is new"),
        (
            FILES,
            [f for f in FILES if f.project == "torch" or "win_amd64" not in f.filename],
            "extra vision requires others",
        ),
    ],
)
def test_a_reissue_says_all_that_is_different(before: list[UpstreamFile], now: list[UpstreamFile], reason: str) -> None:
    found = by_key(plan_of(now, record_of(plan_of(before).wrappers)))
    assert found["torch-cu117==1.13.1.post1"].reissued == reason


def test_each_release_counts_its_reissues_alone() -> None:
    files = [*FILES, *torch_files("1.14.0", "0.15.0")]
    record = record_of(plan_of(files).wrappers)
    once = [*files, wheel(f"torch-1.13.1+cu117-{CP312}.whl", "cu117")]
    record += record_of(w for w in plan_of(once, record).wrappers if w.reissued)
    twice = [*once, wheel(f"torch-1.14.0+cu117-{CP312}.whl", "cu117")]
    versions = {w.version for w in plan_of(twice, record).wrappers if w.name == "torch-cu117"}
    assert versions == {"1.13.1", "1.13.1.post1", "1.14.0", "1.14.0.post1"}


def test_wrappers_are_settled_alike_in_whatever_order_they_come() -> None:
    family = family_of(TORCH)
    planned, catalog = plan_of(NEW_CELL).wrappers, Catalog(family, NEW_CELL, direct=False, allow_unhashed=False)
    one, other = (
        settle(wrappers, {family.name: RECORD}, {family.name: catalog}) for wrappers in (planned, planned[::-1])
    )
    assert set(one) == set(other)


def test_the_flavours_are_released_apart() -> None:
    found = plan_of(FILES, RECORD, flavour="direct")
    assert [wrapper.version for wrapper in found.wrappers] == ["1.13.1"] * len(found.wrappers)


@pytest.mark.parametrize(
    ("release", "expected"),
    [("1.13.1rc2", "1.13.1rc2.post1"), ("1.13.1.post3", "1.13.1.post4"), ("1!2.0", "1!2.0.post1")],
)
def test_a_reissue_sorts_after_what_it_replaces_and_is_no_version_of_upstreams(release: str, expected: str) -> None:
    text = TORCH.replace('plain = "cpu"', 'plain = "cpu"\nprereleases = true')
    files = [file for file in torch_files(release) if file.project == "torch"]
    first = plan_of(files, text=text)
    more = [*files, wheel(f"torch-{release}+cu117-{CP312}.whl", "cu117")]
    found = {w.version for w in plan_of(more, record_of(first.wrappers), text=text).wrappers if w.name == "torch-cu117"}
    assert found == {release, expected}
    assert Version(expected) > Version(release)


def test_a_reissue_has_more_wheels_only_once_a_file_name_would_be_too_long() -> None:
    tags = [f"{python}-{python}-{system}" for python in ("cp310", "cp311") for system in ("linux_x86_64", "win_amd64")]
    files = [wheel(f"torch-1.13.1+cu117-{tag}.whl", "cu117") for tag in tags]
    lengths: dict[int, list[int]] = {1: [], 2: []}
    for number in range(125, 142):
        prefix = "a" * number
        text = f'prefix = "{prefix}-"\n{TORCH}'
        first = plan_of(files[:3], text=text)
        found = by_key(plan_of(files, record_of(first.wrappers), text=text))
        wheels = found[f"{prefix}-torch-cu117==1.13.1.post1"].wheels
        lengths[len(wheels)] += map(len, wheels)
    assert max(lengths[1]) == MAX_FILE_NAME
    assert max(lengths[2]) <= MAX_FILE_NAME


def test_a_release_of_upstreams_never_takes_the_version_of_a_reissue() -> None:
    second = record_of(w for w in plan_of(NEW_CELL, RECORD).wrappers if w.reissued)
    post = [wheel(f"torch-1.13.1.post1+cu117-{CP312}.whl", "cu117")]
    found = plan_of([*NEW_CELL, *post], [*RECORD, *second]).wrappers
    versions = {w.version: w.release for w in found if w.name == "torch-cu117"}
    assert versions == {"1.13.1": "1.13.1", "1.13.1.post1": "1.13.1", "1.13.1.post2": "1.13.1.post1"}


_OPTIONAL = [
    *NEW_CELL,
    wheel("torch-1.13.1+cpu-cp312-cp312-win_amd64.whl", "cpu"),
    wheel("torchvision-0.14.1+cpu-cp312-cp312-win_amd64.whl", "cpu"),
    *torch_files("1.14.0", "0.15.0"),
]

_NUMBERS = st.integers(0, len(_OPTIONAL) - 1)


@untimed
@given(st.lists(st.tuples(st.sets(_NUMBERS), st.sets(_NUMBERS)), max_size=4))
def test_whatever_upstream_does_a_released_version_never_says_anything_else(
    states: list[tuple[set[int], set[int]]],
) -> None:
    record: dict[str, Released] = {}
    for gone, yanked in states:
        files = [
            replace(file, yanked="no" if number in yanked else None, gone="2026-11-30" if number in gone else None)
            for number, file in enumerate(_OPTIONAL)
        ]
        found = by_key(plan_of(files, record.values()))
        assert record.keys() <= found.keys()
        for key, item in record.items():
            wrapper = found[key]
            assert (wrapper.requires, wrapper.extras, wrapper.requires_python) == (
                item.requires,
                item.extras,
                item.requires_python,
            )
            assert set(wrapper.wheels) == set(item.wheels)
            assert render_project(wrapper)["README.md"] == item.readme
        record |= {item.key: item for item in record_of(w for w in found.values() if w.key not in record)}
        again = by_key(plan_of(files, record.values()))
        assert again.keys() == found.keys(), "the same state twice issues nothing new"


def test_two_releases_that_change_at_once_are_not_reissued_under_one_version() -> None:
    second = record_of(wrapper for wrapper in plan_of(NEW_CELL, RECORD).wrappers if wrapper.reissued)
    more = [wheel(f"torch-1.13.1{post}+cu117-cp313-cp313-linux_x86_64.whl", "cu117") for post in ("", ".post1")]

    found = [item for item in plan_of([*NEW_CELL, *more], [*RECORD, *second]).wrappers if item.name == "torch-cu117"]

    assert len({item.version for item in found}) == len(found)
    assert [item.version for item in found if item.release == "1.13.1.post1"] == ["1.13.1.post3"]


def test_what_is_wholly_yanked_gets_no_new_version_be_it_in_two_steps() -> None:
    step = yank(FILES, lambda file: "+cu117-cp310" in file.filename)
    record = [*RECORD, *record_of(wrapper for wrapper in plan_of(step, RECORD).wrappers if wrapper.reissued)]

    found = plan_of(yank(FILES, lambda file: file.local == "cu117"), record).wrappers

    assert {item.version for item in found if item.name == "torch-cu117"} == {"1.13.1", "1.13.1.post1"}
