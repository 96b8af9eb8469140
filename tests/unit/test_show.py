"""`metawheel show` tells what a wrapper covers, what it leaves out and why."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from metawheel.cli import app
from metawheel.cli.show import show_json, show_text
from metawheel.errors import UnknownName
from metawheel.plan import plan
from metawheel.show import find
from tests.fakes.ledgers import PACKAGES, TORCH, committed_plan, wheel, wrapper_of, write_family

CUDA = "torch-cu116==1.13.1"


@functools.cache
def _show(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["show", *arguments, "--packages", str(PACKAGES)])
    assert done.exit_code == 0, done.output
    return done.output


def _rows(text: str) -> dict[str, Sequence[str]]:
    """The coverage map as people read it: columns are two spaces apart."""
    lines = [line.split("  ") for line in text.splitlines() if line.startswith(("platform", "macOS", "Linux", "Win"))]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:] if cell.strip()] for cells in lines}


def test_the_coverage_map_says_which_build_each_interpreter_gets_on_each_platform() -> None:
    rows = _rows(_show(CUDA))
    assert rows["platform"] == ["cp37", "cp38", "cp39", "cp310"]
    assert rows["Linux x86_64"] == ["1.13.1+cu116"] * 4
    assert rows["Windows AMD64"] == ["–", *["1.13.1+cu116"] * 3]
    assert rows["macOS arm64"] == rows["macOS x86_64"] == ["1.13.1"] * 4


def test_the_text_has_every_requirement_line_and_wheel() -> None:
    text = _show(CUDA)
    wrapper = wrapper_of(committed_plan(), "torch-cu116", "1.13.1")
    for line in (*wrapper.requires, *(line for _, lines in wrapper.extras for line in lines), *wrapper.wheels):
        assert line in text


def test_json_says_the_same_as_the_text() -> None:
    data = json.loads(_show(CUDA, "--json"))
    wrapper = wrapper_of(committed_plan(), "torch-cu116", "1.13.1")
    assert (data["name"], data["version"], data["emitted"]) == ("torch-cu116", "1.13.1", True)
    assert data["requires_dist"] == list(wrapper.requires)
    assert data["wheels"] == list(wrapper.wheels)
    rows = _rows(_show(CUDA))
    for row in data["coverage"]:
        assert [row["builds"][python] or "–" for python in rows["platform"]] == rows[row["platform"]]
    linux = next(row for row in data["coverage"] if row["sys_platform"] == "linux")
    assert linux["platform_machine"] == "x86_64"


def test_what_is_left_out_is_told_with_its_reason() -> None:
    text = _show(CUDA)
    assert "torch-1.13.1+cu116-cp37-cp37m-win_amd64.whl: upstream states no sha256" in text
    data = json.loads(_show(CUDA, "--json"))
    assert all(omission["reason"] for omission in data["omissions"])
    assert any("cp37m-win_amd64" in omission["what"] for omission in data["omissions"])


def test_a_wrapper_that_is_not_emitted_explains_why() -> None:
    text = _show("torch-cu102==1.8.0")
    assert "is not emitted" in text
    assert "linux x86_64: " in text
    data = json.loads(_show("torch-cu102==1.8.0", "--json"))
    assert data["emitted"] is False
    assert data["omissions"]


def test_without_a_version_the_newest_is_shown() -> None:
    newest = max(
        (w.version for w in committed_plan().wrappers if w.name == "torch-cu128"),
        key=lambda version: [int(part) for part in version.split(".")],
    )
    assert find(committed_plan(), "torch-cu128").version == newest


@pytest.mark.parametrize("wanted", ["torch-cu116==1.13.1", "Torch_CU116==1.13.1", "torch.cu116 == 1.13.1"])
def test_a_name_is_found_however_it_is_spelt(wanted: str) -> None:
    shown = find(committed_plan(), wanted)
    assert (shown.name, shown.version) == ("torch-cu116", "1.13.1")


def test_a_version_is_found_however_it_is_spelt() -> None:
    assert find(committed_plan(), "torch-cpu==2.13").version == "2.13.0"


def test_a_name_that_there_is_not_suggests_near_ones() -> None:
    with pytest.raises(UnknownName, match=r"no wrapper is named 'torch-cu1166'; did you mean torch-cu116[,?]"):
        find(committed_plan(), "torch-cu1166")


def test_a_version_that_there_is_not_names_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"has no version 9\.9; upstream has 1\.13\.1"):
        find(committed_plan(), "torch-cu116==9.9")


@pytest.mark.parametrize("wanted", ["torch-cu116>=1.13", "torch cu116", "", "torch-cu116==1.12.1,==1.13.1"])
def test_what_is_no_name_and_version_is_refused(wanted: str) -> None:
    with pytest.raises(UnknownName, match="is not NAME or NAME==VERSION"):
        find(committed_plan(), wanted)


def test_a_series_of_versions_is_refused() -> None:
    with pytest.raises(UnknownName):
        find(committed_plan(), "torch-cu116==1.13.*")


def test_an_unknown_name_exits_9_with_one_clear_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metawheel", "show", "torch-cu161", "--packages", str(PACKAGES)],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 9
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("metawheel: error: no wrapper is named 'torch-cu161'; did you mean ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_standard_output_that_takes_no_more_exits_8_with_one_clear_sentence(options: Sequence[str]) -> None:
    command = [sys.executable, "-m", "metawheel", "show", CUDA, "--packages", str(PACKAGES), *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 8
    assert done.stderr == "metawheel: error: standard output: cannot be written: No space left on device\n"


def test_an_extra_that_there_is_not_names_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"torch-cu128==2\.8\.0 has no extra nope; it has audio, vision$"):
        find(committed_plan(), "torch-cu128[vision,nope]==2.8.0")
    with pytest.raises(UnknownName, match="has no extra audio; it has none"):
        find(committed_plan(), "jaxlib-cpu[audio]")


def test_of_an_extra_that_was_left_out_the_reason_is_told() -> None:
    shown = find(committed_plan(), "torch-cu128[Vision]==2.9.1")
    assert shown.wrapper is not None
    assert "vision" not in dict(shown.wrapper.extras)
    assert any(omission.what.startswith("extra vision on ") for omission in shown.omissions)


def test_upstreams_text_cannot_steer_a_terminal(tmp_path: Path) -> None:
    family = write_family(tmp_path / "torch", TORCH, [])
    file = wheel("torch-1.0+cu116-cp310-cp310-linux_x86_64.whl", "cu116", yanked="\x1b[2Jgone\nreally")
    shown = find(plan([family], {"torch": [file]}), "torch-cu116")
    assert shown.wrapper is not None
    assert "\x1b" not in show_text(shown)
    assert "gone\\nreally" in show_text(shown)
    assert show_json(shown)["yanked"] == "\x1b[2Jgone\nreally"


def test_what_a_wrapper_of_a_wrapper_leaves_out_is_told_with_the_reason() -> None:
    output = _show("torch-cuda==2.9.1")

    assert "linux x86_64: upstream states no sha256" in output.partition("left out:")[2]


@pytest.mark.parametrize("text", ["torch-cu130@2.9.1", "torch-cu130 ; sys_platform == 'linux'"])
def test_what_is_no_name_and_version_is_not_taken_for_the_newest(text: str) -> None:
    with pytest.raises(UnknownName, match="is not NAME or NAME==VERSION"):
        find(committed_plan(), text)
