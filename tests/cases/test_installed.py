"""Cases that pip or uv decide: what is installed, replaced, refused or locked."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from metawheel.inputs import Options
from tests.cases.conftest import World
from tests.cases.plain import wheel_of
from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import LINUX_X86_64, MACOS_ARM64, MACOS_X86_64, read_lock
from tests.clients.projects import UvIndex, uv_project
from tests.fakes.httpd import NOT_FOUND, LoopbackServer, Reply
from tests.fakes.ledgers import TORCH, UPSTREAM, build_site, wheel, write_family
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer

pytestmark = pytest.mark.clients


def indexes(world: World) -> list[str]:
    """Our site first and PyPI behind it, as pip's arguments; nobody has taken our names here."""
    return ["--index-url", world.pypi.simple, "--extra-index-url", world.site.simple]


def linux() -> None:
    """Skip where the builds that the case speaks of cannot be installed."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or not (3, 10) <= sys.version_info[:2] <= (3, 14):
        pytest.skip("the case is about CUDA builds for Linux on x86_64")


# Case I03, https://github.com/pytorch/pytorch/issues/95135
def test_installing_the_other_wrapper_replaces_torch_and_the_conflict_is_told(world: World, tmp_path: Path) -> None:
    linux()
    envs.run("uv", ["venv", "--no-project", ".venv", "--python", sys.executable], cwd=tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"

    def pip(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return envs.run("pip", ["--python", str(python), *arguments], cwd=tmp_path, status=status)

    def frozen() -> dict[str, str]:
        found = json.loads(pip("list", "--format", "json").stdout)
        return {item["name"]: item["version"] for item in found if item["name"].startswith("torch")}

    pip("install", "--no-compile", "torch-cpu==2.10.0", *indexes(world))
    assert frozen() == {"torch": "2.10.0+cpu", "torch-cpu": "2.10.0"}
    pip("check")
    done = pip("install", "--no-compile", "torch-cu128==2.10.0", *indexes(world))
    assert frozen()["torch"] == "2.10.0+cu128"
    conflict = "torch-cpu 2.10.0 requires torch==2.10.0+cpu"
    assert conflict in done.stderr
    checked = pip("check", status=1)
    assert "torch-cpu 2.10.0 has requirement torch==2.10.0+cpu" in checked.stdout
    pip("uninstall", "--yes", "torch-cpu")
    pip("check")
    both = pip("install", "torch-cpu==2.10.0", "torch-cu128==2.10.0", *indexes(world), status=1)
    assert "ResolutionImpossible" in both.stderr


# Case I04, https://github.com/pytorch/pytorch/issues/109102
def test_a_project_beside_torch_comes_from_pypi(world: World, tmp_path: Path) -> None:
    linux()
    arguments = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json"]
    envs.run("pip", [*arguments, "torch-cu128==2.10.0", "torchmetrics", *indexes(world)], cwd=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    urls = {item["metadata"]["name"]: item["download_info"]["url"] for item in report["install"]}
    assert urls["torchmetrics"].startswith(world.pypi.url)
    assert urls["torch"].startswith(world.upstream.url)


# Case I07, https://github.com/pytorch/pytorch/issues/168065
@pytest.mark.parametrize(("wrapper", "build"), [("torch-cu128", "2.10.0+cu128"), ("torch-cpu", "2.10.0+cpu")])
def test_aarch64_gets_the_build_of_the_wrappers_name(world: World, tmp_path: Path, wrapper: str, build: str) -> None:
    linux()
    arguments = ["download", f"{wrapper}==2.10.0", "--only-binary=:all:", "--python-version", "3.11"]
    arguments += ["--platform", "manylinux_2_28_aarch64", *indexes(world)]
    envs.run("pip", arguments, cwd=tmp_path)
    assert [path.name for path in tmp_path.glob("torch-*.whl")] == [
        f"torch-{build}-cp311-cp311-manylinux_2_28_aarch64.whl"
    ]


# Case P06, https://github.com/python-poetry/poetry/issues/9442
def test_pip_on_an_intel_mac_takes_the_last_wrapper_that_covers_it(world: World, tmp_path: Path) -> None:
    arguments = ["download", "torch-cpu", "--no-deps", "--only-binary=:all:", "--python-version", "3.10"]
    arguments += ["--platform", "macosx_13_0_x86_64", "--index-url", world.site.simple]
    envs.run("pip", arguments, cwd=tmp_path)
    assert [path.name.split("-")[1] for path in tmp_path.glob("torch_cpu-*.whl")] == ["2.2.2"]


def uv_lock(world: World, folder: Path, dependencies: list[str], text: str = "") -> Path:
    """Lock a project for Python 3.10 with our index before PyPI; `text` is added to its pyproject.toml."""
    found = [UvIndex("metawheel", world.site.simple), UvIndex("pypi", world.pypi.simple, default=True)]
    uv_project(folder, dependencies, found, requires_python="==3.10.*")
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(text)
    envs.run("uv", ["lock", "--python", str(require_interpreter("3.10"))], cwd=folder)
    return folder / "uv.lock"


# Case U07, https://github.com/astral-sh/uv/issues/8358
def test_uv_that_must_serve_intel_macs_locks_2_2_2_for_them(world: World, tmp_path: Path) -> None:
    wanted = "sys_platform == 'darwin' and platform_machine == 'x86_64'"
    lock = read_lock(uv_lock(world, tmp_path, ["torch-cpu"], f'\n[tool.uv]\nrequired-environments = ["{wanted}"]\n'))
    found = lock.find("torch", MACOS_X86_64)
    assert found is not None
    assert (found.version, bool(found.installable)) == ("2.2.2", True)


# Case U16, https://github.com/aspect-build/rules_py/issues/1510
# Case U17, https://github.com/pyproject-nix/uv2nix/issues/265
def test_a_uv_lock_with_a_wrapper_needs_no_conflicts_and_has_plain_edges(world: World, tmp_path: Path) -> None:
    path = uv_lock(world, tmp_path, ["torch-cu128==2.10.0"])
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    assert "conflicts" not in data
    edges = [edge for package in data["package"] for edge in package.get("dependencies", ())]
    assert not any("extra" in edge.get("marker", "") for edge in edges)
    lock = read_lock(path)
    for target, build in ((LINUX_X86_64, "2.10.0+cu128"), (MACOS_ARM64, "2.10.0")):
        names = {item.name: item.version for item in lock.active(target)}
        assert names["torch"] == build
        assert "typing-extensions" in names, "what torch itself requires is not lost"


# Case F01, https://github.com/pytorch/vision/issues/9174
def test_a_torchvision_of_another_torch_is_a_conflict(world: World, tmp_path: Path) -> None:
    linux()
    python = ["--python-version", "3.10", "--no-emit-index-url"]
    found = ["--index", world.site.simple, "--default-index", world.pypi.simple, *python]
    (tmp_path / "right.in").write_text("torch-cu124[vision]==2.6.0\n", encoding="utf-8")
    done = envs.run("uv", ["pip", "compile", "right.in", *found], cwd=tmp_path)
    assert "torchvision==0.21.0+cu124\n" in done.stdout
    (tmp_path / "wrong.in").write_text("torch-cu124[vision]==2.6.0\ntorchvision==0.23.0\n", encoding="utf-8")
    failed = envs.run("uv", ["pip", "compile", "wrong.in", *found], cwd=tmp_path, status=1)
    assert "No solution found" in failed.stderr
    assert "torchvision==0.23.0" in failed.stderr


class _Wheels(LoopbackServer):
    """Serves wheels by path, as a host without any index does."""

    files: Mapping[str, bytes] = MappingProxyType({})

    def answer(self, path: str, _headers: Mapping[str, str], /) -> Reply:
        """Find a wheel."""
        return Reply(self.files[path]) if path in self.files else NOT_FOUND


# Case E03, https://github.com/pypa/pipenv/issues/4082
# Case L05, found by trying Poetry 2.5.1: it locks a wrong #sha256 without a word
def test_a_direct_wrapper_takes_the_bytes_of_its_address_only(pypi: FakePyPI, tmp_path: Path) -> None:
    linux()
    name = "torch-0.4.1-py3-none-manylinux_2_17_x86_64.whl"
    pypi.add("torch", "0.4.1", tags="py3-none-manylinux_2_17_x86_64")  # the same name with other bytes
    right = wheel_of(name)
    with _Wheels() as host:
        host.files = {f"/whl/cpu/{name}": right}
        file = replace(wheel(name), url=f"{host.url}whl/cpu/{name}", sha256=hashlib.sha256(right).hexdigest())
        text = TORCH.replace(UPSTREAM, f"{host.url}whl/")
        write_family(tmp_path / "packages" / "torch", text.replace('"" = "cpu"', '"cpu" = "cpu"'), [file])
        build_site(tmp_path / "packages", tmp_path / "site", Options(flavour="direct", offline=True))
        with SiteServer(tmp_path / "site") as site:
            arguments = ["download", "torch-cpu==0.4.1", "--dest", "got", "--index-url", pypi.simple]
            arguments += ["--extra-index-url", site.simple, "--no-cache-dir"]
            envs.run("pip", arguments, cwd=tmp_path)
            assert (tmp_path / "got" / name).read_bytes() == right
            host.files = {f"/whl/cpu/{name}": right + b"!"}
            failed = envs.run("pip", [*arguments, "--dest", "again"], cwd=tmp_path, status=1)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in failed.stderr
