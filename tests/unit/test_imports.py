"""Commands come at once: none imports what it does not work with, and help only what a command line is made of."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.models import CommandInfo

from metawheel.cli import app, pip
from tests.fakes.ledgers import PACKAGES


def _name(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__ if command.callback is not None else "")


COMMANDS = [(_name(command),) for command in app.registered_commands]
OF_PIP = [("pip",), *(("pip", _name(command)) for command in pip.app.registered_commands)]

# Small modules that the commands' modules import at once.
LIGHT = ("json", "_json", "shlex")
OURS = "from metawheel.cli import main"
# A command line that does nothing, for what typer itself takes to show its help.
BARE = """
from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

@app.callback()
def options(version: bool = False) -> None:
    pass

@app.command()
def command(name: str) -> None:
    pass

main = app
"""
SHOWN = """
import sys
try:
    main()
finally:
    loaded = sorted(sys.modules)
    import json
    print(json.dumps(loaded), file=sys.stderr)
"""


@functools.cache
def _loaded(code: str, *arguments: str) -> frozenset[str]:
    """Every module that is there once the help has been shown."""
    command = [sys.executable, "-c", code + SHOWN, *arguments, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout
    return frozenset(json.loads(done.stderr))


@pytest.mark.parametrize("command", [(), *COMMANDS, *OF_PIP], ids=lambda command: " ".join(command) or "metawheel")
def test_help_imports_the_command_line_and_nothing_that_a_command_works_with(command: tuple[str, ...]) -> None:
    more = _loaded(OURS, *command) - _loaded(BARE, *(["command"] if command else []))
    own = {name for name in more if name.partition(".")[0] == "metawheel"}
    assert "metawheel.cli" in own
    assert {name for name in own if not name.startswith("metawheel.cli")} == {"metawheel", "metawheel.errors"}
    read = more - own - set(sys.builtin_module_names)
    assert {name for name in read if not name.startswith(LIGHT)} == set()


ASKING = {"requests", "urllib3", "cachecontrol", "bs4", "pypi_simple"}  # reads pages
BUILDING = {"tomli_w", "jinja2"}  # hatchling has workers of its own, or comes with the first wheel
OTHERS = {"twine", "rich", "boto3", "starlette", "uvicorn", "httpx", "installer", "remotezip", "filelock", "pynvml"}


@pytest.mark.parametrize(
    ("command", "not_needed"),
    [
        (["show", "torch-cpu"], ASKING | BUILDING | OTHERS),
        (["build", "--offline", "-o", "{site}"], ASKING | OTHERS - {"filelock"}),
        (["detect", "--json"], ASKING | BUILDING | OTHERS - {"pynvml"}),
        (["doctor", "{site}"], ASKING | BUILDING | OTHERS),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_imports_no_library_that_it_does_not_work_with(
    tmp_path: Path, command: list[str], not_needed: set[str]
) -> None:
    arguments = [part.replace("{site}", str(tmp_path / "site")) for part in command]
    code = OURS + SHOWN.replace("    main()", "    main()\nexcept SystemExit:\n    pass")
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--packages", PACKAGES], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}
    assert "metawheel" in loaded
    assert loaded & not_needed == set()
