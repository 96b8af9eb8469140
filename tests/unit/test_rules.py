"""What each kind of rule emits: shared and narrower names, companions that are added, the newest of several."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from metawheel.errors import FamilyError
from metawheel.family import Family
from metawheel.model import UpstreamFile
from metawheel.plan import Plan, plan
from tests.fakes.ledgers import JAXLIB, TORCH, UPSTREAM, environment, jaxlib_files, pins, torch_files, wheel, wrapper_of
from tests.fakes.records import plan_of

JAX = f"""\
project = "jaxlib"
summary = "JAX"
headline = "jaxlib-select"
plain = "cpu"

[[source]]
name = "up"
kind = "simple"
url = "{UPSTREAM}{{project}}/"
root = "{UPSTREAM}"
projects = ["jaxlib", "jax"]
folders = {{ "" = "cpu" }}

[[companion]]
project = "jax"
prefer-same-version = true

[[wrapper]]
name = "jaxlib-{{cuda}}"
backend = '(?P<cuda>cuda\\d+)(\\.cudnn\\d+)?'
view = "{{cuda}}"
fallback = ["darwin"]
summary = "jaxlib {{version}} with {{backend}}"

[[wrapper]]
name = "jaxlib-{{cuda}}-{{cudnn}}"
backend = '(?P<cuda>cuda\\d+)\\.(?P<cudnn>cudnn\\d+)'
narrows = "jaxlib-{{cuda}}"
summary = "jaxlib {{version}} with {{backend}}"

[[wrapper]]
name = "jax-{{cuda}}"
backend = '(?P<cuda>cuda\\d+)(\\.cudnn\\d+)?'
adds = ["jax"]
summary = "JAX with jaxlib {{version}}"

[[wrapper]]
name = "jaxlib-select"
backend = 'cpu|cuda\\d+(\\.cudnn\\d+)?'
fallback = ["darwin", "win32"]
summary = "jaxlib {{version}}: {{backend}}"
"""


def _plan(files: Iterable[UpstreamFile], text: str = JAX) -> Plan:
    family = Family.model_validate({**tomllib.loads(text), "folder": Path("family")})
    return plan([family], {family.name: tuple(files)})


def _lib(backend: str, tag: str = "cp310-cp310-linux_x86_64", release: str = "0.4.4") -> UpstreamFile:
    return wheel(f"jaxlib-{release}{backend and f'+{backend}'}-{tag}.whl")


def _jax(release: str, *requires: str) -> UpstreamFile:
    return wheel(f"jax-{release}-py3-none-any.whl", requires=requires)


MAC, WINDOWS = _lib("", "cp310-cp310-macosx_11_0_arm64"), _lib("", "cp310-cp310-win_amd64")
SEVERAL = [_lib(f"cuda11.cudnn{number}") for number in (805, 82, 86)]


def _linux(found: Plan, name: str) -> list[str]:
    return pins(wrapper_of(found, name, "0.4.4").requires, "jaxlib", environment("linux", "x86_64"))


def test_of_several_backends_that_share_a_name_the_greatest_is_taken() -> None:
    found = _plan([*SEVERAL, _lib("cuda12.cudnn88"), MAC])
    assert _linux(found, "jaxlib-cuda11") == ["jaxlib==0.4.4+cuda11.cudnn805"]
    assert _linux(found, "jaxlib-cuda12") == ["jaxlib==0.4.4+cuda12.cudnn88"]
    assert _linux(found, "jaxlib-select") == ["jaxlib==0.4.4+cuda12.cudnn88"]
    wrapper = wrapper_of(found, "jaxlib-cuda11", "0.4.4")
    assert (wrapper.view, wrapper.summary) == ("cuda11", "jaxlib 0.4.4 with cuda11.cudnn805")


def test_a_yanked_backend_gives_way_to_one_that_is_not_and_stays_where_there_is_none() -> None:
    yanked = [replace(file, yanked=f"bad {file.local}") for file in SEVERAL]
    found = wrapper_of(_plan([yanked[0], *SEVERAL[1:]]), "jaxlib-cuda11", "0.4.4")
    assert (found.summary, found.yanked) == ("jaxlib 0.4.4 with cuda11.cudnn86", None)
    found = wrapper_of(_plan(yanked), "jaxlib-cuda11", "0.4.4")
    assert (found.summary, found.yanked) == ("jaxlib 0.4.4 with cuda11.cudnn805", "bad cuda11.cudnn805")


def test_a_rule_that_takes_the_plain_build_as_well_prefers_every_other() -> None:
    assert wrapper_of(_plan([MAC, WINDOWS]), "jaxlib-select", "0.4.4").summary == "jaxlib 0.4.4: cpu"
    wrapper = wrapper_of(_plan([MAC, WINDOWS, _lib("cuda11.cudnn82")]), "jaxlib-select", "0.4.4")
    assert wrapper.summary == "jaxlib 0.4.4: cuda11.cudnn82"
    assert {cell.platform.sys_platform for cell in wrapper.cells} == {"linux", "darwin", "win32"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (SEVERAL[:1], set()),
        ([SEVERAL[0], _lib("cuda12.cudnn88"), MAC], set()),
        (SEVERAL[:2], {"jaxlib-cuda11-cudnn805", "jaxlib-cuda11-cudnn82"}),
        ([*SEVERAL[:2], _lib("cuda12.cudnn88")], {"jaxlib-cuda11-cudnn805", "jaxlib-cuda11-cudnn82"}),
        ([SEVERAL[0], _lib("cuda11.cudnn82", release="0.4.5")], set()),
        (
            [SEVERAL[0], _lib("cuda12.cudnn88"), _lib("cuda12.cudnn89")],
            {"jaxlib-cuda12-cudnn88", "jaxlib-cuda12-cudnn89"},
        ),
    ],
)
def test_a_narrower_name_is_there_only_where_a_release_has_several_backends_under_the_wider_one(
    files: list[UpstreamFile], expected: set[str]
) -> None:
    names = {wrapper.name for wrapper in _plan(files).wrappers}
    assert {name for name in names if "cudnn" in name} == expected


def test_a_companion_that_a_rule_adds_is_required_everywhere_and_its_files_are_linked() -> None:
    jax = _jax("0.4.5", "jaxlib==0.4.4")
    wrapper = wrapper_of(_plan([*SEVERAL, MAC, jax]), "jax-cuda11", "0.4.4")
    assert wrapper.requires[-1] == "jax==0.4.5"
    assert set(wrapper.files) == {jax, SEVERAL[0]}


def test_a_yanked_file_of_a_companion_is_not_linked() -> None:
    jax, yanked = _jax("0.4.5", "jaxlib==0.4.4"), wheel("jax-0.4.5-py2-none-any.whl", yanked="bad")
    files = wrapper_of(_plan([*SEVERAL, jax, yanked]), "jax-cuda11", "0.4.4").files
    assert [file for file in files if file.project == "jax"] == [jax]


def test_of_two_sources_that_list_one_name_the_first_ones_file_is_linked() -> None:
    source = JAX[JAX.index("[[source]]") : JAX.index("[[companion]]")]
    text = JAX.replace(source, source.replace('"up"', '"zz"') + source.replace('"up"', '"aa"'))
    first, second, unknown = (replace(SEVERAL[0], source=name, sha256=name) for name in ("zz", "aa", "00"))
    for files in ([first, second, unknown], [unknown, second, first]):
        assert wrapper_of(_plan(files, text), "jaxlib-cuda11", "0.4.4").files == (first,)


@pytest.mark.parametrize(("own", "added"), [(">=3.10", ">=3.9"), (">=3.9", ">=3.10")])
def test_requires_python_is_the_higher_one_of_the_project_and_what_a_rule_adds(own: str, added: str) -> None:
    files = [replace(SEVERAL[0], requires_python=own), replace(_jax("1.0", "jaxlib<1"), requires_python=added)]
    assert wrapper_of(_plan(files), "jax-cuda11", "0.4.4").requires_python == ">=3.10"


def test_without_the_companion_that_a_rule_adds_there_is_no_wrapper_and_the_reason_is_told() -> None:
    found = _plan([*SEVERAL, _jax("0.4.3", "jaxlib==0.4.3")])
    assert "jax-cuda11" not in {wrapper.name for wrapper in found.wrappers}
    reasons = {(o.version, o.what): o.reason for o in found.omissions if o.wrapper == "jax-cuda11"}
    assert reasons == {("0.4.4", "jax"): "no jax whose METADATA names jaxlib 0.4.4"}


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ({"0.4.4": "==0.4.4", "0.4.6": "==0.4.4"}, "0.4.4"),
        ({"0.4.3": "==0.4.4", "0.4.6": "==0.4.4"}, "0.4.6"),
        ({"0.4.9": ">=0.4.2,<=0.4.4", "0.4.10": ">=0.4.2"}, "0.4.9"),
        ({"0.4.9": ">=0.4.2,<=0.4.4", "0.4.10": "<0.5,>=0.4.2"}, "0.4.10"),
        ({"0.4.9": "~=0.4.2", "0.4.10": ">=0.4.2"}, "0.4.9"),
        ({"0.4.9": "==0.4.*", "0.4.10": "==0.4.5"}, "0.4.9"),
        ({"0.4.9": "==0.4.4", "0.4.10": "<0.4.4"}, "0.4.9"),
    ],
)
def test_a_companion_is_paired_by_what_its_metadata_says_and_by_its_version_where_that_fits(
    requires: dict[str, str], expected: str
) -> None:
    files = [_jax(release, f"jaxlib{specifier}") for release, specifier in requires.items()]
    for order in (files, files[::-1]):
        wrapper = wrapper_of(_plan([*SEVERAL, *order]), "jax-cuda11", "0.4.4")
        assert f"jax=={expected}" in wrapper.requires


def test_each_plugin_backend_requires_its_own_plugins_only() -> None:
    plugin = JAXLIB[JAXLIB.index("[[plugin]]") : JAXLIB.index("[[wrapper]]")]
    listed = '"jax-cuda12-plugin", "jax-cuda12-pjrt"]\nfolders'
    text = JAXLIB.replace(plugin, plugin + plugin.replace("12", "13")).replace(listed, listed.replace("12", "13"), 1)
    text = text.replace("projects = [", 'projects = ["jax-cuda12-plugin", "jax-cuda12-pjrt", ')
    more = [replace(file, filename=file.filename.replace("cuda12", "cuda13")) for file in jaxlib_files()]
    found = _plan({file.filename: file for file in [*jaxlib_files(), *more]}.values(), text)
    for backend in ("cuda12", "cuda13"):
        names = {Requirement(line).name for line in wrapper_of(found, f"jaxlib-{backend}", "0.5.0").requires}
        assert names == {"jaxlib", f"jax-{backend}-plugin", f"jax-{backend}-pjrt"}


def test_a_companion_gets_no_plugins_of_the_wrapped_project() -> None:
    text = JAXLIB.replace('projects = ["jaxlib", ', 'projects = ["jaxlib", "jax", ')
    tag = "cp311-cp311-manylinux2014_x86_64"
    jax = wheel(f"jax-0.5.0-{tag}.whl", None, source="pypi", requires=["jaxlib==0.5.0"])
    found = _plan([*jaxlib_files(), jax], f'{text}\n[[companion]]\nproject = "jax"\nextra = "jax"\n')
    assert wrapper_of(found, "jaxlib-cuda12", "0.5.0").extras == ()
    reasons = {omission.what: omission.reason for omission in found.omissions}
    assert reasons["extra jax on linux x86_64"] == "upstream has no jax 0.5.0 of that build there"


def test_a_prerelease_is_paired_by_a_range_that_it_is_in() -> None:
    found = _plan([_lib("cuda11.cudnn82", release="0.4.4rc1"), _jax("0.4.3", "jaxlib>=0.4.2,<=0.4.4")])
    assert "jax==0.4.3" in wrapper_of(found, "jax-cuda11", "0.4.4rc1").requires


def test_the_newest_of_several_wrappers_is_required_and_one_that_is_not_yanked_if_there_is_any() -> None:
    text = TORCH.replace("for the newest CUDA", "with {backend}")
    for local, newest, reason in (("none", "cu117", None), ("cu117", "cu116", None), ("cu11", "cu117", "bad")):
        files = [replace(f, yanked="bad") if f"+{local}" in f.filename else f for f in torch_files()]
        wrapper = wrapper_of(_plan(files, text), "torch-cuda", "1.13.1")
        assert wrapper.requires == (f"torch-{newest}==1.13.1",)
        assert (wrapper.summary, wrapper.view, wrapper.yanked) == (f"PyTorch 1.13.1 with {newest}", None, reason)


def test_a_ledger_with_files_of_a_source_that_the_family_no_longer_has_is_refused() -> None:
    with pytest.raises(FamilyError, match=r"family\.toml: source: the ledger has files of 'old'"):
        plan_of([wheel("torch-1.0-cp310-cp310-macosx_11_0_arm64.whl", "cpu", source="old")])


@pytest.mark.parametrize("stated", ["==3.*,>=3.11", ">=3.9,~=3.11"])
def test_of_several_lower_bounds_the_highest_is_stated(stated: str) -> None:
    files = [wheel("torch-1.0+cu116-cp310-cp310-linux_x86_64.whl", "cu116", requires_python=stated)]
    assert wrapper_of(plan_of(files), "torch-cu116", "1.0").requires_python == ">=3.11"
