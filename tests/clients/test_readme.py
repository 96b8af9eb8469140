"""Every recipe in the README, taken from its text: it works, and a stranger with the wrapper's name is never taken."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from metawheel.doctor import Options, examine
from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import LINUX_X86_64, MACOS_ARM64, WINDOWS_AMD64, Lock, read_lock
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock, stock_plain_builds
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer

pytestmark = pytest.mark.clients

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SITE = "http://localhost:8000/"
PROJECT = '[project]\nname = "app"\nversion = "1.0"\nrequires-python = ">=3.11,<3.12"\n'
BUILDS = {LINUX_X86_64: "2.9.1+cu128", MACOS_ARM64: "2.9.1", WINDOWS_AMD64: "2.9.1+cu128"}


def recipe(client: str, language: str) -> str:
    """The README's code block in a language that follows a client's name."""
    after = README.split(f"**{client}**", 1)[1]
    found = re.search(rf"```{language}\n(.*?)```", after, re.DOTALL)
    assert found is not None
    return found[1]


class World:
    """A site with the wrappers that the README names, and a stand-in PyPI on which a stranger has those names."""

    def __init__(self, site: SiteServer, pypi: FakePyPI, upstream: UpstreamServer) -> None:
        self.site, self.pypi, self.upstream = site, pypi, upstream

    def here(self, text: str) -> str:
        """A recipe with this site's address."""
        assert SITE in text
        return text.replace(SITE, self.site.url)

    def project(self, folder: Path, client: str, more: str) -> Path:
        """A project of the README's recipe, `more` naming the stand-in for PyPI."""
        text = self.here(recipe(client, "toml")).replace("[project]\n", PROJECT, 1)
        (folder / "pyproject.toml").write_text(text + more, encoding="utf-8")
        return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with UpstreamServer(metadata=True) as upstream, FakePyPI() as pypi:
        stock(pypi)
        stock_plain_builds(pypi)
        for name in ("torch-cpu", "torch-cu128"):
            pypi.add(name, "2.9.1")
            pypi.add(name, "99.0")
        wrappers = ("torch-cpu==2.9.1", "torch-cu128==2.9.1", "torch-cu129==2.9.1")
        site = build_stand_in_site(tmp_path_factory.mktemp("readme"), upstream, wrappers, padding=200_000)
        with SiteServer(site) as server:
            yield World(server, pypi, upstream)


def assert_right(lock: Lock) -> None:
    for target, build in BUILDS.items():
        found = lock.find("torch", target.with_python("3.11"))
        wrapper = lock.find("torch-cu128", target.with_python("3.11"))
        assert found is not None
        assert found.version == build
        assert wrapper is not None
        assert wrapper.installable


def test_the_recipe_for_poetry(world: World, tmp_path: Path) -> None:
    source = f'\n[[tool.poetry.source]]\nname = "stand-in"\nurl = "{world.pypi.simple}"\npriority = "primary"\n'
    folder = world.project(tmp_path, "Poetry", f"{source}\n[tool.poetry]\npackage-mode = false\n")
    envs.run("poetry", ["lock"], cwd=folder, interpreters=[require_interpreter("3.11")])
    assert_right(read_lock(folder / "poetry.lock"))


def test_the_recipe_for_uv(world: World, tmp_path: Path) -> None:
    index = f'\n[[tool.uv.index]]\nname = "stand-in"\nurl = "{world.pypi.simple}"\ndefault = true\n'
    folder = world.project(tmp_path, "uv", index)
    envs.run("uv", ["lock", "--python", str(require_interpreter("3.11"))], cwd=folder)
    assert_right(read_lock(folder / "uv.lock"))


def test_the_recipe_for_pdm(world: World, tmp_path: Path) -> None:
    folder = world.project(tmp_path, "PDM", f'\n[[tool.pdm.source]]\nname = "pypi"\nurl = "{world.pypi.simple}"\n')
    locks = []
    for command in recipe("PDM", "sh").splitlines():
        program, *arguments = shlex.split(command)
        assert program == "pdm"
        envs.run("pdm", arguments, cwd=folder, interpreters=[require_interpreter("3.11")])
        locks.append((folder / arguments[-1]).read_text(encoding="utf-8"))
    for text, build in zip(locks, ("2.9.1+cu128", "2.9.1+cu128", "2.9.1"), strict=True):
        versions = {package["name"]: package["version"] for package in tomllib.loads(text)["package"]}
        assert (versions["torch"], versions["torch-cu128"]) == (build, "2.9.1")


def locked_for_pip(world: World, folder: Path) -> list[str]:
    """Lock with the first command of the recipe for pip, and return the second."""
    lock, install = world.here(recipe("pip", "sh")).replace("\\\n", " ").splitlines()
    line, _, compiled = lock.partition("|")
    (folder / "requirements.in").write_text(shlex.split(line)[1] + "\n", encoding="utf-8")
    _, *arguments = [part if part != "-" else "requirements.in" for part in shlex.split(compiled)]
    envs.run("uv", [*arguments, "--default-index", world.pypi.simple, "--python", sys.executable], cwd=folder)
    return shlex.split(install)


def test_the_recipe_for_pip(world: World, tmp_path: Path) -> None:
    _, *arguments = locked_for_pip(world, tmp_path)
    envs.run("uv", ["venv", "--no-project", ".venv", "--python", sys.executable], cwd=tmp_path)
    python = str(tmp_path / ".venv" / "bin" / "python")
    envs.run("pip", ["--python", python, *arguments], cwd=tmp_path)
    code = "import importlib.metadata as m; print(m.metadata('torch-cpu')['Summary'])"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("PyTorch 2.9.1")


def test_the_doctor_finds_nothing_wrong_in_what_the_recipe_for_pip_locks(world: World, tmp_path: Path) -> None:
    locked_for_pip(world, tmp_path)
    report = examine(tmp_path, Options())
    assert {(choice.project, choice.version) for choice in report.choices} >= {("torch", "2.9.1+cpu")}
    assert report.findings == ()


def test_upstreams_wheels_stayed_where_they_are(world: World, tmp_path: Path) -> None:
    world.upstream.log.reset()
    test_the_recipe_for_uv(world, tmp_path)
    assert world.upstream.log.bytes("wheel") == 0
