"""The harness tried on a small hand-written site: fakes, clients and lock readers together."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from packaging.tags import Tag

from tests.clients import elsewhere, envs
from tests.clients.conftest import MakeUpstream, ServeSite
from tests.clients.handmade import cu116_lines, links_to, write_site
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import (
    LINUX_AARCH64,
    LINUX_X86_64,
    MACOS_ARM64,
    MACOS_X86_64,
    WINDOWS_AMD64,
    Lock,
    ReportLock,
    RequirementsLock,
    read_lock,
)
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.requirements import facts_of, stand_in
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, WheelSpec

CU116 = "whl/cu116/torch-1.13.1%2Bcu116-cp310-cp310-{}.whl"
CPU = "whl/cpu/torch-1.13.1%2Bcpu-cp310-cp310-{}.whl"
PLAIN = "whl/cpu/torch-1.13.1-cp310-none-{}.whl"
URLS = (
    *(CU116.format(platform) for platform in ("linux_x86_64", "win_amd64")),
    *(CPU.format(platform) for platform in ("linux_x86_64", "win_amd64")),
    *(PLAIN.format(platform) for platform in ("macosx_11_0_arm64", "macosx_10_9_x86_64")),
)
# Poetry asks its primary source first, and takes a plain build from there.
PYPI_TAGS = (
    "cp310-cp310-manylinux1_x86_64",
    "cp310-cp310-manylinux2014_aarch64",
    "cp310-cp310-win_amd64",
    "cp310-none-macosx_10_9_x86_64",
    "cp310-none-macosx_11_0_arm64",
)
GUARD = "cp310-none-linux_x86_64.macosx_10_9_x86_64.macosx_11_0_arm64.win_amd64"
EXPECTED = {
    "linux-x86_64": "1.13.1+cu116",
    "linux-aarch64": "1.13.1",
    "macos-arm64": "1.13.1",
    "macos-x86_64": "1.13.1",
    "windows-amd64": "1.13.1+cu116",
}


@dataclass(frozen=True)
class World:
    """The three servers of a test."""

    site: SiteServer
    upstream: UpstreamServer
    pypi: FakePyPI


@pytest.fixture
def world(tmp_path: Path, make_upstream: MakeUpstream, serve_site: ServeSite, pypi: FakePyPI) -> World:
    """A site with the wrapper torch-cu116 1.13.1, its upstream and a PyPI with torch builds of its own."""
    upstream = make_upstream([stand_in(url, padding=200_000) for url in URLS])
    wrapper = WheelSpec(f"torch_cu116-1.13.1-{GUARD}.whl", cu116_lines(), ">=3.7.0")
    folder = write_site(tmp_path / "site", [wrapper], links_to(upstream))
    for tags in PYPI_TAGS:
        pypi.add("torch", "1.13.1", requires=facts_of(f"torch-1.13.1-{tags}.whl").requires, tags=tags)
        pypi.add("torch", "2.0.0", requires=["typing-extensions"], tags=tags)
    return World(serve_site(folder), upstream, pypi)


def get(url: str, headers: dict[str, str] | None = None, method: str = "GET") -> tuple[int, bytes]:
    """Fetch a URL past any proxy that the machine has set."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers or {}, method=method)) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def assert_right(lock: Lock) -> None:
    """The lock names the right build everywhere, and the guard keeps it off what is not covered."""
    assert lock.versions("torch") == EXPECTED
    for target in (LINUX_X86_64, MACOS_ARM64, MACOS_X86_64, WINDOWS_AMD64):
        for name in ("torch", "torch-cu116"):
            found = lock.find(name, target)
            assert found is not None
            assert len(found.installable) == 1
    guarded = lock.find("torch-cu116", LINUX_AARCH64)
    assert guarded is not None
    assert guarded.installable == ()


def test_upstream_serves_ranges_sidecars_and_both_spellings(make_upstream: MakeUpstream) -> None:
    upstream = make_upstream([stand_in(URLS[0], padding=50_000)])
    spelled, literal = upstream.url + URLS[0], upstream.url + URLS[0].replace("%2B", "+")
    _, whole = get(spelled)
    assert get(literal) == (200, whole)
    assert get(spelled, {"Range": "bytes=-100"}) == (206, whole[-100:])
    assert get(spelled, {"Range": "bytes=10-19"}) == (206, whole[10:20])
    assert get(spelled, {"Range": f"bytes={len(whole)}-"})[0] == 416
    assert get(spelled, method="HEAD") == (200, b"")
    with zipfile.ZipFile(BytesIO(whole)) as archive:
        inside = archive.read("torch-1.13.1+cu116.dist-info/METADATA")
    assert get(spelled + ".metadata") == (200, inside)
    assert b"Requires-Dist: typing-extensions\n" in inside
    assert upstream.log.bytes("wheel") == 2 * len(whole) + 110
    assert upstream.log.bytes("metadata") == len(inside)
    upstream.log.reset()
    assert upstream.log.count() == 0


def test_upstream_switches(make_upstream: MakeUpstream) -> None:
    upstream = make_upstream([stand_in(URLS[0])], metadata=False, ranges=False, redirects=True)
    url = upstream.url + URLS[0]
    assert get(url + ".metadata")[0] == 404
    status, whole = get(url, {"Range": "bytes=0-9"})
    assert (status, len(whole)) == (200, len(upstream.built(url).data))
    assert [hit.status for hit in upstream.log.hits("wheel")] == [302, 200]


def test_stand_ins_are_the_same_in_every_run() -> None:
    first, second = (UpstreamServer([stand_in(URLS[0])]) for _ in range(2))
    assert first.sha256(URLS[0]) == second.sha256(URLS[0].replace("%2B", "+"))


def test_true_requirement_lines() -> None:
    bundled = facts_of("torch-1.13.1+cu116-cp310-cp310-linux_x86_64.whl")
    assert bundled.requires[0] == "typing-extensions"
    assert not any("nvidia" in line for line in bundled.requires)
    named = facts_of("torch-2.9.1+cu128-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert any(line.startswith("nvidia-cudnn-cu12==") for line in named.requires)
    assert "torch==2.9.1" in facts_of("torchaudio-2.9.1-cp310-cp310-manylinux_2_28_x86_64.whl").requires


def test_pypi_speaks_html_and_json(shared_pypi: FakePyPI) -> None:
    url = shared_pypi.simple + "Lightning_Like/"
    _, page = get(url, {"Accept": "text/html"})
    assert b"lightning_like-1.0-py3-none-any.whl#sha256=" in page
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    _, body = get(url, {"Accept": accept})
    assert json.loads(body)["versions"] == ["1.0"]


@pytest.mark.clients
def test_uv_locks_every_platform(world: World, tmp_path: Path) -> None:
    indexes = [UvIndex("metawheel", world.site.simple), UvIndex("pypi", world.pypi.simple, default=True)]
    dependencies = ["torch-cu116==1.13.1", "lightning-like"]
    folder = uv_project(tmp_path / "app", dependencies, indexes)
    envs.run("uv", ["lock", "--python", sys.executable], cwd=folder)
    assert_right(read_lock(folder / "uv.lock"))
    assert world.upstream.log.bytes("wheel") == 0
    assert world.upstream.log.bytes("metadata") > 0


@pytest.mark.clients
def test_uv_compiles_every_platform(world: World, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("torch-cu116==1.13.1\n", encoding="utf-8")
    args = ["pip", "compile", "--universal", "--python-version", "3.10", "requirements.in"]
    args += ["--index", world.site.simple, "--default-index", world.pypi.simple]
    done = envs.run("uv", args, cwd=tmp_path)
    assert RequirementsLock(done.stdout).versions("torch") == EXPECTED
    assert world.upstream.log.bytes("wheel") == 0


@pytest.mark.clients
def test_poetry_locks_every_platform(world: World, tmp_path: Path) -> None:
    sources = [
        PoetrySource("mirror", world.pypi.simple),
        PoetrySource("metawheel", world.site.simple, "supplemental"),
    ]
    folder = poetry_project(
        tmp_path / "app",
        ["torch-cu116==1.13.1", "lightning-like"],
        sources,
        pins={"torch-cu116": "metawheel"},
    )
    envs.run("poetry", ["lock"], cwd=folder)
    assert_right(read_lock(folder / "poetry.lock"))
    assert world.upstream.log.bytes("wheel") == 0


@pytest.mark.clients
@pytest.mark.parametrize("name", ["pip", "uv"])
def test_clients_reach_nothing_but_loopback(name: str, tmp_path: Path) -> None:
    args = {"pip": ["download", "--no-deps", "packaging"], "uv": ["pip", "compile", "requirements.in"]}
    (tmp_path / "requirements.in").write_text("packaging\n", encoding="utf-8")
    done = envs.run(name, args[name], cwd=tmp_path, status=None)
    assert done.returncode != 0


@pytest.mark.clients
@pytest.mark.parametrize(("client", "prefix"), [("pip", ""), ("pip-tools", ""), ("pipenv", "pipenv.patched.")])
def test_as_if_elsewhere_pip_takes_the_targets_wheels_and_markers(client: str, prefix: str, tmp_path: Path) -> None:
    target = MACOS_ARM64.with_python("3.14")
    code = f"""
from {prefix}pip._internal.models.target_python import get_supported
from {prefix}pip._vendor.packaging.markers import Marker
print(*get_supported(), sep="\\n")
assert Marker("sys_platform == 'darwin' and python_version == '3.14'").evaluate()
"""
    command = [str(envs.ensure(client) / "python"), "-c", code]
    env = {**envs.clean_env(tmp_path / "home", envs.ensure(client)), **elsewhere.settings(target, tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert {Tag(*line.split("-")) for line in done.stdout.split()} == target.tags


@pytest.mark.clients
def test_pip_reports_this_platform(world: World, tmp_path: Path) -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the report is for the platform that runs the test, and 3.10 on Linux is what is judged")
    python = require_interpreter("3.10")
    args = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json"]
    args += ["--index-url", world.site.simple, "--extra-index-url", world.pypi.simple, "torch-cu116"]
    envs.run("pip", args, cwd=tmp_path, python=python)
    lock = ReportLock((tmp_path / "report.json").read_text(encoding="utf-8"))
    found = lock.find("torch", LINUX_X86_64)
    assert found is not None
    assert found.version == "1.13.1+cu116"
    assert found.source == world.upstream.url_of(URLS[0])
    assert world.upstream.log.bytes("wheel") == 0
