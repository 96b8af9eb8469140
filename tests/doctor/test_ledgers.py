"""What ledgers add: files that a lock does not name, other hashes, yanked builds, and sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.version import Version

from metawheel.doctor import Options, examine
from metawheel.doctor.case import Case
from metawheel.doctor.examine import choose_targets, judge
from metawheel.doctor.known import known, last_release
from metawheel.doctor.ledgers import Ledgers, ledgers_of, load_ledgers
from metawheel.doctor.reading import read_project
from metawheel.doctor.targets import PLATFORMS
from metawheel.model import UpstreamFile
from tests.doctor.projects import copied
from tests.fakes.ledgers import PACKAGES

ROOT = "https://download.pytorch.org/whl/"
LINUX = "torch-2.9.1+cpu-cp310-cp310-linux_x86_64.whl"


def file(name: str, sha256: str | None = "00", **facts: object) -> UpstreamFile:
    folder = facts.pop("folder", "cpu")
    url = f"{ROOT}{folder}/{name.replace('+', '%2B')}"
    return UpstreamFile(filename=name, source="pytorch", url=url, sha256=sha256, **facts)  # type: ignore[arg-type]


def codes(project: Path, ledgers: Ledgers, *targets: str) -> list[tuple[str, str]]:
    read = read_project(project)
    case = Case(project=read, targets=choose_targets(read, Options(targets=targets)), ledgers=ledgers)
    return [(finding.code, finding.message) for finding in judge(case)]


def locked_hash(project: Path) -> str:
    lock = (project / "uv.lock").read_text(encoding="utf-8")
    return lock.partition("linux_x86_64.whl")[2].partition("sha256:")[2].partition('"')[0]


def test_a_hash_that_upstream_s_file_has_not_is_an_alarm(tmp_path: Path) -> None:
    project = copied("healthy-uv-cpu", tmp_path)

    assert codes(project, ledgers_of([file(LINUX, locked_hash(project))])) == []
    assert codes(project, ledgers_of([file(LINUX, None)])) == []
    (found,) = codes(project, ledgers_of([file(LINUX, "ff")]))
    assert found[0] == "MW403"
    assert LINUX in found[1]


def test_the_same_name_on_another_host_may_have_another_hash(tmp_path: Path) -> None:
    project = copied("healthy-uv-cpu", tmp_path)
    mac = file("torch-2.9.1-cp310-none-macosx_11_0_arm64.whl", "ff")

    assert codes(project, ledgers_of([mac])) == []


def test_a_yanked_build_is_told_with_upstream_s_reason(tmp_path: Path) -> None:
    project = copied("healthy-uv-cpu", tmp_path)
    good = locked_hash(project)

    found = codes(project, ledgers_of([file(LINUX, good, yanked="broken nms")]))

    assert found == [("MW404", "torch 2.9.1+cpu was yanked upstream: broken nms")]


def test_a_pin_without_a_lock_is_judged_by_what_upstream_has(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        f"--extra-index-url {ROOT}cu118\ntorch==2.9.1+cu118 ; sys_platform != 'darwin'\n", encoding="utf-8"
    )
    names = ("torch-2.9.1+cu118-cp312-cp312-linux_x86_64.whl", "torch-2.9.1+cu118-cp312-cp312-win_amd64.whl")
    ledgers = ledgers_of([file(name, folder="cu118") for name in names])

    assert codes(tmp_path, ledgers, "linux-x86_64", "windows-amd64") == []
    assert [code for code, _ in codes(tmp_path, ledgers, "linux-aarch64")] == ["MW101"]


def test_a_lock_that_names_hashes_only_is_judged_by_the_files_that_have_them(tmp_path: Path) -> None:
    lock = {
        "_meta": {"requires": {"python_version": "3.12"}, "sources": []},
        "default": {"torch": {"hashes": ["sha256:aa", "sha256:bb"], "version": "==2.9.1+cu118"}},
    }
    (tmp_path / "Pipfile.lock").write_text(json.dumps(lock, indent=4), encoding="utf-8")
    ledgers = ledgers_of(
        [
            file("torch-2.9.1+cu118-cp312-cp312-linux_x86_64.whl", "aa", folder="cu118"),
            file("torch-2.9.1+cu118-cp312-cp312-win_amd64.whl", "bb", folder="cu118"),
        ]
    )

    assert codes(tmp_path, ledgers, "linux-x86_64", "windows-amd64") == []
    assert [code for code, _ in codes(tmp_path, ledgers, "linux-aarch64")] == ["MW101"]
    assert codes(tmp_path, Ledgers(), "linux-aarch64") == []


def test_a_relabelled_build_for_macos_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "--index-url https://wheels.example.org/cpu/simple/\ntorch==2.9.1+cpu\n", encoding="utf-8"
    )
    mac = file("torch-2.9.1+cpu-cp312-none-macosx_11_0_arm64.whl")

    assert codes(tmp_path, ledgers_of([mac]), "macos-arm64") == []
    assert [code for code, _ in codes(tmp_path, Ledgers(), "macos-arm64")] == ["MW102"]


def test_the_bytes_of_a_direct_url_are_told_where_they_are_recorded(tmp_path: Path) -> None:
    project = copied("pyproject-direct-url", tmp_path)
    wheel = file("torch-2.1.0+cu118-cp310-cp310-linux_x86_64.whl", size=2_325_905_106, folder="cu118")

    found = dict(codes(project, ledgers_of([wheel])))

    assert "2,325,905,106 bytes" in found["MW206"]
    assert "hundreds of megabytes" in dict(codes(project, Ledgers()))["MW206"]


def test_ledgers_are_read_only_for_families_that_the_project_has_to_do_with() -> None:
    assert load_ledgers(PACKAGES, ["numpy"]) == Ledgers()
    assert load_ledgers(PACKAGES, ["jaxlib"]).wheels("torch", Version("2.2.2")) == ()


def test_a_folder_of_families_is_found_above_the_project(tmp_path: Path) -> None:
    (tmp_path / "packages").symlink_to(PACKAGES)
    project = tmp_path / "project"
    project.mkdir()
    (project / "requirements.txt").write_text(f"--index-url {ROOT}cu118\ntorch==2.1.0+cu118\n", encoding="utf-8")

    report = examine(project, Options(targets=("linux-x86_64",), pythons=("3.11",)))

    assert [choice.filename for choice in report.choices] == ["torch-2.1.0+cu118-cp311-cp311-linux_x86_64.whl"]


@pytest.mark.parametrize("project", ["torch", "jaxlib"])
def test_the_last_release_for_intel_macs_is_the_ledgers_last(project: str) -> None:
    intel = PLATFORMS["macos-x86_64"]
    ledgers = load_ledgers(PACKAGES, [project])
    there = [
        version
        for name, version in ledgers.by_version
        if name == project and any(ledgers.wheel_for(name, version, intel.with_python(f"3.{n}")) for n in range(8, 15))
    ]

    assert max(there) == last_release(project, intel)  # type: ignore[arg-type]


def test_pairs_are_those_that_the_companions_own_metadata_says() -> None:
    ledgers = load_ledgers(PACKAGES, ["torchvision"])
    checked = 0
    for (name, version), files in sorted(ledgers.by_version.items()):
        if name not in known()["companions"]:
            continue
        for line in {line for file in files for line in file.requires or ()}:
            torch = line.replace("(", "").replace(")", "").partition("==")[2].strip()
            row = known()["pairs"].get(torch)
            number = known()["companions"].index(name)
            if row is not None and row[number]:
                checked += 1
                assert version.public == row[number] or Version(version.public) < Version(row[number]), (line, version)
    assert checked > 20
