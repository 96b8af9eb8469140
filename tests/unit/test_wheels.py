"""The wrappers' wheels: valid, and the same bytes wherever and however they are built."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from metawheel.errors import BuildError
from metawheel.family import load_families
from metawheel.headline import headline
from metawheel.model import Wrapper
from metawheel.plan import plan
from metawheel.project import TAG_VARIABLE, render_project
from metawheel.wheels import Job, build_wheels, write_project
from tests.fakes.ledgers import PACKAGES, TORCH, committed_plan, torch_files, write_family


def _build(wrappers: Sequence[Wrapper], folder: Path, workers: int | None = None) -> dict[str, bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [Job.of(wrapper) for wrapper in wrappers]
    found = list(build_wheels(jobs, folder, lambda done, total: None, work=folder / "work", workers=workers))
    content = {artifact.filename: (folder / artifact.filename).read_bytes() for artifact in found}
    for artifact in found:
        assert artifact.size == len(content[artifact.filename])
        assert artifact.sha256 == hashlib.sha256(content[artifact.filename]).hexdigest()
        sidecar = (folder / f"{artifact.filename}.metadata").read_bytes()
        assert artifact.metadata_sha256 == hashlib.sha256(sidecar).hexdigest()
        assert sidecar == _member(content[artifact.filename], "METADATA")
    return content


def _member(wheel: bytes, name: str) -> bytes:
    with ZipFile(io.BytesIO(wheel)) as archive:
        (found,) = (item for item in archive.namelist() if item.endswith(f".dist-info/{name}"))
        return archive.read(found)


@pytest.fixture(scope="module")
def headlines() -> list[Wrapper]:
    """The wrapper of each committed family folder."""
    found = [headline(family, committed_plan()) for family in load_families(PACKAGES)]
    return [wrapper for wrapper in found if wrapper is not None]


@pytest.fixture(scope="module")
def built(headlines: list[Wrapper], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    _build(headlines, folder)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Wrapper, ...]:
    family = write_family(tmp_path_factory.mktemp("family") / "torch", TORCH, [])
    return plan([family], {"torch": torch_files()}).wrappers


def test_every_family_folder_has_a_headline_wrapper(headlines: list[Wrapper]) -> None:
    assert [wrapper.name for wrapper in headlines] == ["jaxlib-select", "torch-cpu", "torch-cuda"]


@pytest.mark.parametrize("workers", [None, 2])
def test_same_inputs_give_the_same_bytes(
    small: tuple[Wrapper, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int | None
) -> None:
    first = _build(small, tmp_path / "one")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    monkeypatch.setenv("PYTHONHASHSEED", "12345")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv(TAG_VARIABLE, small[0].tags[-1])
    monkeypatch.setenv("LC_ALL", "C")
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0o077)
    try:
        second = _build(small[::-1], Path("another [1] folder") / "below", workers)
    finally:
        os.umask(mask)
    assert dict(os.environ) == before
    assert first == second
    assert set(first) == {name for wrapper in small for name in wrapper.wheels}


def test_another_wrapper_gives_other_bytes(small: tuple[Wrapper, ...], tmp_path: Path) -> None:
    content = _build(small, tmp_path)
    assert len({hashlib.sha256(data).hexdigest() for data in content.values()}) == len(content)


def _hook(project: Path, output: Path, tag: str = "") -> str:
    code = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, output],
        cwd=project,
        env={**os.environ, TAG_VARIABLE: tag},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().splitlines()[-1]


def test_the_standard_hook_in_a_fresh_folder_gives_the_same_bytes(
    headlines: list[Wrapper], built: Path, tmp_path: Path
) -> None:
    wrapper = next(wrapper for wrapper in headlines if len(wrapper.tags) > 1)
    write_project(render_project(wrapper), tmp_path / "project")
    assert _hook(tmp_path / "project", tmp_path) == wrapper.wheels[0]
    for name, tag in zip(wrapper.wheels, wrapper.tags, strict=True):
        assert _hook(tmp_path / "project", tmp_path, tag) == name
        assert (tmp_path / name).read_bytes() == (built / name).read_bytes()


def test_a_tag_that_the_wrapper_does_not_have_is_refused(headlines: list[Wrapper], tmp_path: Path) -> None:
    write_project(render_project(headlines[0]), tmp_path / "project")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        _hook(tmp_path / "project", tmp_path, "py3-none-any")
    assert "is not one of this wrapper's tags" in caught.value.stderr


def _python_m_build(project: Path, output: Path, *options: str, tag: str = "") -> None:
    command = [sys.executable, "-m", "build", str(project), "--no-isolation", "-o", str(output), *options]
    subprocess.run(command, env={**os.environ, TAG_VARIABLE: tag}, capture_output=True, check=True)


@pytest.mark.parametrize("family", ["jaxlib-select", "torch-cpu", "torch-cuda"])
def test_stock_build_of_a_family_folder_gives_the_same_bytes(
    headlines: list[Wrapper], built: Path, tmp_path: Path, family: str
) -> None:
    wrapper = next(wrapper for wrapper in headlines if wrapper.family == family)
    _python_m_build(PACKAGES / family, tmp_path, "--wheel")
    (made,) = tmp_path.glob("*.whl")
    assert made.name == wrapper.wheels[0]
    assert made.read_bytes() == (built / made.name).read_bytes()


def test_stock_build_gives_the_wheels_with_the_other_tags_too(
    headlines: list[Wrapper], built: Path, tmp_path: Path
) -> None:
    wrapper = next(wrapper for wrapper in headlines if wrapper.family == "torch-cpu")
    assert len(wrapper.tags) > 1
    for name, tag in zip(wrapper.wheels, wrapper.tags, strict=True):
        _python_m_build(PACKAGES / "torch-cpu", tmp_path, "--wheel", tag=tag)
        assert (tmp_path / name).read_bytes() == (built / name).read_bytes()


def test_a_wheel_built_by_way_of_the_sdist_is_the_same_wheel(
    headlines: list[Wrapper], built: Path, tmp_path: Path
) -> None:
    wrapper = next(wrapper for wrapper in headlines if wrapper.family == "torch-cpu")
    _python_m_build(PACKAGES / "torch-cpu", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {wrapper.wheels[0], f"torch_cpu-{wrapper.version}.tar.gz"}
    assert (tmp_path / wrapper.wheels[0]).read_bytes() == (built / wrapper.wheels[0]).read_bytes()


def test_record_names_every_file_with_its_hash_and_size(built: Path) -> None:
    for path in built.glob("*.whl"):
        with ZipFile(path) as wheel:
            content = {name: wheel.read(name) for name in wheel.namelist()}
            assert len(content) == len(wheel.infolist())
        (record,) = (name for name in content if name.endswith(".dist-info/RECORD"))
        rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(content[record].decode()))}
        assert rows.pop(record) == ("", "")
        assert set(rows) == set(content) - {record}
        for name, (digest, size) in rows.items():
            kind, _, value = digest.partition("=")
            assert kind == "sha256"
            assert base64.urlsafe_b64decode(value + "==") == hashlib.sha256(content[name]).digest()
            assert int(size) == len(content[name])


def test_a_wheel_holds_no_code(built: Path) -> None:
    for path in built.glob("*.whl"):
        info = "-".join(path.name.split("-")[:2]) + ".dist-info"
        with ZipFile(path) as wheel:
            names = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
            assert set(wheel.namelist()) == names


def test_wheel_tags_are_those_of_the_file_name(built: Path) -> None:
    for path in built.glob("*.whl"):
        lines = _member(path.read_bytes(), "WHEEL").decode().splitlines()
        tags = {line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")}
        assert tags == {str(tag) for tag in parse_wheel_filename(path.name)[3]}


def test_metadata_is_version_2_4_and_says_what_was_planned(headlines: list[Wrapper], built: Path) -> None:
    for wrapper in headlines:
        for name in wrapper.wheels:
            metadata = Metadata.from_email(_member((built / name).read_bytes(), "METADATA"))
            assert metadata.metadata_version == "2.4"
            assert (metadata.name, str(metadata.version)) == (wrapper.name, wrapper.version)
            assert str(metadata.requires_python) == wrapper.requires_python
            lines = [line for line in metadata.requires_dist or [] if "extra ==" not in str(line.marker)]
            assert {str(line) for line in lines} == {str(Requirement(line)) for line in wrapper.requires}
            assert set(metadata.provides_extra or ()) == {extra for extra, _ in wrapper.extras}


def test_twine_finds_nothing_wrong_with_the_headline_wrappers(built: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *sorted(map(str, built.glob("*.whl")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == len(list(built.glob("*.whl")))


@pytest.mark.parametrize("workers", [None, 1])
def test_a_wrapper_that_cannot_be_built_is_named(tmp_path: Path, workers: int | None) -> None:
    wheel = "torch_cu999-9.9-py3-none-any.whl"
    tree = {"pyproject.toml": '[build-system]\nrequires = []\n[project]\nname = "x"\n'}
    job = Job(key="torch-cu999==9.9", tree=tree, wheels=(wheel,), wanted=frozenset({wheel}))
    with pytest.raises(BuildError, match=r"torch-cu999==9\.9: hatchling could not build"):
        list(build_wheels([job], tmp_path, lambda done, total: None, work=tmp_path / "work", workers=workers))


def test_a_worker_that_is_killed_is_told_of_with_the_wrapper(headlines: list[Wrapper], tmp_path: Path) -> None:
    job = Job.of(headlines[0])
    deadly = replace(
        job, tree={**job.tree, "hatch_build.py": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"}
    )
    with pytest.raises(BuildError, match=f"{re.escape(job.key)}: the worker process died"):
        list(build_wheels([deadly], tmp_path, lambda done, total: None, work=tmp_path / "work", workers=1))


def test_a_build_that_is_broken_off_has_ended_its_workers(small: tuple[Wrapper, ...], tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    jobs = [Job.of(wrapper) for wrapper in small]
    with pytest.raises(KeyboardInterrupt) as held:
        list(build_wheels(jobs, tmp_path, stop, work=tmp_path / "work", workers=2))
    assert multiprocessing.active_children() == []
    assert held.tb is not None, "also while someone looks at where it was"


@pytest.mark.parametrize("workers", [None, 1])
def test_nothing_of_a_build_lies_in_the_system_s_temporary_folder(
    small: tuple[Wrapper, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int | None
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert _build(small[:1], tmp_path / "built", workers)
    assert tempfile.tempdir == str(tmp_path / "missing")


def test_wheels_are_built_though_the_folder_that_one_is_in_has_gone(
    small: tuple[Wrapper, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert _build(small[:1], tmp_path / "built")


def test_only_the_wheels_that_are_wanted_are_made(headlines: list[Wrapper], built: Path, tmp_path: Path) -> None:
    wrapper = next(wrapper for wrapper in headlines if len(wrapper.wheels) > 1)
    last = wrapper.wheels[-1]
    job = replace(Job.of(wrapper), wanted=frozenset({last}))
    assert [
        item.filename for item in build_wheels([job], tmp_path, lambda done, total: None, work=tmp_path / "work")
    ] == [last]
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {last, f"{last}.metadata"}
    assert (tmp_path / last).read_bytes() == (built / last).read_bytes()


def test_nothing_to_build_builds_nothing(tmp_path: Path) -> None:
    assert list(build_wheels([], tmp_path, lambda done, total: None, work=tmp_path / "work")) == []
    assert list(tmp_path.iterdir()) == []
