"""The direct flavour: an address for each interpreter and platform instead of a pin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from packaging.requirements import Requirement

from metawheel.model import UpstreamFile
from metawheel.plan import Plan, plan
from tests.fakes.ledgers import (
    JAXLIB,
    TORCH,
    UPSTREAM,
    environment,
    jaxlib_files,
    pins,
    torch_files,
    wheel,
    wrapper_of,
)
from tests.fakes.records import family_of, plan_of

TORCH_FAMILY, JAXLIB_FAMILY = family_of(TORCH, "torch"), family_of(JAXLIB, "jaxlib")

LINUX = wheel("torch-1.0+cu116-cp310-cp310-linux_x86_64.whl", "cu116")
NO_VISION = {"extra vision": "no torchvision whose METADATA names torch 1.0"}


def _torch(files: Sequence[UpstreamFile], flavour: str = "direct", *, allow_unhashed: bool = False) -> Plan:
    return plan([TORCH_FAMILY], {"torch": files}, flavour=flavour, allow_unhashed=allow_unhashed)


def _reasons(found: Plan, name: str = "torch-cu116") -> dict[str, str]:
    return {omission.what: omission.reason for omission in found.omissions if omission.wrapper == name}


def test_direct_has_a_line_with_address_and_sha256_for_each_cell() -> None:
    wrapper = wrapper_of(_torch(torch_files()), "torch-cu116", "1.13.1")
    for python, tags in (("3.10", "cp310-cp310-linux_x86_64"), ("3.11", "cp311-cp311-linux_x86_64")):
        where = environment("linux", "x86_64", python)
        lines = [Requirement(line) for line in wrapper.requires]
        (line,) = [line for line in lines if line.marker is not None and line.marker.evaluate(where)]
        file = next(f for f in torch_files() if f.filename == f"torch-1.13.1+cu116-{tags}.whl")
        assert line.url == f"{file.url}#sha256={file.sha256}"
    assert wrapper.files == ()


def test_direct_leaves_out_what_markers_cannot_tell_and_says_so() -> None:
    free_threaded = wheel("torch-1.0+cu116-cp313-cp313t-linux_x86_64.whl", "cu116")
    found = _torch([LINUX, free_threaded])
    assert {cell.abi for cell in wrapper_of(found, "torch-cu116", "1.0").cells} == {"cp310"}
    assert "cannot tell" in _reasons(found)["linux x86_64 cp313t"]
    pinned = _torch([LINUX, free_threaded], "pinned")
    assert {cell.abi for cell in wrapper_of(pinned, "torch-cu116", "1.0").cells} == {"cp310", "cp313t"}
    assert _reasons(pinned) == NO_VISION


def test_direct_takes_the_wheel_that_runs_on_more_systems() -> None:
    tags = ("linux_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64")
    files = [wheel(f"torch-1.0+cu116-cp310-cp310-{tag}.whl", "cu116") for tag in tags]
    (line,) = wrapper_of(_torch(files), "torch-cu116", "1.0").requires
    assert "cp310-cp310-manylinux2014_x86_64.whl#" in line


def _direct(*tags: str) -> list[UpstreamFile]:
    return [wheel(f"torch-1.0+cu116-{tag}-linux_x86_64.whl", "cu116") for tag in tags]


@pytest.mark.parametrize(
    ("tags", "conditions"),
    [
        (["cp310-cp310", "cp39-cp39"], ["== '3.9'", "== '3.10'"]),
        (["cp39-abi3"], [">= '3.9'"]),
        (["py2.py3-none"], [">= '3'"]),
        # Where an exact line holds, an open one would hold as well: pip would refuse the two addresses.
        (["cp310-cp310", "cp39-abi3"], ["== '3.10'"]),
        (["cp312-abi3", "cp39-abi3"], [">= '3.9'"]),
    ],
)
def test_direct_lines_are_in_order_of_the_interpreters_and_none_holds_beside_another(
    tags: list[str], conditions: list[str]
) -> None:
    lines = wrapper_of(_torch(_direct(*tags)), "torch-cu116", "1.0").requires
    assert [line.partition(" ; ")[2].replace('"', "'") for line in lines] == [
        f"python_version {condition} and sys_platform == 'linux' and platform_machine == 'x86_64'"
        for condition in conditions
    ]


def test_direct_has_no_wrapper_where_markers_can_tell_no_interpreter_and_says_so() -> None:
    found = _torch(_direct("cp313-cp313t"))
    assert "torch-cu116" not in {wrapper.name for wrapper in found.wrappers}
    assert _reasons(found)["linux x86_64"] == "no interpreter that environment markers can tell"


def test_direct_has_the_bare_address_of_an_unhashed_build_where_that_is_allowed() -> None:
    (file,) = (replace(file, sha256=None) for file in _direct("cp310-cp310"))
    (line,) = wrapper_of(_torch([file], allow_unhashed=True), "torch-cu116", "1.0").requires
    assert Requirement(line).url == file.url


def test_a_build_that_only_its_folder_tells_apart_is_in_the_direct_flavour_only() -> None:
    files = [wheel("torch-1.0-cp310-cp310-linux_x86_64.whl", "cu102")]
    assert {wrapper.name for wrapper in _torch(files).wrappers} == {"torch-cu102", "torch-cuda"}
    pinned = _torch(files, "pinned")
    assert pinned.wrappers == ()
    assert "its cu102 build has no local version label: `==1.0`" in _reasons(pinned, "torch-cu102")["linux x86_64"]


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
def test_what_pypi_hosts_is_pinned_in_both_flavours(flavour: str) -> None:
    wrapper = wrapper_of(plan([JAXLIB_FAMILY], {"jaxlib": jaxlib_files()}, flavour=flavour), "jaxlib-cuda12", "0.5.0")
    for project in ("jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"):
        assert pins(wrapper.requires, project, environment("linux", "x86_64")) == [f"{project}==0.5.0"]
    assert wrapper.files


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (("-cp312-cp312-musllinux_1_2", "-cp312-cp312-manylinux_2_28"), "manylinux_2_28"),
        (("-cp312-cp312-linux", "-2-cp312-cp312-linux", "-10-cp312-cp312-linux"), "-10-cp312"),
    ],
)
def test_direct_takes_glibc_before_musl_and_the_greatest_build_tag(tags: Sequence[str], expected: str) -> None:
    files = [wheel(f"torch-1.0+cu116{tag}_x86_64.whl", "cu116") for tag in tags]

    (line,) = wrapper_of(_torch(files), "torch-cu116", "1.0").requires

    assert expected in line


def test_direct_covers_only_what_pypi_hosts_where_it_pins_that_and_tells_the_rest() -> None:
    source = f'[[source]]\nname = "up"\nkind = "links"\nurl = "{UPSTREAM}page.html"\nprojects = ["jaxlib"]\n'
    text = JAXLIB.replace("[[source]]", f'{source}folders = {{ "" = "cpu" }}\n\n[[source]]', 1)
    elsewhere = wheel("jaxlib-0.4-cp310-cp310-linux_x86_64.whl")
    files = [elsewhere, wheel("jaxlib-0.4-cp311-cp311-linux_x86_64.whl", None, source="pypi")]

    found = plan_of(files, text=text.replace("'cuda\\d+'", "'cpu'"), flavour="direct")

    assert {cell.interpreter for cell in wrapper_of(found, "jaxlib-cpu", "0.4").cells} == {"cp311"}
    assert f"linux x86_64: {elsewhere.filename}" in {item.what for item in found.omissions}


def test_direct_tells_which_line_would_hold_beside_an_exact_one() -> None:
    found = _torch([wheel(f"torch-1.0+cu116-{tag}-linux_x86_64.whl", "cu116") for tag in ("cp310-cp310", "cp39-abi3")])

    assert "beside that of an exact interpreter" in _reasons(found)["linux x86_64 cp39-abi3"]


def test_direct_has_no_branch_where_pypi_hosts_nothing_that_fits_the_plugin() -> None:
    source = f'[[source]]\nname = "up"\nkind = "links"\nurl = "{UPSTREAM}page.html"\nprojects = ["jaxlib"]\n'
    text = JAXLIB.replace("[[source]]", f'{source}folders = {{ "" = "cpu" }}\n\n[[source]]', 1)
    jaxlib, *rest = jaxlib_files()
    hosted = wheel("jaxlib-0.5.0-cp310-cp310-manylinux2014_x86_64.whl", None, source="pypi")

    found = plan_of([wheel(jaxlib.filename), hosted, *rest], text=text, flavour="direct")

    assert "PyPI hosts no wheel of it that fits" in _reasons(found, "jaxlib-cuda12")["linux x86_64"]
