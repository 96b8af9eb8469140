"""devpi-server as a mirror of our site: what it passes on is what we serve."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pypi_simple import ProjectPage

from tests.clients import envs
from tests.clients.envs import Client
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer
from tests.servers.running import ask, free_port

pytestmark = pytest.mark.clients

DEVPI = ("devpi-server>=6.20,<7", "setuptools<81")  # it still imports pkg_resources
INIT, SERVER = (Client("devpi", program, DEVPI) for program in ("devpi-init", "devpi-server"))
START = 60  # seconds until a server that does not answer is given up
WRAPPERS = ("torch-cpu==2.10.0", "torch-cu128==2.10.0")


@dataclass(frozen=True)
class World:
    """Our site, PyPI's stand-in, and the address of devpi's mirror of our site."""

    site: SiteServer
    pypi: FakePyPI
    mirror: str


@contextmanager
def devpi(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a fresh devpi-server; gives its address and root's password."""
    password = secrets.token_hex(8)
    data = ["--serverdir", str(folder / "data")]
    envs.run(INIT, [*data, "--no-root-pypi", "--root-passwd", password], cwd=folder)
    bin_folder = envs.ensure(SERVER)
    url = f"http://127.0.0.1:{(port := free_port())}/"
    command = [str(bin_folder / SERVER.program), *data, "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=envs.clean_env(folder, bin_folder), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_for(f"{url}+api", process, folder / "log")
        yield url, password
    finally:
        process.terminate()
        try:
            process.wait(START)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a server answers."""
    until = time.monotonic() + START
    while True:
        try:
            ask(url)
            return
        except (urllib.error.URLError, ConnectionError):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"devpi-server did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
            time.sleep(0.1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A small site with stand-ins for upstream's wheels, and devpi in front of it."""
    folder = tmp_path_factory.mktemp("devpi")
    with UpstreamServer() as upstream, FakePyPI() as pypi:
        stock(pypi)
        site_folder = build_stand_in_site(folder / "built", upstream, WRAPPERS)
        with SiteServer(site_folder) as site, devpi(folder) as (url, password):
            login = json.loads(ask(f"{url}+login", {"user": "root", "password": password}, method="POST"))
            token = base64.b64encode(f"root:{login['result']['password']}".encode()).decode()
            index = {"type": "mirror", "mirror_url": site.simple, "volatile": False}
            ask(f"{url}root/metawheel", index, method="PUT", headers={"X-Devpi-Auth": token})
            yield World(site, pypi, f"{url}root/metawheel/+simple/")


def listed(index: str, project: str) -> dict[str, tuple[str | None, str | None]]:
    """The files on a page, each with its sha256 and Requires-Python."""
    url = f"{index}{project}/"
    packages = ProjectPage.from_html(project, ask(url).decode(), url).packages
    return {item.filename: (item.digests.get("sha256"), item.requires_python) for item in packages}


@pytest.mark.parametrize("project", ["torch", "torch-cpu", "torch-cu128"])
def test_a_mirrored_page_lists_our_files_with_our_hashes(world: World, project: str) -> None:
    ours, theirs = listed(world.site.simple, project), listed(world.mirror, project)
    assert ours == theirs
    assert ours


def test_a_name_that_we_do_not_have_is_a_404_there_too(world: World) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(f"{world.mirror}typing-extensions/")
    with caught.value:
        assert caught.value.code == 404


@pytest.mark.parametrize(("wrapper", "build"), [("torch-cpu", "2.10.0+cpu"), ("torch-cu128", "2.10.0+cu128")])
def test_pip_gets_our_wrapper_and_its_torch_through_the_mirror(
    world: World, tmp_path: Path, wrapper: str, build: str
) -> None:
    arguments = ["download", f"{wrapper}==2.10.0", "--only-binary=:all:", "--python-version", "3.11"]
    arguments += ["--platform", "manylinux_2_28_x86_64", "--index-url", world.mirror]
    envs.run("pip", [*arguments, "--extra-index-url", world.pypi.simple], cwd=tmp_path)
    (mine,) = tmp_path.glob(f"{wrapper.replace('-', '_')}-2.10.0-*.whl")
    files = world.site.root / "files"
    assert hashlib.sha256(mine.read_bytes()).digest() == hashlib.sha256((files / mine.name).read_bytes()).digest()
    assert [path.name.split("-")[1] for path in tmp_path.glob("torch-*.whl")] == [build]
