"""The recipes of docs/serve.md, taken from its text: one index URL is enough, and a stranger is never taken."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import elsewhere, envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import LINUX_X86_64, MACOS_ARM64, WINDOWS_AMD64, Lock, read_lock
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock, stock_plain_builds
from tests.fakes.pypi import FakePyPI
from tests.fakes.upstream import UpstreamServer
from tests.serve.running import Client, serving

pytestmark = pytest.mark.clients

DOCUMENT = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
SITE = "http://localhost:8000/"
PROJECT = '[project]\nname = "app"\nversion = "1.0"\nrequires-python = ">=3.11,<3.12"\n'
NAMES = ("torch-cpu", "torch-cu116", "jaxlib-select")
WRAPPERS = (
    "torch-cpu==2.9.1",
    "torch-cu128==2.9.1",
    "torch-cu129==2.9.1",
    "torch-cu116==1.13.1",
    "jaxlib-select==0.7.2",
)
OURS = {name: version for name, _, version in (wrapper.partition("==") for wrapper in WRAPPERS)}


def recipe(client: str, language: str) -> str:
    """The document's code block in a language that follows a client's name."""
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT.split(f"\n**{client}**", 1)[1], re.DOTALL)
    assert found is not None
    return found[1]


@dataclass(frozen=True)
class World:
    """A server over a site, and the fallback on which strangers have the wrappers' names."""

    client: Client
    pypi: FakePyPI
    upstream: UpstreamServer

    @property
    def index(self) -> str:
        return f"{self.client.base_url}".rstrip("/") + "/simple/"

    def here(self, text: str) -> str:
        """A recipe with this server's address."""
        assert SITE in text
        return text.replace(SITE, f"{self.client.base_url}".rstrip("/") + "/")

    def project(self, folder: Path, client: str, more: str = "") -> Path:
        text = self.here(recipe(client, "toml")).replace("[project]\n", PROJECT, 1)
        (folder / "pyproject.toml").write_text(text + more, encoding="utf-8")
        return folder


@pytest.fixture(scope="module", params=["links", "cache"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Once with links to upstream, once with the server's own cache of upstream's files."""
    folder = tmp_path_factory.mktemp("world")
    with ExitStack() as stack:
        upstream, pypi = stack.enter_context(UpstreamServer()), stack.enter_context(FakePyPI())
        stock(pypi)
        site = build_stand_in_site(folder, upstream, WRAPPERS, padding=200_000, pypi=pypi)
        stock_plain_builds(pypi)
        for name, version in OURS.items():
            pypi.add(name, version)
            pypi.add(name, "99.0")
        cache = folder / "cache" if request.param == "cache" else None
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("no_proxy", "127.0.0.1")
        client = stack.enter_context(serving(site, fallback=pypi.simple, cache=cache))
        yield World(client, pypi, upstream)


@pytest.fixture(autouse=True)
def _our_names_are_not_asked_for(world: World) -> Iterator[None]:
    world.pypi.log.reset()
    world.upstream.log.reset()
    yield
    asked = {path.strip("/").rpartition("/")[2] for path in world.pypi.log.paths("page")}
    assert asked.isdisjoint({*OURS, "torch", "torchvision", "torchaudio", "jaxlib"})


def no_wheel_was_fetched(world: World) -> bool:
    return world.upstream.log.bytes("wheel") < 100_000


def assert_builds(lock: Lock, builds: Mapping[str, str]) -> None:
    targets = {target.name: target.with_python("3.11") for target in (LINUX_X86_64, MACOS_ARM64, WINDOWS_AMD64)}
    for name, build in builds.items():
        found, wrapper = lock.find("torch", targets[name]), lock.find("torch-cu128", targets[name])
        assert found is not None
        assert found.version == build, name
        assert wrapper is not None
        assert wrapper.version == "2.9.1"


CUDA = {LINUX_X86_64.name: "2.9.1+cu128", WINDOWS_AMD64.name: "2.9.1+cu128"}


def test_the_recipe_for_uv(world: World, tmp_path: Path) -> None:
    folder = world.project(tmp_path, "uv")
    lock, install = world.here(recipe("uv", "sh")).splitlines()
    envs.run("uv", [*shlex.split(lock)[1:], "--python", str(require_interpreter("3.11"))], cwd=folder)
    assert_builds(read_lock(folder / "uv.lock"), {**CUDA, MACOS_ARM64.name: "2.9.1"})
    assert no_wheel_was_fetched(world)
    assert _installed(tmp_path, "uv", shlex.split(install)[1:]) == ["2.9.1+cpu", "2.9.1"]


def test_the_recipe_for_pip(world: World, tmp_path: Path) -> None:
    assert _installed(tmp_path, "pip", shlex.split(world.here(recipe("pip", "sh")))[1:]) == ["2.9.1+cpu", "2.9.1"]


def test_the_recipe_for_poetry(world: World, tmp_path: Path) -> None:
    folder = world.project(tmp_path, "Poetry", "\n[tool.poetry]\npackage-mode = false\n")
    arguments = shlex.split(recipe("Poetry", "sh"))[1:]
    envs.run("poetry", arguments, cwd=folder, interpreters=[require_interpreter("3.11")])
    assert_builds(read_lock(folder / "poetry.lock"), CUDA)
    assert no_wheel_was_fetched(world)


def test_the_recipe_for_pdm(world: World, tmp_path: Path) -> None:
    folder = world.project(tmp_path, "PDM")
    locks = []
    for command in recipe("PDM", "sh").splitlines():
        program, *arguments = shlex.split(command)
        assert program == "pdm"
        envs.run("pdm", arguments, cwd=folder, interpreters=[require_interpreter("3.11")])
        locks.append((folder / arguments[-1]).read_text(encoding="utf-8"))
    for text, build in zip(locks, ("2.9.1+cu128", "2.9.1+cu128", "2.9.1"), strict=True):
        versions = {package["name"]: package["version"] for package in tomllib.loads(text)["package"]}
        assert (versions["torch"], versions["torch-cu128"]) == (build, "2.9.1")
    assert no_wheel_was_fetched(world)


def _pipenv(folder: Path, text: str, version: str = "3.11") -> Path:
    python = Path(sys.executable)
    (folder / "Pipfile").write_text(text, encoding="utf-8")
    home = envs.ensure("pipenv", python).parent
    base = {"VIRTUAL_ENV": str(home), "PIPENV_NOSPIN": "1", "PIPENV_YES": "1", "PIPENV_VERBOSITY": "-1"}
    env = {**base, **elsewhere.settings(LINUX_X86_64.with_python(version), folder / "as")}
    envs.run("pipenv", shlex.split(recipe("pipenv", "sh"))[1:], cwd=folder, env=env, python=python)
    return folder / "Pipfile.lock"


def test_the_recipe_for_pipenv(world: World, tmp_path: Path) -> None:
    lock = read_lock(_pipenv(tmp_path, world.here(recipe("pipenv", "toml"))))
    found, wrapper = (lock.find(name, LINUX_X86_64.with_python("3.11")) for name in ("torch", "torch-cpu"))
    assert found is not None
    assert wrapper is not None
    assert (found.version, wrapper.version) == ("2.9.1+cpu", "2.9.1")
    assert no_wheel_was_fetched(world)


PYTHONS = {"torch-cu116": "3.10"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", ["pip", "uv", "Poetry", "PDM", "pipenv"])
def test_a_stranger_at_99_is_never_taken(world: World, tmp_path: Path, client: str, name: str) -> None:
    python = PYTHONS.get(name, "3.11")
    versions = {"pip": _pip_versions, "pipenv": _pipenv_versions}.get(client, _locked_versions)
    assert versions(world, tmp_path, client, name, python) == OURS[name]


def _pip_versions(world: World, folder: Path, _client: str, name: str, python: str) -> str:
    tags = ["--python-version", python, *(f"--platform={name}" for name in LINUX_X86_64.platforms)]
    arguments = ["download", "--no-deps", name, "--only-binary=:all:", *tags, "--index-url", world.index]
    envs.run("pip", arguments, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel.name.split("-")[1]


def _pipenv_versions(world: World, folder: Path, _client: str, name: str, python: str) -> str:
    text = re.sub(r"torch-cpu = .*", f'{name} = "*"', world.here(recipe("pipenv", "toml")))
    found = read_lock(_pipenv(folder, text, python)).find(name, LINUX_X86_64.with_python(python))
    assert found is not None
    return found.version


def _locked_versions(world: World, folder: Path, client: str, name: str, python: str) -> str:
    world.project(folder, client, "\n[tool.poetry]\npackage-mode = false\n" if client == "Poetry" else "")
    path = folder / "pyproject.toml"
    text = path.read_text(encoding="utf-8").replace(">=3.11,<3.12", f">={python},<3.{int(python[2:]) + 1}")
    text = re.sub(r"dependencies = .*", f'dependencies = ["{name}"]', text).replace("/cu128/simple", "/simple")
    path.write_text(text, encoding="utf-8")
    interpreter = require_interpreter(python)
    if client == "uv":
        envs.run("uv", ["lock", "--python", str(interpreter)], cwd=folder)
    elif client == "Poetry":
        envs.run("poetry", ["lock"], cwd=folder, interpreters=[interpreter])
    else:
        envs.run("pdm", ["lock", "--platform", "linux"], cwd=folder, interpreters=[interpreter])
    found = read_lock(folder / f"{client.lower()}.lock").find(name, LINUX_X86_64.with_python(python))
    assert found is not None
    return found.version


def _installed(folder: Path, client: str, arguments: list[str]) -> list[str]:
    """Versions of torch and torch-cpu in a new environment in which a client has run."""
    envs.run("uv", ["venv", "--no-project", "env", "--python", sys.executable], cwd=folder)
    python = str(folder / "env" / "bin" / "python")
    run = ["--python", python, *arguments] if client == "pip" else [*arguments, "--python", python]
    envs.run(client, run, cwd=folder)
    code = "import importlib.metadata as m; print(m.version('torch'), m.version('torch-cpu'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()
