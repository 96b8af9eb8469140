"""`metawheel build` on the command line: what it tells people and programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.here import Here
from tests.fakes.ledgers import JAXLIB, TORCH, UPSTREAM, families_in, jaxlib_files, torch_files, wheel, write_family
from tests.fakes.pages import Ran, state

# PyPI hosts some of a project's files, upstream the others.
MIXED = JAXLIB.replace(
    "[[plugin]]", f'[[source]]\nname = "up"\nkind = "links"\nurl = "{UPSTREAM}"\nprojects = ["jaxlib"]\n\n[[plugin]]'
)

UNHASHED = wheel("torch-1.14.0+cpu-cp311-cp311-linux_x86_64.whl", "cpu", hashed=False)


@pytest.fixture
def built(here: Here) -> Ran:
    families_in(here.packages)
    write_family(here.packages / "torch", TORCH, [*torch_files(), UNHASHED])
    return build(here, "--offline")


def build(here: Here, *arguments: str) -> Ran:
    return here.run(["build", "-o", str(here.site), "--packages", str(here.packages), *arguments])


def test_a_build_says_what_is_new_and_what_is_left_out(here: Here, built: Ran) -> None:
    assert built.code == 0
    assert built.err.startswith("metawheel: warning: PyPI was not asked (--offline)")
    first, *_, last = built.out.splitlines()
    assert first.startswith(f"{here.site}: ")
    assert "built, 0 as before)" in first
    assert last.startswith("left out in part or whole: ")


def test_a_build_of_the_same_again_says_so_and_touches_no_file(here: Here, built: Ran) -> None:
    before = state(here.site)
    again = build(here, "--offline")
    assert (again.code, again.err) == (0, "")
    assert "nothing changed" in again.out
    assert len(again.out.splitlines()) == 1
    assert state(here.site) == before


def test_json_says_what_was_built_and_what_was_left_out(here: Here) -> None:
    write_family(here.packages / "torch", TORCH, [*torch_files(), UNHASHED])
    said = json.loads(build(here, "--offline", "--json").out)
    manifest = json.loads((here.site / "metawheel.json").read_bytes())
    assert said["unchanged"] is False
    assert said["wheels"] == said["built"] == len(manifest["wheels"])
    assert {f"{item['name']}=={item['version']}" for item in manifest["wrappers"]} == set(said["wrappers"])
    assert {(item["wrapper"], item["version"]) for item in said["omissions"]} == {("torch-cpu", "1.14.0")}
    again = json.loads(build(here, "--offline", "--json").out)
    assert again["unchanged"] is True
    assert (again["wrappers"], again["wheels"], again["built"]) == (said["wrappers"], said["wheels"], 0)
    assert again["omissions"] is None, "nothing was planned, so it is not known"


def test_without_pypi_the_pages_that_lack_its_files_are_warned_of(here: Here) -> None:
    beside = wheel("jaxlib-0.4.4+cuda11-cp311-cp311-manylinux2014_x86_64.whl", "cuda11")
    write_family(here.packages / "jaxlib", MIXED, [beside, *jaxlib_files("0.4.4"), *jaxlib_files()])
    ran = build(here)
    assert ran.code == 0
    assert ran.err.startswith("metawheel: warning: PyPI was not reached")
    assert (
        "so the files that it hosts are on no page here: those of jax-cuda12-pjrt, jax-cuda12-plugin, jaxlib."
        in ran.err
    )


def test_the_projects_of_all_wrappers_can_be_had_too(here: Here, tmp_path: Path) -> None:
    families_in(here.packages)
    said = json.loads(build(here, "--offline", "--json", "--projects", str(tmp_path / "projects")).out)
    made = {path.parent.name for path in (tmp_path / "projects").glob("*/pyproject.toml")}
    assert len(made) == len(said["wrappers"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--flavour", "sweet"),
        ("--url", "site.example"),
        ("--mirror", "nowhere"),
        ("--mirror", "https://upstream.invalid/=htps://mirror.invalid/"),
        ("--mirror", "https://upstream.invalid/=https://[m/"),
    ],
)
def test_an_option_that_makes_no_sense_is_named_and_nothing_is_built(here: Here, option: str, value: str) -> None:
    families_in(here.packages)
    ran = build(here, option, value)
    assert ran.code == 2
    assert option in ran.err
    assert value.rpartition("=")[2] in ran.err
    assert not here.site.exists()
