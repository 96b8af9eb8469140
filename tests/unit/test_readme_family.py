"""The family that the README adds stands beside the committed ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from metawheel.family import load_families
from metawheel.inputs import Options, make_plan
from tests.fakes.ledgers import PACKAGES, REPOSITORY, wheel, write_family


def test_the_readmes_family_for_rocm_stands_beside_the_others(tmp_path: Path) -> None:
    section = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition("## Add a family")[2]
    told = re.findall(r"`([^`]+)` to `([^`]+)`", section)
    text = (PACKAGES / "torch-cuda" / "family.toml").read_text(encoding="utf-8")
    for old, new in told:
        assert old in text
        text = text.replace(old, new)
    shutil.copytree(PACKAGES, tmp_path / "packages")
    name = "torch-2.9.1+rocm6.4-cp311-cp311-manylinux_2_28_x86_64.whl"
    write_family(tmp_path / "packages" / "torch-rocm", text, [wheel(name, "rocm6.4", source="pytorch")])

    names = {wrapper.name for wrapper in make_plan(load_families(tmp_path / "packages"), Options()).wrappers}

    assert {"torch-rocm", "torch-rocm6-4", "torch-cuda", "torch-cpu"} <= names
