"""Markers are disjoint and cover everything; guards say what the cells say. Judged by independent oracles."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import replace

import pytest
from dep_logic.markers import parse_marker
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.tags import Tag

from metawheel.model import Cell, Platform
from metawheel.tags import (
    MAX_FILE_NAME,
    PythonTag,
    complement,
    guards,
    intersect,
    marker,
    partition,
    platforms,
    system_version,
)
from tests.fakes.ledgers import INTERPRETERS, environment, environments, expanded, reached, untimed

PLATFORMS = (
    Platform("linux", "x86_64"),
    Platform("linux", "aarch64"),
    Platform("linux", "s390x"),
    Platform("darwin", "arm64"),
    Platform("darwin", "x86_64"),
    Platform("win32", "AMD64"),
    Platform("win32", "ARM64"),
    Platform("win32", "x86"),
)
PLATFORM_TAGS = (
    "linux_x86_64",
    "linux_s390x",
    "manylinux1_x86_64",
    "manylinux2014_aarch64",
    "manylinux_2_28_x86_64",
    "manylinux_2_28_aarch64",
    "macosx_10_9_x86_64",
    "macosx_11_0_arm64",
    "macosx_10_9_universal2",
    "win_amd64",
    "win_arm64",
)

some_platforms = st.sets(st.sampled_from(PLATFORMS), min_size=1)
pin_tables = st.dictionaries(st.sampled_from(PLATFORMS), st.sampled_from(["t==1", "t==1+cpu", "t==1+cu116"]))


def _condition(text: str | None, where: dict[str, str]) -> bool:
    return text is None or Marker(text).evaluate(where)


@untimed
@given(pin_tables)
def test_in_every_environment_exactly_one_branch_holds_and_it_is_the_right_one(pins: dict[Platform, str]) -> None:
    branches = partition(pins, "t==1")
    for where in environments():
        platform = Platform(where["sys_platform"], where["platform_machine"])
        assert [pin for pin, text in branches if _condition(text, where)] == [pins.get(platform, "t==1")]


@untimed
@given(pin_tables)
def test_branches_are_disjoint_and_complete_by_marker_logic(pins: dict[Platform, str]) -> None:
    texts = [text for _, text in partition(pins, "t==1")]
    if texts == [None]:
        return
    parsed = [parse_marker(text or "") for text in texts]
    for number, one in enumerate(parsed):
        assert all((one & other).is_empty() for other in parsed[number + 1 :])
    assert functools.reduce(operator.or_, parsed).is_any()


@untimed
@given(pin_tables)
def test_every_branch_is_a_requirement_that_parses(pins: dict[Platform, str]) -> None:
    for pin, text in partition(pins, "t==1"):
        assert str(Requirement(f"{pin} ; {text}" if text else pin).specifier) == pin.removeprefix("t")


@untimed
@given(some_platforms)
def test_marker_holds_on_its_platforms_only_and_complement_everywhere_else(found: set[Platform]) -> None:
    for where in environments():
        inside = Platform(where["sys_platform"], where["platform_machine"]) in found
        assert Marker(marker(found)).evaluate(where) is inside
        assert Marker(complement(found)).evaluate(where) is not inside


def test_a_marker_has_no_more_brackets_than_it_needs_and_linux_first() -> None:
    windows = [Platform("win32", "AMD64")]
    assert marker(windows) == 'sys_platform == "win32" and platform_machine == "AMD64"'
    assert complement(windows) == 'sys_platform != "win32" or platform_machine != "AMD64"'
    linux = [Platform("linux", machine) for machine in ("x86_64", "aarch64")]
    either = 'sys_platform == "linux" and (platform_machine == "aarch64" or platform_machine == "x86_64")'
    neither = 'sys_platform != "linux" or (platform_machine != "aarch64" and platform_machine != "x86_64")'
    assert (marker(linux), complement(linux)) == (either, neither)
    for other in (windows, [Platform("darwin", "arm64")]):
        assert marker([*other, *linux]) == f"({marker(linux)}) or ({marker(other)})"
        assert complement([*other, *linux]) == f"({complement(linux)}) and ({complement(other)})"


def test_branches_are_in_order_of_the_systems_and_the_last_is_for_all_others() -> None:
    pins = {Platform(system, "m"): system for system in ("win32", "darwin", "linux")}
    assert [pin for pin, _ in partition(pins, "other")] == ["linux", "darwin", "win32", "other"]


def test_markers_do_not_depend_on_the_order_of_platforms() -> None:
    assert marker(PLATFORMS) == marker(reversed(PLATFORMS))
    assert complement(PLATFORMS) == complement(reversed(PLATFORMS))


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("linux_x86_64", {Platform("linux", "x86_64")}),
        ("manylinux1_i686", {Platform("linux", "i686")}),
        ("manylinux2014_aarch64", {Platform("linux", "aarch64")}),
        ("manylinux_2_28_x86_64", {Platform("linux", "x86_64")}),
        ("musllinux_1_2_x86_64", {Platform("linux", "x86_64")}),
        ("macosx_11_0_arm64", {Platform("darwin", "arm64")}),
        ("macosx_10_9_universal2", {Platform("darwin", "arm64"), Platform("darwin", "x86_64")}),
        ("macosx_10_6_intel", {Platform("darwin", "x86_64")}),
        ("win_amd64", {Platform("win32", "AMD64")}),
        ("win_arm64", {Platform("win32", "ARM64")}),
        ("win32", {Platform("win32", "x86")}),
        ("any", set()),
        ("ios_13_0_arm64_iphoneos", set()),
        ("plan9_mips", set()),
    ],
)
def test_platform_tag_is_read_as_markers_see_it(tag: str, expected: set[Platform]) -> None:
    assert set(platforms(tag)) == expected


def test_stricter_systems_have_greater_versions() -> None:
    tags = ["linux_x86_64", "manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64"]
    tags += ["manylinux_2_28_x86_64", "manylinux_2_34_x86_64"]
    assert [system_version(tag) for tag in tags] == sorted({system_version(tag) for tag in tags})
    assert system_version("macosx_10_9_x86_64") < system_version("macosx_11_0_x86_64")


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("manylinux2014_aarch64", (2, 17)),
        ("manylinux_2_28_x86_64", (2, 28)),
        ("musllinux_1_2_x86_64", (1, 2)),
        ("macosx_10_9_universal2", (10, 9)),
        ("linux_x86_64", (0, 0)),
        ("win_amd64", (0, 0)),
    ],
)
def test_a_platform_tag_states_the_oldest_system_that_it_is_for(tag: str, expected: tuple[int, int]) -> None:
    assert system_version(tag) == expected


@pytest.mark.parametrize(
    ("interpreter", "abi", "version", "expected"),
    [
        ("cp311", "cp311", (3, 11), 'python_version == "3.11"'),
        ("cp39", "abi3", (3, 9), 'python_version >= "3.9"'),
        ("cp38", "none", (3, 8), 'python_version == "3.8"'),
        ("py38", "none", (3, 8), 'python_version >= "3.8"'),
        ("py3", "none", (3,), 'python_version >= "3"'),
        ("py", "none", (3,), 'python_version >= "3"'),
        ("py2", "none", (2,), None),
        ("cp27", "cp27mu", (2, 7), None),
        ("cp313", "cp313t", (3, 13), None),
        ("pp310", "pypy310_pp73", (3, 10), None),
    ],
)
def test_a_python_tag_is_read_as_markers_see_it(
    interpreter: str, abi: str, version: tuple[int, ...], expected: str | None
) -> None:
    assert PythonTag(interpreter, abi).version == version
    assert PythonTag(interpreter, abi).marker == expected


def _python_tags() -> list[tuple[str, str]]:
    own = [(f"cp{major}{minor}", abi) for major, minor, abi in INTERPRETERS]
    return [*own, *((python, "none") for python, _ in own), ("cp39", "abi3"), ("cp311", "abi3"), ("py3", "none")]


def _cell(python: tuple[str, str], platform_tag: str) -> Cell:
    platform = platforms(platform_tag)[0]
    return Cell(interpreter=python[0], abi=python[1], platform_tag=platform_tag, platform=platform, build="1")


def _tags(cells: Sequence[Cell]) -> set[Tag]:
    return {Tag(cell.interpreter, cell.abi, cell.platform_tag) for cell in cells}


cell_sets = st.lists(
    st.builds(_cell, st.sampled_from(_python_tags()), st.sampled_from(PLATFORM_TAGS)), min_size=1, max_size=30
)
names = st.sampled_from(["torch-cu116", "jaxlib-select", "a-wrapper-with-a-long-name-" + "x" * 120])


@untimed
@given(names, cell_sets)
def test_guards_let_in_the_interpreters_that_upstream_has_wheels_for_and_no_other(name: str, cells: list[Cell]) -> None:
    assert reached(expanded(guards(name, "1.0", cells))) == reached(_tags(cells))


@untimed
@given(cell_sets)
def test_guards_are_the_cells_but_for_an_abi_that_says_no_more(cells: list[Cell]) -> None:
    wanted = {(cell.interpreter, cell.platform_tag) for cell in cells}
    for tag in expanded(guards("torch-cu116", "1.0", cells)):
        assert (tag.interpreter, tag.platform) in wanted
        assert tag in _tags(cells) or tag.abi == "none"


@untimed
@given(names, cell_sets)
def test_no_file_name_is_too_long_unless_one_tag_alone_is(name: str, cells: list[Cell]) -> None:
    for tag_set in guards(name, "1.0", cells):
        length = len(f"{name.replace('-', '_')}-1.0-{tag_set}.whl".encode())
        assert length <= MAX_FILE_NAME or len(expanded([tag_set])) == 1


def test_a_name_that_leaves_no_room_still_gets_its_tags() -> None:
    cells = [_cell(("cp310", "cp310"), tag) for tag in PLATFORM_TAGS]
    found = guards("x" * 200, "1.0", cells)
    assert len(found) == len(PLATFORM_TAGS)
    assert reached(expanded(found)) == reached(_tags(cells))


@untimed
@given(cell_sets)
def test_guards_do_not_depend_on_the_order_of_cells(cells: list[Cell]) -> None:
    assert guards("t", "1.0", cells) == guards("t", "1.0", list(reversed(cells))) == guards("t", "1.0", cells * 2)


def test_a_rectangle_of_cells_is_one_wheel() -> None:
    cells = [_cell((python, python), tag) for python in ("cp310", "cp311") for tag in ("linux_x86_64", "win_amd64")]
    assert guards("t", "1.0", cells) == ("cp310.cp311-none-linux_x86_64.win_amd64",)


def test_the_interpreters_of_a_wheel_are_in_order_of_their_versions() -> None:
    cells = [_cell((python, python), "linux_x86_64") for python in ("cp310", "cp39", "cp311")]
    assert guards("t", "1.0", cells) == ("cp39.cp310.cp311-none-linux_x86_64",)


@pytest.mark.parametrize("python", ["cp310", "cp313"])
def test_an_interpreter_with_a_wheel_for_every_abi_needs_no_tag_of_its_own_abi(python: str) -> None:
    cells = [_cell((python, abi), "linux_x86_64") for abi in ("none", python)]
    assert guards("t", "1.0", cells) == (f"{python}-none-linux_x86_64",)
    stable = _cell((python, "abi3"), "linux_x86_64")  # it is for newer ones too
    assert guards("t", "1.0", [*cells, stable]) == (f"{python}-abi3-linux_x86_64", f"{python}-none-linux_x86_64")


@pytest.mark.parametrize(
    ("platform_tags", "parts"),
    [
        (["linux_x86_64", "win_amd64"], ("cp310.cp311-none-linux_x86_64", "cp310.cp311-none-win_amd64")),
        (["linux_x86_64"], ("cp310-none-linux_x86_64", "cp311-none-linux_x86_64")),
    ],
)
def test_a_tag_set_is_taken_apart_once_its_file_name_is_too_long(
    platform_tags: list[str], parts: tuple[str, ...]
) -> None:
    cells = [_cell((python, python), tag) for python in ("cp310", "cp311") for tag in platform_tags]
    (whole,) = guards("t", "1.0", cells)
    longest = "t" * (MAX_FILE_NAME - len(f"-1.0-{whole}.whl"))
    assert guards(longest, "1.0", cells) == (whole,)
    assert guards(f"{longest}t", "1.0", cells) == parts


def test_free_threaded_python_is_kept_apart_where_only_one_of_the_two_is_covered() -> None:
    linux = "manylinux_2_28_x86_64"
    assert guards("t", "1.0", [_cell(("cp313", "cp313"), linux)]) == (f"cp313-cp313-{linux}",)
    assert guards("t", "1.0", [_cell(("cp313", "cp313t"), linux)]) == (f"cp313-cp313t-{linux}",)
    both = [_cell(("cp313", abi), linux) for abi in ("cp313", "cp313t")]
    assert guards("t", "1.0", both) == (f"cp313-none-{linux}",)


@pytest.mark.parametrize("python", _python_tags())
def test_a_python_marker_holds_for_the_interpreters_of_its_tag(python: tuple[str, str]) -> None:
    tag = PythonTag(*python)
    if tag.abi.endswith("t"):
        assert tag.marker is None, "markers cannot tell free-threaded builds"
        return
    there = {abi for abi, _ in reached([Tag(*python, "linux_x86_64")]) if not abi.endswith("t")}
    for _, minor, abi in INTERPRETERS:
        if not abi.endswith("t"):
            where = environment("linux", "x86_64", f"3.{minor}")
            assert Marker(tag.marker or "").evaluate(where) is (abi in there)


@pytest.mark.parametrize("one", _python_tags())
def test_what_two_projects_cover_together_is_what_both_cover(one: tuple[str, str]) -> None:
    for two in _python_tags():
        _assert_meet(one, two)


def _assert_meet(one: tuple[str, str], two: tuple[str, str]) -> None:
    tag = "manylinux_2_28_x86_64"
    both = intersect([_cell(one, tag)], [_cell(two, tag)])
    assert reached(_tags(both)) == reached([Tag(*one, tag)]) & reached([Tag(*two, tag)])


@pytest.mark.parametrize("old", ["manylinux2014_x86_64", "manylinux_2_5_x86_64"])
def test_an_intersection_asks_for_the_stricter_system_and_keeps_the_first_ones_build(old: str) -> None:
    python = ("cp310", "cp310")
    one, other = _cell(python, old), replace(_cell(python, "manylinux_2_28_x86_64"), build="2")
    assert intersect([one], [other]) == (replace(other, build="1"),)
    assert intersect([other], [one]) == (other,)
    assert intersect([one], [_cell(python, "win_amd64")]) == ()


def test_an_intersection_is_in_order_of_the_interpreters_versions() -> None:
    cells = [_cell((f"cp3{minor}", f"cp3{minor}"), "linux_x86_64") for minor in (9, 10, 11)]
    assert intersect(reversed(cells), cells) == tuple(cells)
