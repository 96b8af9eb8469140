"""Every command that the front page shows is run as shown, and takes ours although a stranger has the name."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.browser.chromium import Browser
from tests.browser.conftest import World
from tests.clients import envs

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the commands install for this machine"
    ),
]

PROJECT = '[project]\nname = "app"\nversion = "1.0"\n'
PYTHON = Path(sys.executable).resolve()
Run = Callable[[Path, World, list[str]], None]


def _table(name: str, text: str) -> str:
    return f"\n[[tool.{name}]]\n{text}\n"


def _write(folder: Path, lines: str, more: str) -> None:
    (folder / "pyproject.toml").write_text(lines.replace("[project]\n", PROJECT, 1) + more, encoding="utf-8")


def _commands(client: str, text: str, folder: Path, env: dict[str, str] | None = None) -> None:
    for command in text.splitlines():
        program, *arguments = shlex.split(command)
        assert program == client
        envs.run(client, arguments, cwd=folder, env=env, interpreters=[PYTHON])


def uv(folder: Path, world: World, steps: list[str]) -> None:
    lines, commands = steps
    _write(folder, lines, _table("uv.index", f'name = "stand-in"\nurl = "{world.pypi.simple}"\ndefault = true'))
    _commands("uv", commands, folder)


def pip(folder: Path, world: World, steps: list[str]) -> None:
    requirements, commands = steps
    (folder / "requirements.in").write_text(f"{requirements}\n", encoding="utf-8")
    lock, install = commands.splitlines()
    program, *arguments = shlex.split(lock)
    assert program == "uv"
    envs.run("uv", [*arguments, "--default-index", world.pypi.simple], cwd=folder, interpreters=[PYTHON])
    envs.run("uv", ["venv", "--no-project", ".venv", "--python", str(PYTHON)], cwd=folder)
    python, m, pip_, *arguments = shlex.split(install)
    assert [python, m, pip_] == [f"python{sys.version_info.major}.{sys.version_info.minor}", "-m", "pip"]
    target = ["--python", str(folder / ".venv" / "bin" / "python")]
    envs.run("pip", [*target, *arguments, "--index-url", world.pypi.simple], cwd=folder)


def poetry(folder: Path, world: World, steps: list[str]) -> None:
    lines, commands = steps
    source = _table("poetry.source", f'name = "stand-in"\nurl = "{world.pypi.simple}"\npriority = "primary"')
    _write(folder, lines, f"{source}\n[tool.poetry]\npackage-mode = false\n")
    _commands("poetry", commands, folder)


def pdm(folder: Path, world: World, steps: list[str]) -> None:
    lines, commands = steps
    _write(folder, lines, _table("pdm.source", f'name = "pypi"\nurl = "{world.pypi.simple}"') + NOT_BUILT)
    _commands("pdm", commands, folder, {"PDM_CHECK_UPDATE": "0"})


NOT_BUILT = "\n[tool.pdm]\ndistribution = false\n"
CLIENTS: dict[str, Run] = {"uv": uv, "pip": pip, "poetry": poetry, "pdm": pdm}
CHOICES = {
    "a backend with an extra": ({"wrapper": "torch-cu128", "extra": "vision"}, {"torch": "2.10.0+cu128"}),
    "the newest backend": ({"wrapper": "torch-cuda"}, {"torch": "2.10.0+cu128", "torch-cu128": "2.10.0"}),
    "the CPU": ({"wrapper": "torch-cpu"}, {"torch": "2.9.1+cpu"}),
    "a plugin": (
        {"project": "jaxlib", "wrapper": "jaxlib-cuda12"},
        {"jaxlib": "0.5.3", "jax-cuda12-plugin": "0.5.3"},
    ),
}


def installed(folder: Path) -> dict[str, tuple[str, str]]:
    """Version and summary of what lies in a folder's environment."""
    files = folder.glob(".venv/lib/python*/site-packages/*.dist-info/METADATA")
    found = [HeaderParser().parsestr(path.read_text(encoding="utf-8")) for path in files]
    return {item["Name"].lower().replace("_", "-"): (item["Version"], item["Summary"] or "") for item in found}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_commands_as_shown_install_what_the_page_says(
    browser: Browser, world: World, tmp_path: Path, client: str, choice: str
) -> None:
    picked, expected = CHOICES[choice]
    browser.open(f"{world.site.url}index.html", picker=True)
    browser.pick(**picked, platform="linux x86_64", python=f"cp3{sys.version_info.minor}", client=client)
    wrapper = picked["wrapper"]
    assert browser.state().startswith(f"{wrapper} ")
    version = browser.state().split()[1]
    assert f" {next(iter(expected.values()))} " in f"{browser.state()} "
    CLIENTS[client](tmp_path, world, browser.steps())
    found = installed(tmp_path)
    assert {name: found[name][0] for name in expected} == expected
    assert found[wrapper][0] == version
    assert version in found[wrapper][1]  # our summary names the release; a stranger's does not
    if "extra" in picked:
        assert found["torchvision"][0].endswith("+cu128")
