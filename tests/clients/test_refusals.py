"""What the page calls refused is loud: a lock that names no wheel for this platform ends in an error."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.clients import envs
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.projects_other import PdmSource, pdm_project, poetry1_project
from tests.fakes.pypi import FakePyPI

pytestmark = pytest.mark.clients

PYTHON = f">={sys.version_info.major}.{sys.version_info.minor}"
WANTED = ["elsewhere-only==1.0"]
Write = Callable[[Path, str], Path]
CLIENTS: dict[str, tuple[Write, Sequence[str], Sequence[str]]] = {
    "uv": (
        lambda folder, url: uv_project(folder, WANTED, [UvIndex("pypi", url, default=True)], requires_python=PYTHON),
        ["lock", "--python", sys.executable],
        ["sync", "--frozen", "--python", sys.executable],
    ),
    "poetry": (
        lambda folder, url: poetry_project(folder, WANTED, [PoetrySource("pypi-like", url)], requires_python=PYTHON),
        ["lock"],
        ["install"],
    ),
    "poetry-1.8": (
        lambda folder, url: poetry1_project(
            folder, WANTED, [PoetrySource("pypi-like", url)], pins={}, requires_python=PYTHON
        ),
        ["lock"],
        ["install"],
    ),
    "pdm": (
        lambda folder, url: pdm_project(folder, WANTED, [PdmSource("pypi", url)], requires_python=PYTHON),
        ["lock", "--platform", "windows"],
        ["sync"],
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_lock_without_a_wheel_for_this_platform_installs_nothing_and_says_so(
    client: str, pypi: FakePyPI, tmp_path: Path
) -> None:
    if sys.platform == "win32":
        pytest.skip("the wheel is for Windows")
    pypi.add("elsewhere-only", "1.0", tags="py3-none-win_amd64")
    write, lock, install = CLIENTS[client]
    folder = write(tmp_path / "app", pypi.simple)
    envs.run(client, lock, cwd=folder, interpreters=[Path(sys.executable)])
    done = envs.run(client, install, cwd=folder, interpreters=[Path(sys.executable)], status=None)
    assert done.returncode != 0
    assert re.search("elsewhere-only|No compatible lock target", done.stdout + done.stderr)
    assert not list(folder.glob(".venv/lib/*/site-packages/elsewhere_only*"))
