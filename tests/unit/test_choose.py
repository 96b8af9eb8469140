"""Which upstream wheel a platform gets, and why another one is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from metawheel.choose import PLAIN_BESIDE, UNHASHED
from metawheel.model import UpstreamFile, Wrapper
from metawheel.plan import Plan, plan
from tests.fakes.ledgers import (
    JAXLIB,
    TORCH,
    UPSTREAM,
    environment,
    jaxlib_files,
    pins,
    sha256,
    torch_files,
    wheel,
    wrapper_of,
    write_family,
)
from tests.fakes.records import family_of

TORCH_FAMILY, JAXLIB_FAMILY = family_of(TORCH, "torch"), family_of(JAXLIB, "jaxlib")

LINUX = wheel("torch-1.0+cu116-cp310-cp310-linux_x86_64.whl", "cu116")
WINDOWS = wheel("torch-1.0+cu116-cp310-cp310-win_amd64.whl", "cu116")
NO_VISION = {"extra vision": "no torchvision whose METADATA names torch 1.0"}
MAC = wheel("torch-1.0-cp310-none-macosx_11_0_arm64.whl", "cpu")


def _torch(files: Sequence[UpstreamFile], flavour: str = "pinned", *, allow_unhashed: bool = False) -> Plan:
    return plan([TORCH_FAMILY], {"torch": files}, flavour=flavour, allow_unhashed=allow_unhashed)


def _jaxlib(files: Sequence[UpstreamFile]) -> Plan:
    return plan([JAXLIB_FAMILY], {"jaxlib": files})


def _systems(wrapper: Wrapper) -> set[str]:
    return {cell.platform.sys_platform for cell in wrapper.cells}


def _reasons(found: Plan, name: str = "torch-cu116") -> dict[str, str]:
    return {omission.what: omission.reason for omission in found.omissions if omission.wrapper == name}


def test_macos_falls_back_to_the_plain_build() -> None:
    wrapper = wrapper_of(_torch([LINUX, MAC]), "torch-cu116", "1.0")
    assert pins(wrapper.requires, "torch", environment("darwin", "arm64")) == ["torch==1.0"]
    assert MAC in wrapper.files


@pytest.mark.parametrize(
    ("macs", "expected"),
    [
        ([], "torch==1.0"),
        (["1.0-cp310-none-macosx_11_0_arm64"], "torch==1.0"),
        (["1.0+cpu-cp310-none-macosx_11_0_arm64"], "torch==1.0+cpu"),
        (["1.0+cpu-cp310-none-macosx_11_0_arm64", "1.0-cp310-none-macosx_10_9_x86_64"], "torch==1.0"),
    ],
)
def test_where_upstream_has_no_build_the_plain_one_is_required_or_what_macos_gets(
    macs: list[str], expected: str
) -> None:
    wrapper = wrapper_of(_torch([LINUX, *(wheel(f"torch-{mac}.whl", "cpu") for mac in macs)]), "torch-cu116", "1.0")
    assert pins(wrapper.requires, "torch", environment("freebsd14", "x86_64")) == [expected]


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


@pytest.mark.parametrize(("yanked", "reason"), [("wrong CUDA", "wrong CUDA"), ("", "no reason given")])
def test_a_yanked_build_is_left_out_with_upstreams_reason(yanked: str, reason: str) -> None:
    found = _torch([LINUX, replace(WINDOWS, yanked=yanked)])
    assert _systems(wrapper_of(found, "torch-cu116", "1.0")) == {"linux"}
    assert _reasons(found)["win32 AMD64"] == f"yanked upstream: {reason}"


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


def test_of_one_backend_the_labelled_builds_are_taken_and_a_plain_one_without_a_twin_is_told() -> None:
    labelled = wheel("torch-1.0+cpu-cp310-cp310-linux_x86_64.whl", "cpu")
    twin, alone = (wheel(f"torch-1.0-{python}-{python}-linux_x86_64.whl", "cpu") for python in ("cp310", "cp311"))
    for files in ([labelled, twin, alone], [alone, twin, labelled]):
        found = _torch(files)
        assert wrapper_of(found, "torch-cpu", "1.0").files == (labelled,)
        assert _reasons(found, "torch-cpu") == {f"linux x86_64: {alone.filename}": PLAIN_BESIDE, **NO_VISION}


def test_labelled_builds_of_another_family_make_a_plain_build_ambiguous_too(tmp_path: Path) -> None:
    other = write_family(tmp_path / "other", f'prefix = "acme-"\n{TORCH}', [])
    plain = wheel("torch-1.0-cp310-cp310-linux_x86_64.whl", "cpu")
    found = plan([TORCH_FAMILY, other], {"torch": [plain, MAC], "other": [LINUX]})
    assert _systems(wrapper_of(found, "torch-cpu", "1.0")) == {"darwin"}


def _at(folder: str, **facts: Any) -> UpstreamFile:
    url = f"{UPSTREAM}{folder}/{f'{LINUX.url}'.rpartition('/')[2]}"
    return replace(LINUX, **{"url": url, "sha256": sha256(folder), **facts})


@pytest.mark.parametrize("allow_unhashed", [False, True])
@pytest.mark.parametrize("worse", [_at("cu116", sha256=None), _at("b")])
def test_of_two_places_that_hold_one_name_the_hashed_one_is_linked_or_always_the_same(
    worse: UpstreamFile, allow_unhashed: bool
) -> None:
    for files in ([_at("a"), worse], [worse, _at("a")]):
        wrapper = wrapper_of(_torch(files, allow_unhashed=allow_unhashed), "torch-cu116", "1.0")
        assert wrapper.files == (_at("a"),)


@pytest.mark.parametrize("file", [LINUX, MAC])
def test_of_two_places_that_hold_one_name_the_one_in_the_builds_own_folder_is_linked(file: UpstreamFile) -> None:
    name = f"{file.url}".rpartition("/")[2]
    others = [replace(file, url=f"{UPSTREAM}{folder}{name}", sha256=sha256(folder)) for folder in ("", "a/", "z/")]
    for files in ([LINUX, file, *others], [*others, LINUX, file]):
        assert file in wrapper_of(_torch(files), "torch-cu116", "1.0").files


@pytest.mark.parametrize(
    ("left", "reason"),
    [({"sha256": None}, UNHASHED), ({"yanked": "wrong CUDA"}, "yanked upstream: wrong CUDA")],
)
def test_a_build_that_is_left_out_beside_one_that_is_not_is_told_with_its_reason(
    left: dict[str, Any], reason: str
) -> None:
    more = replace(wheel("torch-1.0+cu116-cp311-cp311-linux_x86_64.whl", "cu116"), **left)
    found = _torch([LINUX, more])
    assert wrapper_of(found, "torch-cu116", "1.0").files == (LINUX,)
    assert _reasons(found) == {f"linux x86_64: {more.filename}": reason, **NO_VISION}


def test_a_hash_is_never_mixed_with_another_hosts_address() -> None:
    other = replace(MAC, url=f"{MAC.url}".replace("/cpu/", "/"), sha256=sha256("other bytes"))
    found = {(file.url, file.sha256) for file in wrapper_of(_torch([LINUX, MAC, other]), "torch-cu116", "1.0").files}
    assert found <= {(file.url, file.sha256) for file in (LINUX, MAC, other)}


def test_a_plugin_backend_is_the_plain_build_with_plugins_beside_it_on_linux() -> None:
    wrapper = wrapper_of(_jaxlib(jaxlib_files()), "jaxlib-cuda12", "0.5.0")
    assert wrapper.requires[0] == "jaxlib==0.5.0"
    names = {Requirement(line).name for line in wrapper.requires}
    assert names == {"jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"}
    builds = {(cell.platform.sys_platform, cell.build) for cell in wrapper.cells}
    assert builds == {("linux", "0.5.0 with jax-cuda12-plugin"), ("darwin", "0.5.0")}
    assert pins(wrapper.requires, "jax-cuda12-pjrt", environment("darwin", "arm64")) == []
    assert {file.filename for file in wrapper.files} == {file.filename for file in jaxlib_files()}


@pytest.mark.parametrize("missing", ["jax-cuda12-plugin", "jax-cuda12-pjrt"])
def test_without_one_of_its_plugins_there_is_no_plugin_backend(missing: str) -> None:
    files = [file for file in jaxlib_files() if file.project != missing]
    found = _jaxlib(files)
    assert (found.wrappers, found.omissions) == ((), ())


def test_plugins_that_are_yanked_with_the_project_stay_with_it_in_a_yanked_wrapper() -> None:
    wrapper = wrapper_of(_jaxlib([replace(f, yanked="bad") for f in jaxlib_files()]), "jaxlib-cuda12", "0.5.0")
    assert wrapper.yanked == "bad"
    assert {cell.platform.sys_platform for cell in wrapper.cells} == {"linux", "darwin"}
    assert {file.filename for file in wrapper.files} == {file.filename for file in jaxlib_files()}


def test_without_an_interpreter_that_has_both_there_is_no_plugin_backend_and_the_reason_says_so() -> None:
    files = [replace(f, filename=f.filename.replace("cp311-cp311-many", "cp312-cp312-many")) for f in jaxlib_files()]
    found = _jaxlib([f for f in files if f.project != "jaxlib"] + [f for f in jaxlib_files() if f.project == "jaxlib"])
    reason = "no interpreter has both jax-cuda12-plugin[with-cuda] 0.5.0 and the project itself"
    assert _reasons(found, "jaxlib-cuda12")["linux x86_64"] == reason


def test_only_interpreters_that_have_the_plugin_too_are_covered() -> None:
    more = wheel("jaxlib-0.5.0-cp312-cp312-manylinux2014_x86_64.whl", None, source="pypi")
    wrapper = wrapper_of(_jaxlib([*jaxlib_files(), more]), "jaxlib-cuda12", "0.5.0")
    assert {cell.interpreter for cell in wrapper.cells if cell.platform.sys_platform == "linux"} == {"cp311"}


def test_a_platform_without_the_plugin_is_left_out_with_its_reason() -> None:
    arm = wheel("jaxlib-0.5.0-cp311-cp311-manylinux2014_aarch64.whl", None, source="pypi")
    found = _jaxlib([*jaxlib_files(), arm])
    assert "aarch64" not in {cell.platform.machine for cell in wrapper_of(found, "jaxlib-cuda12", "0.5.0").cells}
    assert _reasons(found, "jaxlib-cuda12")["linux aarch64"] == "no jax-cuda12-plugin 0.5.0 there"


@pytest.mark.parametrize("vision", ["not listed", "METADATA not known"])
def test_an_extra_without_a_companion_says_why(vision: str) -> None:
    files = [replace(f, requires=None) for f in torch_files() if f.project == "torch" or vision != "not listed"]
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


def test_a_yanked_companion_gives_way_to_an_older_one_that_fits() -> None:
    newer = [replace(f, yanked="broken") for f in torch_files(vision="0.14.10") if f.project == "torchvision"]
    ((_, lines),) = wrapper_of(_torch([*torch_files(), *newer]), "torch-cu116", "1.13.1").extras
    assert pins(lines, "torchvision", environment("linux", "x86_64")) == ["torchvision==0.14.1+cu116"]


def test_an_extra_brings_the_companions_files_or_addresses_for_every_platform() -> None:
    vision = [f for f in torch_files() if f.project == "torchvision" and f.local in ("cu116", None)]
    wrapper = wrapper_of(_torch(torch_files()), "torch-cu116", "1.13.1")
    assert sorted(f.filename for f in wrapper.files if f.project == "torchvision") == sorted(f.filename for f in vision)
    ((_, lines),) = wrapper_of(_torch(torch_files(), "direct"), "torch-cu116", "1.13.1").extras
    assert {Requirement(line).url for line in lines} == {f"{file.url}#sha256={file.sha256}" for file in vision}


def test_an_extra_leaves_out_only_the_platform_where_the_companion_cannot_be_pinned_and_tells_why() -> None:
    files = [replace(f, sha256=None) if f.filename.startswith("torchvision-0.14.1-") else f for f in torch_files()]
    found = _torch(files)
    ((_, lines),) = wrapper_of(found, "torch-cu116", "1.13.1").extras
    for machine in ("arm64", "x86_64"):
        assert pins(lines, "torchvision", environment("darwin", machine)) == []
        assert _reasons(found)[f"extra vision on darwin {machine}"] == UNHASHED
    assert pins(lines, "torchvision", environment("linux", "x86_64")) == ["torchvision==0.14.1+cu116"]
    assert pins(lines, "torchvision", environment("win32", "AMD64")) == ["torchvision==0.14.1+cu116"]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([">=3.10", ">=3.9"], ">=3.9"),
        ([">=3.9", None], ">=3.9"),
        ([None, None], ">=3.10"),
        (["==3.11.*", "~=3.12"], ">=3.11"),
        ([">=3.13", "<4,>=3.12"], ">=3.12"),
        (["~=3.12", "<4"], ">=3.10"),
    ],
)
def test_requires_python_is_the_lowest_bound_of_the_builds_or_the_oldest_interpreter(
    stated: list[str | None], expected: str
) -> None:
    files = [replace(file, requires_python=bound) for file, bound in zip((LINUX, WINDOWS), stated, strict=True)]
    assert wrapper_of(_torch(files), "torch-cu116", "1.0").requires_python == expected


def test_where_a_plugin_has_no_wheel_the_plain_build_stands_in_if_the_rule_lets_it() -> None:
    arm = wheel("jaxlib-0.5.0-cp311-cp311-manylinux2014_aarch64.whl", None, source="pypi")
    family = family_of(JAXLIB.replace('["darwin"]', '["linux", "darwin"]'), "jaxlib")
    found = plan([family], {family.name: [*jaxlib_files(), arm]})

    builds = {cell.platform.machine: cell.build for cell in wrapper_of(found, "jaxlib-cuda12", "0.5.0").cells}

    assert (builds["x86_64"], builds["aarch64"]) == ("0.5.0 with jax-cuda12-plugin", "0.5.0")
