"""Which upstream wheel a platform gets, and why another one is left out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from metawheel.choose import UNHASHED
from metawheel.model import UpstreamFile, Wrapper
from metawheel.plan import Plan, plan
from tests.fakes.ledgers import (
    JAXLIB,
    TORCH,
    environment,
    jaxlib_files,
    pins,
    sha256,
    torch_files,
    wheel,
    wrapper_of,
    write_family,
)

with tempfile.TemporaryDirectory() as _folder:
    TORCH_FAMILY = write_family(Path(_folder) / "torch", TORCH, [])
    JAXLIB_FAMILY = write_family(Path(_folder) / "jaxlib", JAXLIB, [])

LINUX = wheel("torch-1.0+cu116-cp310-cp310-linux_x86_64.whl", "cu116")
WINDOWS = wheel("torch-1.0+cu116-cp310-cp310-win_amd64.whl", "cu116")
MAC = wheel("torch-1.0-cp310-none-macosx_11_0_arm64.whl", "cpu")


def _torch(files: Sequence[UpstreamFile], flavour: str = "pinned", *, allow_unhashed: bool = False) -> Plan:
    return plan([TORCH_FAMILY], {"torch": files}, flavour=flavour, allow_unhashed=allow_unhashed)


def _jaxlib(files: Sequence[UpstreamFile], flavour: str = "pinned") -> Plan:
    return plan([JAXLIB_FAMILY], {"jaxlib": files}, flavour=flavour)


def _systems(wrapper: Wrapper) -> set[str]:
    return {cell.platform.sys_platform for cell in wrapper.cells}


def _reasons(found: Plan, name: str = "torch-cu116") -> dict[str, str]:
    return {omission.what: omission.reason for omission in found.omissions if omission.wrapper == name}


def test_macos_falls_back_to_the_plain_build() -> None:
    wrapper = wrapper_of(_torch([LINUX, MAC]), "torch-cu116", "1.0")
    assert pins(wrapper.requires, "torch", environment("darwin", "arm64")) == ["torch==1.0"]
    assert MAC in wrapper.files


def test_without_a_build_of_its_own_a_backend_has_no_wrapper() -> None:
    assert {w.name for w in _torch([MAC]).wrappers} == {"torch-cpu"}


def test_an_unhashed_build_is_no_cell_and_the_reason_says_so() -> None:
    windows = replace(WINDOWS, sha256=None)
    found = _torch([LINUX, windows])
    assert _systems(wrapper_of(found, "torch-cu116", "1.0")) == {"linux"}
    assert _reasons(found)["win32 AMD64"] == UNHASHED
    allowed = wrapper_of(_torch([LINUX, windows], allow_unhashed=True), "torch-cu116", "1.0")
    assert _systems(allowed) == {"linux", "win32"}


def test_an_unhashed_cuda_build_is_not_replaced_by_the_plain_one() -> None:
    label = replace(wheel("torch-1.0+cu116-cp310-none-macosx_11_0_arm64.whl", "cu116"), sha256=None)
    assert _systems(wrapper_of(_torch([LINUX, label, MAC]), "torch-cu116", "1.0")) == {"linux"}


def test_a_yanked_build_is_left_out_with_upstreams_reason() -> None:
    found = _torch([LINUX, replace(WINDOWS, yanked="wrong CUDA")])
    assert _systems(wrapper_of(found, "torch-cu116", "1.0")) == {"linux"}
    assert "wrong CUDA" in _reasons(found)["win32 AMD64"]


def test_a_release_that_is_yanked_as_a_whole_stays_as_a_yanked_wrapper() -> None:
    found = _torch([replace(file, yanked="recalled") for file in (LINUX, WINDOWS)])
    wrapper = wrapper_of(found, "torch-cu116", "1.0")
    assert wrapper.yanked == "recalled"
    assert _systems(wrapper) == {"linux", "win32"}


def test_a_file_that_is_gone_is_not_pinned() -> None:
    found = _torch([LINUX, replace(WINDOWS, gone="2026-11-30")])
    assert _systems(wrapper_of(found, "torch-cu116", "1.0")) == {"linux"}


def test_a_plain_build_beside_labelled_ones_on_its_platform_is_ambiguous() -> None:
    plain = wheel("torch-1.0-cp310-cp310-linux_x86_64.whl", "cpu")
    found = _torch([LINUX, plain, MAC])
    assert _systems(wrapper_of(found, "torch-cpu", "1.0")) == {"darwin"}
    assert "cannot be told from the labelled builds" in _reasons(found, "torch-cpu")["linux x86_64"]


def test_labelled_builds_of_another_family_make_a_plain_build_ambiguous_too(tmp_path: Path) -> None:
    other = write_family(tmp_path / "other", f'prefix = "acme-"\n{TORCH}', [])
    plain = wheel("torch-1.0-cp310-cp310-linux_x86_64.whl", "cpu")
    found = plan([TORCH_FAMILY, other], {"torch": [plain, MAC], "other": [LINUX]})
    assert _systems(wrapper_of(found, "torch-cpu", "1.0")) == {"darwin"}


def test_of_two_places_that_hold_one_name_the_hashed_one_is_linked() -> None:
    unhashed = replace(MAC, url=f"{MAC.url}".replace("/cpu/", "/"), sha256=None)
    for files in ([LINUX, MAC, unhashed], [unhashed, LINUX, MAC]):
        assert MAC in wrapper_of(_torch(files), "torch-cu116", "1.0").files


def test_a_hash_is_never_mixed_with_another_hosts_address() -> None:
    other = replace(MAC, url=f"{MAC.url}".replace("/cpu/", "/"), sha256=sha256("other bytes"))
    found = {(file.url, file.sha256) for file in wrapper_of(_torch([LINUX, MAC, other]), "torch-cu116", "1.0").files}
    assert found <= {(file.url, file.sha256) for file in (LINUX, MAC, other)}


def test_direct_has_a_line_with_address_and_sha256_for_each_cell() -> None:
    wrapper = wrapper_of(_torch(torch_files(), "direct"), "torch-cu116", "1.13.1")
    for python, tags in (("3.10", "cp310-cp310-linux_x86_64"), ("3.11", "cp311-cp311-linux_x86_64")):
        where = environment("linux", "x86_64", python)
        lines = [Requirement(line) for line in wrapper.requires]
        (line,) = [line for line in lines if line.marker is not None and line.marker.evaluate(where)]
        file = next(f for f in torch_files() if f.filename == f"torch-1.13.1+cu116-{tags}.whl")
        assert line.url == f"{file.url}#sha256={file.sha256}"
    assert wrapper.files == ()


def test_direct_leaves_out_what_markers_cannot_tell_and_says_so() -> None:
    free_threaded = wheel("torch-1.0+cu116-cp313-cp313t-linux_x86_64.whl", "cu116")
    found = _torch([LINUX, free_threaded], "direct")
    assert {cell.abi for cell in wrapper_of(found, "torch-cu116", "1.0").cells} == {"cp310"}
    assert "cannot tell" in _reasons(found)["linux x86_64 cp313t"]


def test_direct_takes_the_wheel_that_runs_on_more_systems() -> None:
    tags = ("linux_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64")
    files = [wheel(f"torch-1.0+cu116-cp310-cp310-{tag}.whl", "cu116") for tag in tags]
    (line,) = wrapper_of(_torch(files, "direct"), "torch-cu116", "1.0").requires
    assert "cp310-cp310-manylinux2014_x86_64.whl#" in line


def test_a_plugin_backend_is_the_plain_build_with_plugins_beside_it_on_linux() -> None:
    wrapper = wrapper_of(_jaxlib(jaxlib_files()), "jaxlib-cuda12", "0.5.0")
    assert wrapper.requires[0] == "jaxlib==0.5.0"
    names = {Requirement(line).name for line in wrapper.requires}
    assert names == {"jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"}
    assert pins(wrapper.requires, "jax-cuda12-pjrt", environment("darwin", "arm64")) == []
    assert {file.filename for file in wrapper.files} == {file.filename for file in jaxlib_files()}


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
def test_what_pypi_hosts_is_pinned_in_both_flavours(flavour: str) -> None:
    wrapper = wrapper_of(_jaxlib(jaxlib_files(), flavour), "jaxlib-cuda12", "0.5.0")
    for project in ("jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"):
        assert pins(wrapper.requires, project, environment("linux", "x86_64")) == [f"{project}==0.5.0"]
    assert wrapper.files


@pytest.mark.parametrize("missing", ["jax-cuda12-plugin", "jax-cuda12-pjrt"])
def test_without_one_of_its_plugins_there_is_no_plugin_backend(missing: str) -> None:
    files = [file for file in jaxlib_files() if file.project != missing]
    assert _jaxlib(files).wrappers == ()


def test_only_interpreters_that_have_the_plugin_too_are_covered() -> None:
    more = wheel("jaxlib-0.5.0-cp312-cp312-manylinux2014_x86_64.whl", None, source="pypi")
    wrapper = wrapper_of(_jaxlib([*jaxlib_files(), more]), "jaxlib-cuda12", "0.5.0")
    assert {cell.interpreter for cell in wrapper.cells if cell.platform.sys_platform == "linux"} == {"cp311"}


def test_a_platform_without_the_plugin_is_left_out_with_its_reason() -> None:
    arm = wheel("jaxlib-0.5.0-cp311-cp311-manylinux2014_aarch64.whl", None, source="pypi")
    found = _jaxlib([*jaxlib_files(), arm])
    assert "aarch64" not in {cell.platform.machine for cell in wrapper_of(found, "jaxlib-cuda12", "0.5.0").cells}
    assert _reasons(found, "jaxlib-cuda12")["linux aarch64"] == "no jax-cuda12-plugin 0.5.0 there"


def test_an_extra_without_a_companion_says_why() -> None:
    files = [file for file in torch_files() if file.project == "torch"]
    found = _torch(files)
    assert wrapper_of(found, "torch-cu116", "1.13.1").extras == ()
    assert _reasons(found)["extra vision"] == "no torchvision whose METADATA names torch 1.13.1"


def test_of_several_companions_that_fit_the_newest_is_paired() -> None:
    more = [file for file in torch_files(vision="0.14.10") if file.project == "torchvision"]
    for files in ([*torch_files(), *more], [*more, *torch_files()]):
        ((_, lines),) = wrapper_of(_torch(files), "torch-cu116", "1.13.1").extras
        assert pins(lines, "torchvision", environment("darwin", "arm64")) == ["torchvision==0.14.10"]


def test_a_companion_that_pins_no_release_is_not_paired() -> None:
    files = [f if f.project == "torch" else replace(f, requires=("torch",)) for f in torch_files()]
    found = _torch(files)
    assert wrapper_of(found, "torch-cu116", "1.13.1").extras == ()
    assert "does not say which one torch it was built for" in _reasons(found)["extra vision"]


def test_a_yanked_companion_is_not_paired() -> None:
    files = [f if f.project == "torch" else replace(f, yanked="broken") for f in torch_files()]
    assert wrapper_of(_torch(files), "torch-cu116", "1.13.1").extras == ()


def test_an_extra_says_nothing_where_the_companion_has_no_such_build_and_tells_why() -> None:
    files = [f for f in torch_files() if f.project == "torch" or "win_amd64" not in f.filename]
    found = _torch(files)
    ((extra, lines),) = wrapper_of(found, "torch-cu116", "1.13.1").extras
    assert extra == "vision"
    assert pins(lines, "torchvision", environment("win32", "AMD64")) == []
    assert pins(lines, "torchvision", environment("linux", "x86_64")) == ["torchvision==0.14.1+cu116"]
    assert "upstream has no torchvision 0.14.1" in _reasons(found)["extra vision on win32 AMD64"]


def test_a_requires_python_that_names_a_series_gives_its_lower_bound() -> None:
    files = [replace(file, requires_python="==3.10.*") for file in (LINUX, WINDOWS)]
    assert wrapper_of(_torch(files), "torch-cu116", "1.0").requires_python == ">=3.10"
