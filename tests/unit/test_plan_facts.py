"""Known facts of the real upstreams, on the committed ledgers: which build each platform gets."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from metawheel.family import load_family
from metawheel.ledger import load
from metawheel.model import Wrapper
from metawheel.plan import plan
from metawheel.wheels import Job, build_wheels
from tests.fakes.ledgers import (
    PACKAGES,
    committed_plan,
    environment,
    environments,
    expanded,
    holds,
    pins,
    reached,
    sha256,
    wrapper_of,
)

CUDA = "torch-cu116", "1.13.1"
CPU = "torch-cpu", "2.13.0"
SELECT = "jaxlib-select", "0.4.4"
COMPAT = Path(__file__).parent / "data" / "compat.csv"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """The METADATA and the tags of some wrappers' built wheels."""
    folder = tmp_path_factory.mktemp("built")
    wrappers = [wrapper_of(committed_plan(), *key) for key in (CUDA, CPU, SELECT)]
    jobs = [Job.of(wrapper) for wrapper in wrappers]
    list(build_wheels(jobs, folder, lambda done, total: None, work=folder / "work", workers=1))
    found = {}
    for wrapper in wrappers:
        texts = set()
        for name in wrapper.wheels:
            with ZipFile(folder / name) as wheel:
                texts.add(wheel.read(f"{wrapper.distribution}-{wrapper.version}.dist-info/METADATA"))
        (text,) = texts  # each of a wrapper's wheels says the same
        tags = {tag for name in wrapper.wheels for tag in parse_wheel_filename(name)[3]}
        found[wrapper.name, wrapper.version] = {"lines": parse_email(text)[0]["requires_dist"], "tags": tags}
    return found


def _ledger(family: str, *beginnings: str) -> Iterable[dict[str, Any]]:
    """The lines of a ledger, read without the builder's help."""
    for line in (PACKAGES / family / "ledger.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        facts = json.loads(line)
        if facts["file"].startswith(beginnings) and "gone" not in facts:
            yield facts


def _hashed_tags(family: str, *beginnings: str, only: str = "") -> set[Tag]:
    files = [facts["file"] for facts in _ledger(family, *beginnings) if "sha256" in facts]
    return {tag for file in files for tag in parse_wheel_filename(file)[3] if only in tag.platform}


@pytest.mark.parametrize(
    ("key", "platform", "pin"),
    [
        (CUDA, ("linux", "x86_64"), "torch==1.13.1+cu116"),
        (CUDA, ("win32", "AMD64"), "torch==1.13.1+cu116"),
        (CUDA, ("darwin", "arm64"), "torch==1.13.1"),
        (CUDA, ("darwin", "x86_64"), "torch==1.13.1"),
        (CUDA, ("linux", "aarch64"), "torch==1.13.1"),
        (CUDA, ("win32", "ARM64"), "torch==1.13.1"),
        (CUDA, ("freebsd14", "amd64"), "torch==1.13.1"),
        (CPU, ("linux", "x86_64"), "torch==2.13.0+cpu"),
        (CPU, ("linux", "aarch64"), "torch==2.13.0+cpu"),
        (CPU, ("linux", "s390x"), "torch==2.13.0+cpu"),
        (CPU, ("win32", "AMD64"), "torch==2.13.0+cpu"),
        (CPU, ("win32", "ARM64"), "torch==2.13.0+cpu"),
        (CPU, ("darwin", "arm64"), "torch==2.13.0"),
        (SELECT, ("linux", "x86_64"), "jaxlib==0.4.4+cuda11.cudnn86"),
        (SELECT, ("darwin", "arm64"), "jaxlib==0.4.4"),
        (SELECT, ("darwin", "x86_64"), "jaxlib==0.4.4"),
    ],
)
def test_metadata_pins_the_right_build_on_each_platform(
    built: dict[tuple[str, str], dict[str, Any]], key: tuple[str, str], platform: tuple[str, str], pin: str
) -> None:
    assert pins(built[key]["lines"], pin.partition("==")[0], environment(*platform)) == [pin]


def test_torch_cu116_tags_name_exactly_the_hashed_cells(built: dict[tuple[str, str], dict[str, Any]]) -> None:
    expected = _hashed_tags("torch-cuda", "torch-1.13.1+cu116-")
    expected |= _hashed_tags("torch-cuda", "torch-1.13.1-", only="macosx")
    assert reached(built[CUDA]["tags"]) == reached(expected)
    systems = {platform for _, platform in reached(expected)}
    assert systems == {"linux_x86_64", "win_amd64", "macosx_11_0_arm64", "macosx_10_9_x86_64"}


def test_torch_cpu_tags_name_exactly_the_hashed_cells(built: dict[tuple[str, str], dict[str, Any]]) -> None:
    expected = _hashed_tags("torch-cpu", "torch-2.13.0+cpu-")
    expected |= _hashed_tags("torch-cpu", "torch-2.13.0-", only="macosx")
    assert reached(built[CPU]["tags"]) == reached(expected)


def test_jaxlib_select_has_cuda_for_cp38_to_cp311_and_the_plain_build_for_cp310_on_macos(
    built: dict[tuple[str, str], dict[str, Any]],
) -> None:
    linux = {(f"cp3{minor}", "manylinux2014_x86_64") for minor in (8, 9, 10, 11)}
    macos = {("cp310", "macosx_11_0_arm64"), ("cp310", "macosx_10_14_x86_64")}
    assert reached(built[SELECT]["tags"]) == linux | macos


def test_torch_cuda_requires_the_newest_cuda_wrapper_of_its_version() -> None:
    emitted = {(w.name, w.version) for w in committed_plan().wrappers}
    found = [w for w in committed_plan().wrappers if w.name == "torch-cuda"]
    assert {w.version for w in found} == {version for name, version in emitted if name.startswith("torch-cu")}
    for wrapper in found:
        of_version = {name for name, version in emitted if version == wrapper.version and name != "torch-cuda"}
        newest = max((int(name.removeprefix("torch-cu")), name) for name in of_version if name.startswith("torch-cu"))
        assert wrapper.requires == (f"{newest[1]}=={wrapper.version}",)


def test_companions_are_paired_as_their_metadata_says() -> None:
    with COMPAT.open(encoding="utf-8", newline="") as file:
        table = {row["torch"]: row for row in csv.DictReader(file)}
    seen = 0
    for wrapper in committed_plan().wrappers:
        for extra, lines in wrapper.extras:
            project = {"vision": "torchvision", "audio": "torchaudio"}[extra]
            for line in map(Requirement, lines):
                if line.name != project:  # torch-cuda hands its extras on
                    assert line.extras == {extra}
                    continue
                (pin,) = line.specifier
                version = Version(pin.version)
                assert pin.operator == "=="
                assert version.public == table[wrapper.version][project], wrapper.key
                assert version.local in (wrapper.view, None), wrapper.key
                seen += 1
    assert seen > 100


def test_an_extra_names_no_platform_that_the_wrapper_does_not_cover() -> None:
    for wrapper in committed_plan().wrappers:
        covered = {(cell.platform.sys_platform, cell.platform.machine) for cell in wrapper.cells}
        for _, lines in wrapper.extras:
            if not lines[0].startswith(("torchvision", "torchaudio")):
                continue
            for where in environments():
                found = pins(lines, Requirement(lines[0]).name, where)
                assert len(found) <= 1, wrapper.key
                assert not found or (where["sys_platform"], where["platform_machine"]) in covered, wrapper.key


@pytest.mark.parametrize("name", ["jaxlib-cuda12", "jax-cuda12", "jaxlib-select"])
def test_plugins_are_required_on_linux_only_and_all_of_one_version(name: str) -> None:
    eras = [w for w in committed_plan().wrappers if w.name == name and Version(w.version) >= Version("0.4.31")]
    assert eras
    for wrapper in eras:
        digits = next(name for name in ("cuda13", "cuda12") if any(name in line for line in wrapper.requires))
        plugin, pjrt = (f"{project}=={wrapper.version}" for project in (f"jax-{digits}-plugin", f"jax-{digits}-pjrt"))
        for machine, system in (("x86_64", "linux"), ("arm64", "darwin"), ("AMD64", "win32")):
            where = environment(system, machine)
            assert pins(wrapper.requires, "jaxlib", where) == [f"jaxlib=={wrapper.version}"]
            on_linux = system == "linux"
            assert pins(wrapper.requires, plugin.partition("==")[0], where) == [plugin] * on_linux, wrapper.key
            assert pins(wrapper.requires, pjrt.partition("==")[0], where) == [pjrt] * on_linux, wrapper.key
        assert any(f"{digits}-plugin[with-cuda]==" in line for line in wrapper.requires)


def test_jax_wrappers_add_the_jax_of_their_version_or_the_newest_that_asks_for_their_jaxlib() -> None:
    files = [f for f in load(PACKAGES / "jaxlib-select" / "ledger.jsonl") if f.project == "jax" and f.yanked is None]
    limits: dict[Version, list[SpecifierSet]] = {}
    for file in files:
        lines = [Requirement(line).specifier for line in file.requires or ()]
        limits[file.release] = [line for line in lines if {part.operator for part in line} - {">=", ">", "!="}]
    found = [w for w in committed_plan().wrappers if w.name.startswith("jax-")]
    assert found
    for wrapper in found:
        (pin,) = pins(wrapper.requires, "jax", environment("linux", "x86_64"))
        fit = {jax for jax, lines in limits.items() if any(line.contains(wrapper.version) for line in lines)}
        own = Version(wrapper.version)
        assert pin == f"jax=={own if own in fit else max(fit)}", wrapper.key


def _hashed_cu102(flavour: str) -> tuple[list[Wrapper], list[tuple[str, str, str]]]:
    """Plan the CUDA family as if upstream stated a sha256 for every file."""
    family = load_family(PACKAGES / "torch-cuda")
    files = [f if f.sha256 else replace(f, sha256=sha256(f.url or "")) for f in load(family.ledger_path)]
    found = plan([family], {family.name: files}, flavour=flavour)
    return (
        [w for w in found.wrappers if w.name == "torch-cu102"],
        [(o.version, o.what, o.reason) for o in found.omissions if o.wrapper == "torch-cu102"],
    )


def test_a_backend_whose_builds_are_plain_is_left_out_of_pinned_with_its_reason() -> None:
    wrappers, omissions = _hashed_cu102("pinned")
    assert wrappers == []
    assert any(
        version == "1.8.0" and what == "linux x86_64" and "no local version label" in reason
        for version, what, reason in omissions
    )


def test_a_backend_whose_builds_are_plain_is_there_in_direct() -> None:
    wrappers, _ = _hashed_cu102("direct")
    wrapper = next(w for w in wrappers if w.version == "1.8.0")
    where = environment("linux", "x86_64", "3.8")
    lines = [Requirement(line) for line in wrapper.requires]
    (line,) = [line for line in lines if line.marker is not None and line.marker.evaluate(where)]
    assert "/cu102/torch-1.8.0-cp38-cp38-linux_x86_64.whl#sha256=" in (line.url or "")


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
def test_no_two_lines_on_one_project_hold_in_one_environment(flavour: str) -> None:
    for wrapper in committed_plan(flavour).wrappers:
        for project in {line.name for line in map(Requirement, wrapper.requires)}:
            found = [holds(line) for line in wrapper.requires if Requirement(line).name == project]
            assert sum(map(len, found)) == len(frozenset().union(*found)), wrapper.key


def test_every_environment_gets_a_pin_of_the_project_that_is_wrapped() -> None:
    everywhere = holds("torch==1")
    for wrapper in committed_plan().wrappers:
        wrapped = Requirement(wrapper.requires[0]).name
        found = [holds(line) for line in wrapper.requires if Requirement(line).name == wrapped]
        assert frozenset().union(*found) == everywhere, wrapper.key


def test_no_committed_wrapper_is_let_in_where_it_has_no_cell() -> None:
    for wrapper in committed_plan().wrappers:
        cells = {Tag(cell.interpreter, cell.abi, cell.platform_tag) for cell in wrapper.cells}
        assert reached(expanded(wrapper.tags)) == reached(cells), wrapper.key
