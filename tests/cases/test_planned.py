"""Cases that the plan alone decides: which build a wrapper pins where, and what it says to whom."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement

from metawheel.family import load_families
from metawheel.inputs import Options, make_plan
from metawheel.ledger import load, merge
from metawheel.model import UpstreamFile
from tests.fakes.ledgers import (
    JAXLIB,
    PACKAGES,
    TORCH,
    build_site,
    committed_plan,
    environment,
    environments,
    expanded,
    pins,
    reached,
    torch_files,
    wheel,
    wrapper_of,
    write_family,
)


def planned(folder: Path, text: str, files: list[UpstreamFile], flavour: str = "pinned") -> dict[str, tuple[str, ...]]:
    """The requirement lines of every wrapper of a small family."""
    write_family(folder / "packages" / "family", text, files)
    found = make_plan(load_families(folder / "packages"), Options(flavour=flavour)).wrappers
    return {wrapper.key: wrapper.requires for wrapper in found}


# Case P06, https://github.com/python-poetry/poetry/issues/9442
# Case U07, https://github.com/astral-sh/uv/issues/8358
def test_the_last_torch_for_intel_macs_is_2_2_2_and_no_later_wrapper_is_let_in_there() -> None:
    covering = {
        wrapper.version
        for wrapper in committed_plan().wrappers
        if wrapper.name == "torch-cpu"
        for _, tag in reached(expanded(wrapper.tags))
        if tag.startswith("macosx") and tag.endswith("x86_64")
    }
    assert max(covering, key=lambda version: [int(part) for part in version.split(".")]) == "2.2.2"
    intel = environment("darwin", "x86_64", "3.10")
    assert pins(wrapper_of(committed_plan(), "torch-cpu", "2.2.2").requires, "torch", intel) == ["torch==2.2.2"]


# Case P12, https://github.com/ggml-org/llama.cpp/pull/21907
def test_torch_cpu_of_the_2_2_series_has_a_file_for_every_platform() -> None:
    wrapper = wrapper_of(committed_plan(), "torch-cpu", "2.2.2")
    for system, machine, tag in (
        ("linux", "x86_64", "linux_x86_64"),
        ("linux", "aarch64", "manylinux2014_aarch64"),
        ("darwin", "arm64", "macosx_11_0_arm64"),
        ("darwin", "x86_64", "macosx_10_9_x86_64"),
        ("win32", "AMD64", "win_amd64"),
    ):
        (pin,) = pins(wrapper.requires, "torch", environment(system, machine, "3.10"))
        there = [file for file in wrapper.files if any(t.platform == tag for t in file.name.tags)]
        assert any(pin == f"torch=={file.name.version}" for file in there), f"{system} {machine}"


# Case F05, https://github.com/xai-org/grok-1/pull/170
def test_a_mac_that_asks_for_jaxlib_with_cuda_gets_the_plain_jaxlib(tmp_path: Path) -> None:
    files = [
        wheel("jaxlib-0.4.25+cuda12.cudnn89-cp311-cp311-manylinux2014_x86_64.whl", "cuda12", source="pypi"),
        wheel("jaxlib-0.4.25-cp311-cp311-macosx_11_0_arm64.whl", None, source="pypi"),
    ]
    text = (
        JAXLIB.replace("backend = 'cuda\\d+'", "backend = '(?P<cuda>cuda\\d+)(\\.cudnn\\d+)?'")
        .replace('"jaxlib-{backend}"', '"jaxlib-{cuda}"')
        .replace('view = "{backend}"', 'view = "{cuda}"')
    )
    lines = planned(tmp_path, text, files)["jaxlib-cuda12==0.4.25"]
    assert pins(lines, "jaxlib", environment("darwin", "arm64")) == ["jaxlib==0.4.25"]
    assert pins(lines, "jaxlib", environment("linux", "x86_64")) == ["jaxlib==0.4.25+cuda12.cudnn89"]
    real = wrapper_of(committed_plan(), "jaxlib-cuda12", "0.4.26").requires
    assert pins(real, "jaxlib", environment("darwin", "arm64")) == ["jaxlib==0.4.26"]


# Case I01, https://github.com/jax-ml/jax/issues/7745
# Case X07, https://github.com/pypa/twine/issues/486
def test_no_pinned_wrapper_has_an_address_that_an_index_would_refuse() -> None:
    for wrapper in committed_plan().wrappers:
        lines = [*wrapper.requires, *(line for _, found in wrapper.extras for line in found)]
        assert all(Requirement(line).url is None for line in lines), wrapper.key


# Case E03, https://github.com/pypa/pipenv/issues/4082
# Case L05, found by trying Poetry 2.5.1: it locks a wrong #sha256 without a word
def test_every_address_in_a_direct_wrapper_carries_the_hash_that_the_ledger_has_for_that_address() -> None:
    known = {file.url: file.sha256 for family in load_families(PACKAGES) for file in load(family.ledger_path)}
    seen = 0
    for wrapper in committed_plan("direct").wrappers:
        for line in (*wrapper.requires, *(line for _, found in wrapper.extras for line in found)):
            url = Requirement(line).url
            if url is not None:
                address, _, fragment = url.partition("#")
                assert fragment == f"sha256={known[address]}", line
                seen += 1
    assert seen > 1000


# Case X01, https://github.com/pytorch/pytorch/issues/153469
def test_where_a_page_has_half_of_the_hashes_the_other_half_fails_closed_until_it_is_computed(tmp_path: Path) -> None:
    half = [
        wheel(f"torch-2.9.1+cu128-cp311-cp311-manylinux_2_28_{machine}.whl", "cu128", hashed=machine == "x86_64")
        for machine in ("x86_64", "aarch64")
    ]
    arm = environment("linux", "aarch64")
    lines = planned(tmp_path, TORCH, half)["torch-cu128==2.9.1"]
    assert pins(lines, "torch", arm) == ["torch==2.9.1"], "nothing that CUDA users would take for CUDA"
    found = make_plan(load_families(tmp_path / "packages"), Options())
    wrapper = wrapper_of(found, "torch-cu128", "2.9.1")
    assert not any("aarch64" in tag for tag in wrapper.tags), "it is not let in there"
    assert any("no sha256" in o.reason for o in found.omissions if o.what == "linux aarch64")
    assert all(file.sha256 for file in wrapper.files)
    full = [replace(file, sha256=hashlib.sha256(b"computed").hexdigest()) for file in half]
    lines = planned(tmp_path, TORCH, full)["torch-cu128==2.9.1"]
    assert pins(lines, "torch", arm) == ["torch==2.9.1+cu128"]


def yanked(files: list[UpstreamFile], label: str, *, only: str = "") -> list[UpstreamFile]:
    """Files of torch as upstream lists them after it yanked the builds with a label."""
    page = [
        replace(file, yanked="broken") if file.local == label and only in file.filename else file
        for file in files
        if file.project == "torch"
    ]
    pages = {("up", "torch"): "page", ("up", "torchvision"): "page"}
    return list(merge(files, [*page, *(f for f in files if f.project != "torch")], pages, "2026-12-01")[0])


# Case L02, found by trying uv 0.13.9: a yank on one platform takes the wrapper back there only
def test_a_yanked_backend_steps_back_on_all_its_platforms_or_is_not_let_in(tmp_path: Path) -> None:
    both = [*torch_files("1.13.0", "0.14.0"), *torch_files()]
    planned(tmp_path, TORCH, yanked(both, "cu116", only="1.13.1"))
    plan = make_plan(load_families(tmp_path / "packages"), Options())
    state = {wrapper.version: wrapper.yanked for wrapper in plan.wrappers if wrapper.name == "torch-cu116"}
    assert state == {"1.13.0": None, "1.13.1": "broken"}
    partly = yanked(torch_files(), "cu116", only="linux")
    lines = planned(tmp_path, TORCH, partly)["torch-cu116==1.13.1"]
    for where in environments():
        assert pins(lines, "torch", where) in (["torch==1.13.1+cu116"], ["torch==1.13.1"])
    wrapper = wrapper_of(make_plan(load_families(tmp_path / "packages"), Options()), "torch-cu116", "1.13.1")
    assert not any("linux" in tag for tag in wrapper.tags)


def test_a_wrapper_whose_build_is_yanked_stays_and_is_yanked(tmp_path: Path) -> None:
    planned(tmp_path, TORCH, yanked(torch_files(), "cu116"))
    found = make_plan(load_families(tmp_path / "packages"), Options())
    assert [w.yanked for w in found.wrappers if w.key == "torch-cu116==1.13.1"] == ["broken"]


# Case U14, https://github.com/astral-sh/uv/issues/16319
def test_a_backend_that_nobody_knew_gets_its_wrapper_and_its_view_by_data_alone(tmp_path: Path) -> None:
    files = [wheel(file.filename.replace("cu117", "cu199"), file.local or "cpu") for file in torch_files()]
    write_family(tmp_path / "packages" / "torch", TORCH, files)
    build_site(tmp_path / "packages", tmp_path / "site")
    for index in ("simple", "cu199/simple"):
        page = (tmp_path / "site" / index / "torch-cu199" / "index.html").read_text(encoding="utf-8")
        assert "torch_cu199-1.13.1-" in page
