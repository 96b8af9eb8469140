"""Cases about a wrapper that is new to a project: a backend nobody knew, and a lock that fetches no wheel."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from metawheel.inputs import Options
from metawheel.upstream.mirrors import Mirror
from tests.cases.conftest import World
from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import LINUX_X86_64, MACOS_ARM64, read_lock
from tests.clients.projects import UvIndex, uv_project
from tests.fakes.ledgers import TORCH, UPSTREAM, build_site, wheel, write_family
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, WheelSpec

pytestmark = pytest.mark.clients


# Case U14, https://github.com/astral-sh/uv/issues/16319
def test_uv_adds_a_backend_that_it_has_never_heard_of(pypi: FakePyPI, tmp_path: Path) -> None:
    files = [
        wheel("torch-3.1.0+cu199-cp310-cp310-manylinux_2_28_x86_64.whl", "cu199"),
        wheel("torch-3.1.0-cp310-none-macosx_14_0_arm64.whl"),
    ]
    paths = {file.filename: (file.url or "").removeprefix(UPSTREAM) for file in files}
    with UpstreamServer([WheelSpec(path) for path in paths.values()]) as upstream:
        hashed = [replace(file, sha256=upstream.sha256(paths[file.filename])) for file in files]
        write_family(tmp_path / "packages" / "torch", TORCH, hashed)
        mirror = Mirror.parse(f"{UPSTREAM}={upstream.url}")
        build_site(tmp_path / "packages", tmp_path / "site", Options(mirrors=(mirror,), offline=True))
        with SiteServer(tmp_path / "site") as site:
            found = [UvIndex("metawheel", site.simple), UvIndex("pypi", pypi.simple, default=True)]
            uv_project(tmp_path / "app", [], found, requires_python="==3.10.*")
            python = str(require_interpreter("3.10"))
            envs.run("uv", ["add", "--no-sync", "torch-cu199", "--python", python], cwd=tmp_path / "app")
    lock = read_lock(tmp_path / "app" / "uv.lock")
    assert {t.name: v.version for t in (LINUX_X86_64, MACOS_ARM64) if (v := lock.find("torch", t))} == {
        LINUX_X86_64.name: "3.1.0+cu199",
        MACOS_ARM64.name: "3.1.0",
    }


# Case E01, https://github.com/pypa/pipenv/issues/4963
def test_pipenv_locks_without_fetching_a_wheel_of_torch(world: World, tmp_path: Path) -> None:
    lines = []
    for name, url in (("pypi", world.pypi.simple), ("metawheel", world.site.simple)):
        lines += ["[[source]]", f'name = "{name}"', f'url = "{url}"', "verify_ssl = false", ""]
    # pipenv looks for a package that names no index in the first one only, so torch names ours too.
    lines += ["[packages]", 'torch-cu128 = {version = "==2.10.0", index = "metawheel"}']
    lines += ['torch = {version = "*", index = "metawheel"}']
    (tmp_path / "Pipfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    world.upstream.log.reset()
    envs.run("pipenv", ["lock", "--python", sys.executable], cwd=tmp_path)
    lock = (tmp_path / "Pipfile.lock").read_text(encoding="utf-8")
    assert '"version": "==2.10.0+cu128"' in lock
    assert world.upstream.log.bytes("wheel") == 0
