"""Python's own static web server over the site is enough."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import LINUX_X86_64, MACOS_ARM64, read_lock
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock_plain_builds
from tests.fakes.pypi import FakePyPI
from tests.fakes.upstream import UpstreamServer

pytestmark = pytest.mark.clients

BUILDS = {LINUX_X86_64: "2.9.1+cpu", MACOS_ARM64: "2.9.1"}


@dataclass(frozen=True)
class World:
    """The index as http.server serves it, and the stand-in for PyPI."""

    simple: str
    pypi: FakePyPI


@contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """Run `python -m http.server` over a folder on a free port; gives its URL."""
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "-d", str(folder), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"port (\d+)", server.stdout.readline())
            assert found is not None
            yield f"http://127.0.0.1:{found[1]}/"
        finally:
            server.terminate()


@pytest.fixture
def world(tmp_path: Path, pypi: FakePyPI) -> Iterator[World]:
    stock_plain_builds(pypi)
    with UpstreamServer(metadata=True) as upstream:
        site = build_stand_in_site(tmp_path, upstream, ["torch-cpu==2.9.1"])
        with http_server(site) as url:
            yield World(f"{url}simple/", pypi)


def test_http_server_is_enough_for_uv(world: World, tmp_path: Path) -> None:
    indexes = [UvIndex("metawheel", world.simple), UvIndex("pypi", world.pypi.simple, default=True)]
    folder = uv_project(tmp_path / "app", ["torch-cpu==2.9.1"], indexes, requires_python="==3.11.*")
    envs.run("uv", ["lock", "--python", str(require_interpreter("3.11"))], cwd=folder)
    lock = read_lock(folder / "uv.lock")
    assert {t: lock.versions("torch", [t.with_python("3.11")])[t.name] for t in BUILDS} == BUILDS


def test_http_server_is_enough_for_poetry(world: World, tmp_path: Path) -> None:
    sources = [PoetrySource("stand-in", world.pypi.simple), PoetrySource("metawheel", world.simple, "supplemental")]
    pins = {"torch-cpu": "metawheel"}
    folder = poetry_project(tmp_path / "app", ["torch-cpu==2.9.1"], sources, pins=pins, requires_python=">=3.11,<3.12")
    envs.run("poetry", ["lock"], cwd=folder, interpreters=[require_interpreter("3.11")])
    lock = read_lock(folder / "poetry.lock")
    assert {t: lock.versions("torch", [t.with_python("3.11")])[t.name] for t in BUILDS} == BUILDS


def test_http_server_is_enough_for_pip(world: World, tmp_path: Path) -> None:
    arguments = ["download", "--no-deps", "torch-cpu==2.9.1", "--index-url", world.simple, "--only-binary=:all:"]
    envs.run("pip", [*arguments, "--python-version", "3.12", "--platform", "win_amd64"], cwd=tmp_path)
    assert [path.name.split("-")[0] for path in tmp_path.glob("*.whl")] == ["torch_cpu"]
