"""The committed family folders are projects of their headline wrappers, and current."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from metawheel.choose import UNHASHED
from metawheel.family import load_families
from metawheel.headline import headline, write_headlines
from metawheel.plan import plan
from metawheel.project import render_project
from tests.fakes.ledgers import PACKAGES, TORCH, committed_plan, torch_files, wheel, write_family

FOLDERS = ["jaxlib-select", "torch-cpu", "torch-cuda"]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", ["pyproject.toml", "README.md", "hatch_build.py", "LICENSE"])
def test_the_committed_project_files_are_what_is_rendered_now(folder: str, name: str) -> None:
    (family,) = load_families(PACKAGES, [folder])
    wrapper = headline(family, committed_plan())
    assert wrapper is not None
    assert (PACKAGES / folder / name).read_text(encoding="utf-8") == render_project(wrapper)[name]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_family_folder_is_the_project_of_its_headline_wrapper(folder: str) -> None:
    project = tomllib.loads((PACKAGES / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == folder
    assert "dynamic" not in project
    newer = [
        w for w in committed_plan().wrappers if w.name == folder and Version(w.version) > Version(project["version"])
    ]
    for wrapper in newer:
        omissions = committed_plan().omissions
        waiting = {(o.wrapper, o.version) for o in omissions if o.reason == UNHASHED and "extra" not in o.what}
        needed = {(line.partition("==")[0], wrapper.version) for line in wrapper.requires}
        assert waiting & {(wrapper.name, wrapper.version), *needed}, f"{wrapper.key} has a full ledger"


def test_the_headline_is_the_newest_release_with_a_full_ledger(tmp_path: Path) -> None:
    family = write_family(tmp_path / "torch", TORCH, [])
    hashed = [*torch_files(), *torch_files("2.0.0", "0.15.0")]
    found = headline(family, plan([family], {"torch": hashed}))
    assert found is not None
    assert found.key == "torch-cpu==2.0.0"
    waiting = wheel("torch-2.0.0+cpu-cp312-cp312-linux_x86_64.whl", "cpu", hashed=False)
    found = headline(family, plan([family], {"torch": [*hashed, waiting]}))
    assert found is not None
    assert found.key == "torch-cpu==1.13.1"


def test_a_yanked_release_is_no_headline(tmp_path: Path) -> None:
    family = write_family(tmp_path / "torch", TORCH, [])
    yanked = [wheel(f.filename, "cpu", yanked="bad") for f in torch_files("2.0.0") if f.local in ("cpu", None)]
    found = headline(family, plan([family], {"torch": [*torch_files(), *yanked]}))
    assert found is not None
    assert found.version == "1.13.1"


def test_a_family_without_hashed_files_has_no_headline_and_no_project_is_written(tmp_path: Path) -> None:
    files = [wheel(file.filename, "cpu", hashed=False) for file in torch_files()]
    family = write_family(tmp_path / "torch", TORCH, files)
    planned = plan([family], {"torch": files})
    assert headline(family, planned) is None
    assert write_headlines([family], planned) == []


def test_writing_the_projects_again_changes_nothing(tmp_path: Path) -> None:
    family = write_family(tmp_path / "torch", TORCH, torch_files())
    planned = plan([family], {"torch": torch_files()})
    names = {str(family.folder / name) for name in ("pyproject.toml", "README.md", "hatch_build.py", "LICENSE")}
    assert set(write_headlines([family], planned, write=False)) == names
    assert not (family.folder / "pyproject.toml").exists()
    assert set(write_headlines([family], planned)) == names
    assert write_headlines([family], planned) == []
    (family.folder / "README.md").write_text("edited", encoding="utf-8")
    assert write_headlines([family], planned) == [str(family.folder / "README.md")]
