"""What `metawheel install` would run."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from metawheel.cli.detect import specifier_of, without_password
from metawheel.cli.install import shown, split
from metawheel.detect.choose import NoBuild
from metawheel.detect.indexed import from_index
from metawheel.detect.interpreter import Interpreter, ask, choose_python
from metawheel.detect.offers import Catalog
from metawheel.detect.probe import Accelerator, Machine
from metawheel.errors import UnknownName, Unparsable
from metawheel.install.commands import Installer, Plan, installer_of, plan
from metawheel.install.pipsettings import settings_for
from metawheel.install.wish import Wish
from metawheel.site import FORMAT, SiteWrapper
from metawheel.upstream.http import Fetcher
from tests.fakes.machine import JAX, TORCH, catalog, interpreter, jax, offer, torch
from tests.fakes.site import SiteServer
from tests.fakes.wheels import WheelSpec, build_wheel

# CacheControl leaves its temporary copy of an unread body to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

PIP = Installer(words=("python", "-m", "pip"), is_uv=False)
UV = Installer(words=("uv", "pip"), is_uv=True)
GPU = Machine(
    sys_platform="linux",
    machine="x86_64",
    accelerators=(Accelerator(vendor="nvidia", architecture="9.0"),),
    driver="580.65.06",
)
NONE = Machine(sys_platform="linux", machine="x86_64")


def planned(
    *items: str,
    machine: Machine = GPU,
    python: Interpreter | None = None,
    installer: Installer = PIP,
    offers: Catalog | None = None,
    backend: str = "auto",
    version: str = "",
    arguments: tuple[str, ...] = (),
) -> Plan:
    wish = Wish(items=items, backend=backend, specifier=SpecifierSet(version), arguments=arguments)
    return plan(wish, offers or catalog(), machine, python or interpreter(), installer, Path("/cache"))


def command(*items: str, **how: object) -> tuple[str, ...]:
    (only,) = planned(*items, **how).commands  # type: ignore[arg-type]
    return only


def test_a_wrapper_is_named_by_address_and_sha256() -> None:
    words = command("torch")
    chosen = next(item for item in TORCH if item.backend == "cu130" and item.release == "2.13.0")
    ((filename, sha256),) = chosen.wheels.items()
    assert f"torch-cu130 @ https://index.invalid/files/{filename}#sha256={sha256}" in words


def test_no_word_of_a_command_is_a_wrappers_bare_name() -> None:
    for items in (("torch",), ("torch", "torchvision"), ("jax",), ("jaxlib", "torch"), ("somepackage",)):
        for words in planned(*items).commands:
            assert not set(words) & set(catalog().names)


def test_companions_become_extras() -> None:
    assert any(word.startswith("torch-cu130[vision] @ ") for word in command("torch", "torchvision"))
    assert any(word.startswith("torch-cu130[vision] @ ") for word in command("torchvision"))
    assert any(word.startswith("torch-cu130 @ ") for word in command("torch"))


def test_the_index_is_that_of_the_backend() -> None:
    assert command("torch", backend="cu126")[4:6] == ("--extra-index-url", "https://index.invalid/cu126/simple/")
    assert "https://index.invalid/simple/" in command("torch", offers=catalog(views=False))


def test_uv_is_told_the_interpreter_and_puts_our_index_first() -> None:
    words = command("torch", installer=UV)
    assert words[:7] == (
        "uv", "pip", "install", "--python", "/env/bin/python", "--index", "https://index.invalid/cu130/simple/",
    )  # fmt: skip


def test_the_wrapper_that_installs_least_besides_is_taken() -> None:
    def wrappers(*items: str) -> list[str]:
        return [choice.offer.wrapper for choice in planned(*items).choices]

    assert wrappers("jaxlib") == ["jaxlib-cuda13"]
    assert wrappers("jax") == ["jax-cuda13"]
    assert wrappers("jaxlib", "jax") == ["jax-cuda13"]
    assert sorted(wrappers("jax", "torch")) == ["jax-cuda13", "torch-cu130"]


def test_what_is_none_of_ours_is_passed_on_with_constraints() -> None:
    done = planned("somepackage>=1", "./folder", "torch", arguments=("--no-cache-dir",))
    assert done.commands[0][-3:] == ("somepackage>=1", "./folder", "--no-cache-dir")
    assert done.constraints == ("torch==2.13.0+cu130", "torchvision==0.28.0+cu130")
    assert str(done.constraints_path) in done.commands[0]


def test_only_packages_of_others_are_constrained_too() -> None:
    done = planned("lightning", offers=catalog(TORCH))
    assert done.constraints == ("torch==2.13.0+cu130", "torchvision==0.28.0+cu130")
    assert not any("@" in word for word in done.commands[0])


def test_versions_of_what_is_asked_for_narrow_the_release() -> None:
    assert planned("torch==2.10.0").choices[0].offer.release == "2.10.0"
    assert planned("torch", "torchvision<0.26").choices[0].offer.release == "2.10.0"
    assert planned("torch", version=">=2.8,<2.11").choices[0].offer.release == "2.10.0"
    with pytest.raises(NoBuild, match=r"torch==9\.9"):
        planned("torch==9.9")


def test_a_release_without_the_companion_is_passed_over() -> None:
    offers = catalog([torch("cpu", "2.13.0", vision=False), torch("cpu", "2.12.0")])
    assert planned("torch", offers=offers).choices[0].offer.release == "2.13.0"
    assert planned("torch", "torchvision", offers=offers).choices[0].offer.release == "2.12.0"


@pytest.mark.parametrize("item", ["torch-cu130", "Torch_CU130", "torch-cuda==2.13.0", "jax-cpu"])
def test_a_wrappers_own_name_is_refused(item: str) -> None:
    with pytest.raises(UnknownName, match="is a wrapper"):
        planned(item)


@pytest.mark.parametrize("item", ["torch[opt]", "torch @ https://x.invalid/torch.whl", "torch; python_version > '3'"])
def test_ours_can_have_a_version_only(item: str) -> None:
    with pytest.raises(UnknownName, match="a version only"):
        planned(item)


def test_a_wrong_build_that_satisfies_the_pin_is_uninstalled_first() -> None:
    there = {"jaxlib": "0.8.0+cuda12.cudnn89", "jax": "0.8.0"}
    commands = planned("jax", machine=NONE, python=interpreter(installed=there)).commands
    assert commands[0] == ("python", "-m", "pip", "uninstall", "-y", "jaxlib")
    assert commands[1][3] == "install"


def test_what_the_installer_replaces_itself_is_left_to_it() -> None:
    commands = planned("torch", python=interpreter(installed={"torch": "2.13.0+cpu"})).commands
    assert [words[3] for words in commands] == ["install"]


def test_left_over_wrappers_and_plugins_are_uninstalled_last() -> None:
    there = {"jax-cuda12": "0.8.0", "jax-cuda12-plugin": "0.8.0", "jaxlib": "0.8.0", "jax": "0.8.0", "numpy": "2"}
    commands = planned("jax", python=interpreter(installed=there)).commands
    assert commands[-1] == ("python", "-m", "pip", "uninstall", "-y", "jax-cuda12", "jax-cuda12-plugin")
    assert commands[0][3] == "install"


def test_a_wrapper_that_requires_a_left_over_one_goes_with_it() -> None:
    there = {"torch-cu129": "2.13.0", "torch-cuda": "2.13.0", "torch": "2.13.0+cu129"}
    commands = planned("torch", "--cpu", backend="cpu", python=interpreter(installed=there), installer=UV).commands
    assert commands[-1] == ("uv", "pip", "uninstall", "--python", "/env/bin/python", "torch-cu129", "torch-cuda")


def test_an_index_without_a_sha256_is_not_trusted() -> None:
    bare = offer("torch-cpu", "2.13.0", "cpu", ["torch==2.13.0+cpu"])
    offers = catalog([replace(bare, wheels=dict.fromkeys(bare.wheels))])
    with pytest.raises(NoBuild, match="no sha256"):
        planned("torch", offers=offers)


def test_macos_takes_the_plain_builds() -> None:
    mac = Machine(sys_platform="darwin", machine="arm64")
    done = planned("torch", "torchvision", machine=mac, python=interpreter("3.12", "darwin", "arm64"))
    assert done.choices[0].offer.wrapper == "torch-cpu"
    assert done.constraints == ("torch==2.13.0", "torchvision==0.28.0")


def test_the_environments_own_pip_comes_first() -> None:
    assert installer_of(interpreter(), "/bin/uv").words == ("/env/bin/python", "-m", "pip")
    assert installer_of(interpreter(has_pip=False), "/bin/uv") == Installer(words=("/bin/uv", "pip"), is_uv=True)
    with pytest.raises(UnknownName, match="no pip, and there is no uv"):
        installer_of(interpreter(has_pip=False), None)


def test_settings_of_one_environment() -> None:
    wish = Wish(items=("torch",))
    found = settings_for(wish, catalog(), GPU, interpreter(), all_pythons=False)
    assert (found.index, found.backend) == ("https://index.invalid/cu130/simple/", "cu130")
    assert found.narrow
    assert not settings_for(wish, catalog(views=False), GPU, interpreter(), all_pythons=False).narrow
    assert found.constraints == ("torch==2.13.0+cu130", "torchvision==0.28.0+cu130")


def test_settings_of_a_user_name_the_pythons() -> None:
    offers = catalog([torch("cpu", "2.13.0"), torch("cpu", "2.8.0", tags="cp39-none-manylinux_2_28_x86_64")])
    found = settings_for(Wish(items=("torch",)), offers, NONE, interpreter(), all_pythons=True)
    assert found.constraints[0] == (
        'torch==2.13.0+cpu ; python_version == "3.10" or python_version == "3.11" or python_version == "3.12"'
    )
    assert found.constraints[1] == 'torch==2.8.0+cpu ; python_version == "3.9"'


def test_settings_for_several_backends_name_the_whole_index() -> None:
    offers = catalog([torch("cpu", "2.13.0"), torch("cu130", "2.13.0", tags="cp312-none-manylinux_2_28_x86_64")])
    found = settings_for(Wish(items=("torch",)), offers, GPU, interpreter(), all_pythons=True)
    assert found.index == "https://index.invalid/simple/"
    assert 'torch==2.13.0+cu130 ; python_version == "3.12"' in found.constraints


def test_a_plugin_is_no_setting() -> None:
    with pytest.raises(UnknownName, match="jax-cuda13-plugin"):
        settings_for(Wish(items=("jax",)), catalog(), GPU, interpreter(), all_pythons=False)
    assert settings_for(Wish(items=("jax",)), catalog(), NONE, interpreter(), all_pythons=False).backend == "cpu"


def test_passwords_are_not_shown() -> None:
    assert without_password("https://me:secret@host/simple/") == "https://me:****@host/simple/"
    assert "secret" not in shown(("pip", "install", "x @ https://me:secret@host/files/x.whl#sha256=0"))
    assert without_password("https://host/a:b@c") == "https://host/a:b@c"


def test_options_of_the_installer_begin_with_a_dash() -> None:
    assert split(["torch", "numpy", "-r", "more.txt"]) == (("torch", "numpy"), ("-r", "more.txt"))
    assert split(["torch"]) == (("torch",), ())


def test_a_bare_version_means_that_version() -> None:
    assert specifier_of("2.9.1") == SpecifierSet("==2.9.1")
    assert specifier_of(">=2.8,<3") == SpecifierSet(">=2.8,<3")
    assert specifier_of("") == SpecifierSet()


def test_an_interpreter_tells_its_tags_and_what_it_has(tmp_path: Path) -> None:
    found = ask(sys.executable)
    assert found.environment["sys_platform"] == sys.platform
    assert found.installed[canonicalize_name("pytest")]
    assert found.rank(frozenset(list(found.tags)[:1])) == 0
    with pytest.raises(UnknownName, match="is not a Python"):
        ask(str(tmp_path / "python"))


def test_the_interpreter_that_is_active_is_meant(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    assert choose_python(None, {"VIRTUAL_ENV": str(tmp_path)}) == str(python)
    assert choose_python(str(tmp_path), {}) == str(python)
    assert choose_python(None, {"VIRTUAL_ENV": str(tmp_path)}, "other") == str(python)
    assert choose_python(None, {"VIRTUAL_ENV": str(tmp_path / "gone")}, "other") == "other"
    assert choose_python(None, {}) == sys.executable
    with pytest.raises(UnknownName, match="no such interpreter"):
        choose_python("no-such-python", {})


def manifest(**changed: object) -> dict[str, Any]:
    """A site's manifest with one wrapper."""
    wheel = "torch_cpu-2.9.1-cp312-none-manylinux_2_28_x86_64.whl"
    wrapper = dict.fromkeys((field.name for field in fields(SiteWrapper)), "") | {
        "name": "torch-cpu",
        "version": "2.9.1",
        "release": "2.9.1",
        "view": "cpu",
        "reissued": None,
        "yanked": None,
        "requires": ["torch==2.9.1+cpu"],
        "extras": [],
        "wheels": [wheel],
    }
    wheels = {name: {"sha256": "0" * 64} for name in (wheel, "../x.whl", "torch_cpu-9-py3-none-any.whl")}
    return {"site": FORMAT, "wrappers": [{**wrapper, **changed}], "wheels": wheels}


def read(folder: Path, content: bytes, path: str = "simple/") -> Catalog:
    (folder / "metawheel.json").write_bytes(content)
    with SiteServer(folder) as server:
        return from_index(f"{server.url}{path}", Fetcher(cache=folder / "cache", retries=0), interpreter())


@pytest.mark.parametrize("path", ["", "simple", "simple/", "cpu/simple/", "cpu/simple"])
def test_a_site_is_read_by_its_manifest_whichever_of_its_indexes_is_named(tmp_path: Path, path: str) -> None:
    found = read(tmp_path, json.dumps(manifest()).encode(), path)
    ((offered),) = found.offers
    assert (offered.wrapper, offered.backend) == ("torch-cpu", "cpu")
    assert found.view("cpu") == f"{(found.index or '').removesuffix('simple/')}cpu/simple/"
    assert next(iter(offered.urls.values())).endswith("/files/torch_cpu-2.9.1-cp312-none-manylinux_2_28_x86_64.whl")


LINUX, EITHER = "sys_platform == 'linux'", "(sys_platform == 'linux' or os_name == 'nt')"
VISION = "extra == 'vision'"


@pytest.mark.parametrize(
    ("marker", "left"),
    [
        (VISION, None),
        (f"{LINUX} and {VISION}", LINUX),
        (f"{VISION} and {LINUX}", LINUX),
        (f"{EITHER} and {VISION}", EITHER),
        (f"{VISION} and {EITHER}", EITHER),
    ],
)
def test_an_extra_s_lines_are_read_wherever_their_markers_name_it(
    tmp_path: Path, marker: str, left: str | None
) -> None:
    line = "torchvision==0.24.1+cpu"
    requires = ("torch==2.9.1+cpu", f"{line} ; {marker}")
    wheel = build_wheel(WheelSpec("torch_cpu-2.9.1-py3-none-any.whl", requires, extras=("vision",)))
    folder = tmp_path / "torch-cpu"
    folder.mkdir()
    (folder / f"{wheel.spec.filename}.metadata").write_bytes(wheel.metadata)
    (folder / "index.html").write_text(f'<a href="{wheel.spec.filename}">x</a>', encoding="utf-8")
    (tmp_path / "index.html").write_text('<a href="torch-cpu/">torch-cpu</a>', encoding="utf-8")
    with SiteServer(tmp_path) as server:
        found = from_index(server.url, Fetcher(cache=tmp_path / "cache", retries=0), interpreter())
    (offered,) = found.offers
    assert offered.requires == ("torch==2.9.1+cpu",)
    assert [Requirement(line) for line in offered.extras["vision"]] == [
        Requirement(line if left is None else f"{line} ; {left}")
    ]


HOSTILE: dict[str, object] = {
    "no JSON": b"no json",
    "no site": {"site": FORMAT},
    "another version": {"site": 99, "wrappers": [], "wheels": {}},
    "a list": [],
    "half a wrapper": {"site": FORMAT, "wrappers": [{"extras": []}], "wheels": {}},
    "a name with a space": manifest(name="torch-cpu -r /etc/passwd"),
    "a backend that leads elsewhere": manifest(view="../../other"),
    "a wheel that leads elsewhere": manifest(wheels=["../x.whl"]),
    "a wheel of another version": manifest(wheels=["torch_cpu-9-py3-none-any.whl"]),
    "a wheel without a hash": manifest(wheels=["torch_cpu-2.9.1-py3-none-any.whl"]),
    "a line that is no requirement": manifest(requires=["--index-url=https://x.invalid"]),
    "a hash that is none": {**manifest(), "wheels": {name: {"sha256": "0"} for name in manifest()["wheels"]}},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_manifest_that_cannot_be_one_is_refused(tmp_path: Path, what: str) -> None:
    content = HOSTILE[what]
    with pytest.raises(Unparsable, match=r"metawheel\.json"):
        read(tmp_path, content if isinstance(content, bytes) else json.dumps(content).encode())


def test_the_kinds_of_a_catalog_are_told_by_name() -> None:
    assert {item.kind for item in (*TORCH, *JAX)} == {"-torch-*-", "-jax-*-", "-jaxlib-*-"}
    assert jax("cuda12", "0.8.0")[0].base == {"jaxlib", "jax-cuda12-plugin"}


def test_what_only_a_narrower_wrapper_installs_is_left_to_the_installer() -> None:
    full = offer("torch-cpu-full", "2.13.0", "cpu", ["torch==2.13.0+cpu", "torchaudio==2.13.0+cpu"])

    found = planned("torch", "torchaudio", offers=catalog([*TORCH, full]), backend="cpu")

    assert [choice.offer.wrapper for choice in found.choices] == ["torch-cpu"]
    assert "torchaudio" in " ".join(found.commands[-1])
