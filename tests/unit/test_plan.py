"""What every plan promises, over random small ledgers; and what families may not do."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.version import Version

from metawheel.errors import FamilyError
from metawheel.family import Family, load_families
from metawheel.model import UpstreamFile, Wrapper
from metawheel.plan import FLAVOURS, Plan, natural, plan
from metawheel.tags import MAX_FILE_NAME, platforms
from tests.fakes.ledgers import (
    JAXLIB,
    TORCH,
    UPSTREAM,
    expanded,
    holds,
    jaxlib_files,
    ledgers,
    reached,
    torch_files,
    untimed,
    wheel,
    wrapper_of,
    write_family,
)
from tests.fakes.records import plan_of

with tempfile.TemporaryDirectory() as _folder:
    FAMILY = write_family(Path(_folder) / "torch", TORCH, [])

flavours = st.sampled_from(FLAVOURS)


def _plan(files: Sequence[UpstreamFile], flavour: str = "pinned", *, allow_unhashed: bool = False) -> Plan:
    return plan([FAMILY], {FAMILY.name: files}, flavour=flavour, allow_unhashed=allow_unhashed)


def _lines(wrapper: Wrapper) -> list[str]:
    return [*wrapper.requires, *(line for _, lines in wrapper.extras for line in lines)]


@untimed
@given(ledgers(), flavours, st.booleans())
def test_every_line_is_an_exact_pin_or_an_address(files: list[UpstreamFile], flavour: str, unhashed: bool) -> None:
    for wrapper in _plan(files, flavour, allow_unhashed=unhashed).wrappers:
        for line in map(Requirement, _lines(wrapper)):
            operators = [specifier.operator for specifier in line.specifier]
            assert operators == ([] if line.url else ["=="]), str(line)
            assert not any("*" in specifier.version for specifier in line.specifier)


@untimed
@given(ledgers())
def test_pins_of_the_wrapped_project_are_disjoint_and_complete(files: list[UpstreamFile]) -> None:
    for wrapper in _plan(files).wrappers:
        found = [holds(line) for line in wrapper.requires]
        assert sum(map(len, found)) == len(frozenset().union(*found)) == len(holds("torch==1")), wrapper.key


@untimed
@given(ledgers(), st.booleans())
def test_linux_and_windows_never_fall_back_to_the_plain_build(files: list[UpstreamFile], unhashed: bool) -> None:
    for wrapper in _plan(files, allow_unhashed=unhashed).wrappers:
        for cell in wrapper.cells:
            if wrapper.name.startswith("torch-cu") and cell.platform.sys_platform != "darwin":
                assert Version(cell.build).local is not None, wrapper.key


@untimed
@given(ledgers())
def test_what_a_platform_gets_is_what_the_lines_pin_there(files: list[UpstreamFile]) -> None:
    for wrapper in _plan(files).wrappers:
        if wrapper.name == "torch-cuda":
            continue
        for cell in wrapper.cells:
            where = {"sys_platform": cell.platform.sys_platform, "platform_machine": cell.platform.machine}
            lines = [Requirement(line) for line in wrapper.requires]
            (line,) = [line for line in lines if line.marker is None or line.marker.evaluate(where)]
            assert str(line.specifier) == f"=={cell.build}"


@untimed
@given(ledgers(), flavours)
def test_no_file_without_sha256_is_pinned_unless_it_is_allowed(files: list[UpstreamFile], flavour: str) -> None:
    hashed = {file.filename for file in files if file.sha256 is not None}
    for wrapper in _plan(files, flavour).wrappers:
        assert {file.filename for file in wrapper.files} <= hashed
        assert all("#sha256=" in line for line in _lines(wrapper) if " @ " in line)
        for cell in wrapper.cells:
            tag = Tag(cell.interpreter, cell.abi, cell.platform_tag)
            release = f"torch-{cell.build}-"
            assert any(name.startswith(release) and tag in _tags(name) for name in hashed), wrapper.key


def _tags(filename: str) -> set[Tag]:
    return expanded([filename.removesuffix(".whl").split("-", 2)[2]])


@untimed
@given(ledgers(), st.booleans())
def test_every_labelled_pin_is_among_the_files_that_the_site_links(files: list[UpstreamFile], unhashed: bool) -> None:
    for wrapper in _plan(files, allow_unhashed=unhashed).wrappers:
        there = {(file.project, str(file.name.version)) for file in wrapper.files}
        for line in map(Requirement, _lines(wrapper)):
            (pin,) = line.specifier
            assert "+" not in pin.version or (line.name, pin.version) in there, wrapper.key


@untimed
@given(ledgers())
def test_no_yanked_build_is_pinned_unless_the_wrapper_is_yanked_as_well(files: list[UpstreamFile]) -> None:
    for wrapper in _plan(files).wrappers:
        assert wrapper.yanked is not None or all(file.yanked is None for file in wrapper.files)
        if wrapper.yanked is not None:
            assert any(file.yanked == wrapper.yanked for file in wrapper.files)


@untimed
@given(ledgers())
def test_what_is_not_covered_is_left_out_with_a_reason(files: list[UpstreamFile]) -> None:
    found = _plan(files)
    assert all(omission.reason.strip() and omission.what.strip() for omission in found.omissions)
    for name, build in (("torch-cpu", "cpu"), ("torch-cu116", "cu116"), ("torch-cu117", "cu117")):
        for file in files:
            if file.project != "torch" or file.local != build:
                continue
            covered = {
                (cell.interpreter, cell.abi, cell.platform_tag)
                for wrapper in found.wrappers
                if (wrapper.name, wrapper.version) == (name, str(file.release))
                for cell in wrapper.cells
            }
            whats = [o.what for o in found.omissions if (o.wrapper, o.version) == (name, str(file.release))]
            for tag in file.name.tags:
                for platform in platforms(tag.platform):
                    told = str(platform) in whats or f"{platform}: {file.filename}" in whats
                    assert told or (tag.interpreter, tag.abi, tag.platform) in covered, file.filename


@untimed
@given(ledgers(), flavours)
def test_the_order_of_the_ledger_does_not_matter(files: list[UpstreamFile], flavour: str) -> None:
    assert _plan(files, flavour) == _plan(sorted(files, key=lambda file: file.sort_key), flavour)
    assert _plan(files, flavour) == _plan(list(reversed(files)), flavour)


@untimed
@given(ledgers())
def test_guards_let_in_what_is_covered_and_no_other(files: list[UpstreamFile]) -> None:
    for wrapper in _plan(files).wrappers:
        cells = {Tag(cell.interpreter, cell.abi, cell.platform_tag) for cell in wrapper.cells}
        assert reached(expanded(wrapper.tags)) == reached(cells)


@untimed
@given(ledgers())
def test_requires_python_is_a_lower_bound_and_no_more(files: list[UpstreamFile]) -> None:
    for wrapper in _plan(files).wrappers:
        assert re.fullmatch(r">=3\.\d+", wrapper.requires_python)


def _family(tmp_path: Path, text: str, name: str = "torch", files: Sequence[UpstreamFile] = ()) -> Family:
    return write_family(tmp_path / name, text, files)


def test_the_order_of_families_does_not_matter(tmp_path: Path) -> None:
    families = [_family(tmp_path, TORCH), _family(tmp_path, JAXLIB, "jaxlib")]
    files = {"torch": torch_files(), "jaxlib": jaxlib_files()}
    assert plan(families, files) == plan(families[::-1], files)


def test_of_the_family_that_has_a_wrapper_of_a_name_all_is_planned_and_of_others_nothing(tmp_path: Path) -> None:
    families = [_family(tmp_path, TORCH), _family(tmp_path, JAXLIB, "jaxlib")]
    files = {
        "torch": torch_files()[:-1],
        "jaxlib": [*jaxlib_files(), wheel("jaxlib-0.5.0-cp39-cp39-manylinux2014_aarch64.whl", None, source="pypi")],
    }
    both = plan(families, files)
    names = {wrapper.name: wrapper.family for wrapper in both.wrappers}
    assert set(names.values()) == {"torch", "jaxlib"}
    omissions = []
    for name, family in names.items():
        part = plan(families, files, name=name)
        assert set(part.wrappers) == {wrapper for wrapper in both.wrappers if wrapper.family == family}
        assert part.omissions
        omissions += [omission for omission in part.omissions if omission not in omissions]
    assert set(omissions) == set(both.omissions)
    assert plan(families, files, name="torch-cu999") == both, "to say which names there are"


def test_the_date_of_a_plan_is_that_of_the_newest_fact_in_the_ledgers() -> None:
    old, new = (wheel(f"torch-{day}.0+cpu-cp310-cp310-linux_x86_64.whl", "cpu") for day in (1, 2))
    facts = [replace(old, first_seen="2026-01-02"), replace(new, first_seen="2026-01-10")]
    assert _plan(facts).date == _plan(facts[::-1]).date == "2026-01-10"
    assert _plan([replace(facts[0], gone="2026-02-01"), facts[1]]).date == "2026-02-01"
    assert _plan([]).date == ""


def test_nothing_without_sha256_is_planned_unless_that_is_asked_for(tmp_path: Path) -> None:
    families, files = [_family(tmp_path, TORCH)], {"torch": [replace(file, sha256=None) for file in torch_files()]}
    assert plan(families, files).wrappers == ()
    assert plan(families, files, allow_unhashed=True).wrappers


def test_a_prefix_renames_every_wrapper_and_what_it_requires(tmp_path: Path) -> None:
    files = torch_files()
    renamed = plan([_family(tmp_path, f'prefix = "acme-"\n{TORCH}')], {"torch": files}).wrappers
    assert [w.name for w in renamed] == [f"acme-{w.name}" for w in _plan(files).wrappers]
    cuda = next(w for w in renamed if w.name == "acme-torch-cuda")
    assert cuda.requires == ("acme-torch-cu117==1.13.1",)
    assert cuda.extras == (("vision", ("acme-torch-cu117[vision]==1.13.1",)),)


@pytest.mark.parametrize("name", ["torch-cu117", "torch-cuda"])
def test_a_wrapper_has_more_wheels_only_once_a_file_name_would_be_too_long(tmp_path: Path, name: str) -> None:
    files = [wheel(f"torch-1.13.10+cu117-cp310-cp310-{tag}.whl", "cu117") for tag in ("linux_x86_64", "win_amd64")]
    lengths: dict[int, list[int]] = {1: [], 2: []}
    for number in range(130, 150):
        prefix = "a" * number
        found = plan([_family(tmp_path, f'prefix = "{prefix}-"\n{TORCH}')], {"torch": files})
        wheels = wrapper_of(found, f"{prefix}-{name}", "1.13.10").wheels
        lengths[len(wheels)] += map(len, wheels)
    assert max(lengths[1]) == MAX_FILE_NAME
    assert max(lengths[2]) <= MAX_FILE_NAME


def test_two_families_that_emit_one_name_are_refused_with_file_and_key(tmp_path: Path) -> None:
    families = [_family(tmp_path, TORCH, name) for name in ("one", "two")]
    with pytest.raises(FamilyError, match=r"two/family\.toml: wrapper\.name: 'torch-cpu' .*one/family\.toml"):
        plan(families, {"one": torch_files(), "two": torch_files()})


def test_a_wrapper_named_as_an_upstream_project_is_refused_with_file_and_key(tmp_path: Path) -> None:
    family = _family(tmp_path, TORCH.replace('name = "torch-cpu"', 'name = "torchvision"'))
    with pytest.raises(FamilyError, match=r"torch/family\.toml: wrapper\.name: 'torchvision'"):
        plan([family], {"torch": torch_files()})


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param('view = "{backend}"', 'view = "simple"', "wrapper.view", id="a view on the index"),
        pytest.param('view = "{backend}"', 'view = "files"', "wrapper.view", id="a view on the files"),
        pytest.param('view = "{backend}"', 'view = "a/b"', "wrapper.view", id="a view with a slash"),
        pytest.param(
            'view = "{backend}"', 'view = ".."', "wrapper.view", id="a view outside"),
        pytest.param(
            '"torch-{backend}"', '"torch-cpu"', "wrapper.name", id="one name twice"),
        pytest.param(
            '{version} for the CPU"', '{versoin} for the CPU"', "wrapper", id="a placeholder that there is not"),
        pytest.param("torch-{backend}", "torch-{bakend}", "wrapper", id="a typo in a name"),
        pytest.param(
            'name = "torch-cpu"', 'name = "torch cpu!"', "wrapper", id="a name that no project can have"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_emitted_is_a_family_error_with_its_key(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    text = TORCH.replace(old, new)
    assert text != TORCH
    with pytest.raises(FamilyError, match=rf"torch/family\.toml: .*{key}"):
        plan([_family(tmp_path, text)], {"torch": torch_files()})


def test_unknown_platform_tags_are_no_cells_and_no_crash() -> None:
    known = wheel("torch-1.0+cpu-cp310-cp310-linux_x86_64.whl", "cpu")
    odd = [wheel(f"torch-1.0+cpu-cp310-cp310-{tag}.whl", "cpu") for tag in ("ios_13_0_arm64_iphoneos", "plan9_mips")]
    odd.append(wheel("torch-1.0+cpu-py3-none-any.whl", "cpu"))
    (wrapper,) = _plan([known, *odd]).wrappers
    assert {cell.platform_tag for cell in wrapper.cells} == {"linux_x86_64"}
    assert _plan(odd).wrappers == ()


NEW = f"""\
project = "torch"
summary = "PyTorch"
headline = "{{headline}}"
plain = "cpu"
source = [{{{{ name = "up", kind = "simple", url = "{UPSTREAM}{{{{project}}}}/", root = "{UPSTREAM}", projects = ["torch"] }}}}]

[[wrapper]]
name = "torch-{{{{backend}}}}"
backend = '{{pattern}}'
view = "{{{{backend}}}}"
summary = "PyTorch {{{{version}}}} for {{{{backend}}}}"
"""  # noqa: E501


@pytest.mark.parametrize(
    ("pattern", "builds", "names"),
    [
        (r"rocm\d+(\.\d+)*", ["rocm6.2", "rocm6.2.4"], {"torch-rocm6-2": "rocm6.2", "torch-rocm6-2-4": "rocm6.2.4"}),
        ("xpu", ["xpu"], {"torch-xpu": "xpu"}),
    ],
)  # fmt: skip
def test_a_new_family_is_a_new_folder(tmp_path: Path, pattern: str, builds: list[str], names: dict[str, str]) -> None:
    files = [wheel(f"torch-2.5.0+{build}-cp311-cp311-linux_x86_64.whl", build) for build in (*builds, "cu116")]
    write_family(tmp_path / "new", NEW.format(headline=next(iter(names)), pattern=pattern), files)
    found = plan(load_families(tmp_path), {"new": files})
    assert {w.name: w.view for w in found.wrappers} == names
    for wrapper in found.wrappers:
        assert f"torch==2.5.0+{wrapper.view} ; " in wrapper.requires[0]
        assert wrapper.wheels == (f"{wrapper.name.replace('-', '_')}-2.5.0-cp311-none-linux_x86_64.whl",)


def test_a_new_backend_needs_no_edit() -> None:
    files = [*torch_files(), wheel("torch-1.13.1+cu999-cp310-cp310-linux_x86_64.whl", "cu999")]
    found = _plan(files)
    assert wrapper_of(found, "torch-cu999", "1.13.1").view == "cu999"
    assert wrapper_of(found, "torch-cuda", "1.13.1").requires == ("torch-cu999==1.13.1",)


def test_backends_are_ordered_as_numbers() -> None:
    backends = ["cu92", "cu101", "cu118", "cuda12.cudnn89", "cuda12.cudnn91", "cuda13"]
    assert sorted(set(backends), key=natural) == backends


@pytest.mark.parametrize(
    ("name", "is_hashed", "reason"),
    [
        ("torchvision-0.14.1+cpu-cp310-cp310-linux_x86_64.whl", True, "pins no build that is told from others"),
        ("torchvision-0.14.1-py3-none-any.whl", False, "states no sha256"),
    ],
)
def test_a_rule_adds_nothing_that_cannot_be_pinned(name: str, is_hashed: bool, reason: str) -> None:
    text = TORCH.replace('name = "torch-cpu"', 'name = "torch-cpu"\nadds = ["torchvision"]')
    companion = wheel(name, "cpu", hashed=is_hashed, requires=["torch==1.13.1"])

    found = plan_of([wheel("torch-1.13.1+cpu-cp310-cp310-linux_x86_64.whl", "cpu"), companion], text=text)

    assert "torch-cpu" not in {wrapper.name for wrapper in found.wrappers}
    reasons = {item.what: item.reason for item in found.omissions if item.wrapper == "torch-cpu"}
    assert reason in reasons["torchvision"]
