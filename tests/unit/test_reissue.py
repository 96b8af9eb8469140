"""What was published stays as it was: a wrapper that would say something else gets a version of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from metawheel.family import Family
from metawheel.model import Released, UpstreamFile, Wrapper
from metawheel.plan import Plan, plan
from metawheel.project import render_project
from tests.fakes.ledgers import TORCH, torch_files, untimed, wheel

CP312 = "cp312-cp312-linux_x86_64"


def _plan(
    files: Iterable[UpstreamFile], released: Iterable[Released] = (), *, text: str = TORCH, **options: Any
) -> Plan:
    family = Family.model_validate({**tomllib.loads(text), "folder": Path("torch")})
    return plan([family], {family.name: tuple(files)}, released={family.name: tuple(released)}, **options)


def _released(wrappers: Iterable[Wrapper]) -> list[Released]:
    """Wrappers as they are recorded when they are published."""
    return [
        Released(
            **wrapper.facts(),
            readme=render_project(wrapper)["README.md"],
            wheels=dict.fromkeys(wrapper.wheels, "0" * 64),
        )
        for wrapper in wrappers
    ]


def _by_key(planned: Plan) -> dict[str, Wrapper]:
    return {wrapper.key: wrapper for wrapper in planned.wrappers}


def _yank(files: Iterable[UpstreamFile], where: Callable[[UpstreamFile], bool]) -> list[UpstreamFile]:
    return [replace(file, yanked="broken on this card") if where(file) else file for file in files]


FILES = torch_files()
FIRST = _plan(FILES)
RECORD = _released(FIRST.wrappers)
NEW_CELL = [*FILES, wheel(f"torch-1.13.1+cu117-{CP312}.whl", "cu117")]


def test_what_says_the_same_keeps_its_version() -> None:
    again = _plan(FILES, RECORD)
    assert [(w.key, w.requires, w.extras, w.tags, w.yanked) for w in again.wrappers] == [
        (w.key, w.requires, w.extras, w.tags, w.yanked) for w in FIRST.wrappers
    ]
    assert [render_project(w) for w in again.wrappers] == [render_project(w) for w in FIRST.wrappers]


def test_what_was_released_is_made_again_from_the_record_though_descriptions_moved_on() -> None:
    again = _plan(FILES, RECORD, text=TORCH.replace("PyTorch {version} for", "PyTorch {version} made for"))
    assert [render_project(w) for w in again.wrappers] == [render_project(w) for w in FIRST.wrappers]


def test_a_new_cell_upstream_is_a_post_release_and_the_first_stays_as_it_was() -> None:
    found = _by_key(_plan(NEW_CELL, RECORD))
    assert set(found) - set(_by_key(FIRST)) == {"torch-cu117==1.13.1.post1", "torch-cuda==1.13.1.post1"}
    new, old = found["torch-cu117==1.13.1.post1"], found["torch-cu117==1.13.1"]
    assert new.reissued == "now also for cp312 on linux x86_64"
    assert new.requires == old.requires
    assert old.yanked is None, "it is still right where it was"
    assert render_project(old) == render_project(_by_key(FIRST)["torch-cu117==1.13.1"])
    assert {file.filename for file in old.files} >= {file.filename for file in _by_key(FIRST)[old.key].files}


def test_what_requires_a_reissued_wrapper_requires_its_new_version() -> None:
    found = _by_key(_plan(NEW_CELL, RECORD))
    assert found["torch-cuda==1.13.1.post1"].requires == ("torch-cu117==1.13.1.post1",)
    assert dict(found["torch-cuda==1.13.1.post1"].extras) == {"vision": ("torch-cu117[vision]==1.13.1.post1",)}
    assert found["torch-cuda==1.13.1"].requires == ("torch-cu117==1.13.1",)


def test_a_build_that_upstream_yanks_is_reissued_without_it_and_the_first_is_yanked_with_the_reason() -> None:
    files = _yank(FILES, lambda f: f.project == "torch" and f.local == "cpu" and "win_amd64" in f.filename)
    found = _by_key(_plan(files, RECORD))
    new, old = found["torch-cpu==1.13.1.post1"], found["torch-cpu==1.13.1"]
    assert new.yanked is None
    assert not any("win_amd64" in tag for tag in new.tags)
    assert "no longer for cp310 on win32 AMD64" in (new.reissued or "")
    assert "1.13.1.post1" in (old.yanked or "")
    assert "broken on this card" in (old.yanked or "")
    assert render_project(old) == render_project(_by_key(FIRST)["torch-cpu==1.13.1"])
    assert any(file.yanked for file in old.files), "who has locked it still finds its files"
    assert all(file.yanked is None for file in new.files)


def test_a_wholly_yanked_backend_is_yanked_and_not_reissued() -> None:
    files = _yank(FILES, lambda f: f.project == "torch" and f.local == "cu116")
    found = [wrapper for wrapper in _plan(files, RECORD).wrappers if wrapper.name == "torch-cu116"]
    assert [(wrapper.version, wrapper.yanked) for wrapper in found] == [("1.13.1", "broken on this card")]


def test_a_change_that_is_taken_back_is_a_second_post_release() -> None:
    second = _released(w for w in _plan(NEW_CELL, RECORD).wrappers if w.reissued)
    found = _by_key(_plan(FILES, [*RECORD, *second]))
    assert found["torch-cu117==1.13.1.post2"].tags == _by_key(FIRST)["torch-cu117==1.13.1"].tags
    assert found["torch-cuda==1.13.1.post2"].requires == ("torch-cu117==1.13.1.post2",)
    assert "no longer for cp312" in (found["torch-cu117==1.13.1.post1"].yanked or "")


def test_a_reissue_that_was_released_is_not_issued_again() -> None:
    second = _released(w for w in _plan(NEW_CELL, RECORD).wrappers if w.reissued)
    again = _by_key(_plan(NEW_CELL, [*RECORD, *second]))
    assert set(again) == set(_by_key(_plan(NEW_CELL, RECORD)))
    assert again["torch-cu117==1.13.1.post1"].reissued == "now also for cp312 on linux x86_64"


def test_a_released_wrapper_that_no_rule_emits_any_more_stays_and_is_yanked() -> None:
    text = TORCH.replace("backend = 'cu\\d+'", "backend = 'cu117'")
    found = _by_key(_plan(FILES, RECORD, text=text))
    assert found["torch-cu116==1.13.1"].yanked == "no longer emitted"
    assert found["torch-cu116==1.13.1"].cells
    assert found["torch-cu116==1.13.1"].files, "who has locked it still finds its files"


def test_a_corrected_hash_reissues_the_direct_flavour_only() -> None:
    files = [replace(f, sha256="f" * 64) if f.filename.startswith("torch-1.13.1+cu116-cp311") else f for f in FILES]
    assert set(_by_key(_plan(files, RECORD))) == set(_by_key(FIRST))
    first = _plan(FILES, flavour="direct")
    found = _by_key(_plan(files, _released(first.wrappers), flavour="direct"))
    assert set(found) - set(_by_key(first)) == {"torch-cu116==1.13.1.post1"}
    assert "another sha256" in (found["torch-cu116==1.13.1"].yanked or "")


def test_the_flavours_are_released_apart() -> None:
    found = _plan(FILES, RECORD, flavour="direct")
    assert [wrapper.version for wrapper in found.wrappers] == ["1.13.1"] * len(found.wrappers)


@pytest.mark.parametrize(
    ("release", "expected"),
    [("1.13.1rc2", "1.13.1rc2.post1"), ("1.13.1.post3", "1.13.1.post4"), ("1!2.0", "1!2.0.post1")],
)
def test_a_reissue_sorts_after_what_it_replaces_and_is_no_version_of_upstreams(release: str, expected: str) -> None:
    text = TORCH.replace('plain = "cpu"', 'plain = "cpu"\nprereleases = true')
    files = [file for file in torch_files(release) if file.project == "torch"]
    first = _plan(files, text=text)
    more = [*files, wheel(f"torch-{release}+cu117-{CP312}.whl", "cu117")]
    found = {w.version for w in _plan(more, _released(first.wrappers), text=text).wrappers if w.name == "torch-cu117"}
    assert found == {release, expected}
    assert Version(expected) > Version(release)


def test_a_release_of_upstreams_never_takes_the_version_of_a_reissue() -> None:
    second = _released(w for w in _plan(NEW_CELL, RECORD).wrappers if w.reissued)
    post = [wheel(f"torch-1.13.1.post1+cu117-{CP312}.whl", "cu117")]
    found = _plan([*NEW_CELL, *post], [*RECORD, *second]).wrappers
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
        found = _by_key(_plan(files, record.values()))
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
        record |= {item.key: item for item in _released(w for w in found.values() if w.key not in record)}
        again = _by_key(_plan(files, record.values()))
        assert again.keys() == found.keys(), "the same state twice issues nothing new"
