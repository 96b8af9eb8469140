"""How soon the command line answers."""

from __future__ import annotations

import sys
from functools import partial

from bench.ledgers import PACKAGES
from bench.machine import machine, versions
from bench.measure import in_turns, run
from bench.report import Part, Table

PYTHON = sys.executable
COMMANDS = {
    "metawheel --help": [PYTHON, "-m", "metawheel", "--help"],
    "metawheel show": [PYTHON, "-m", "metawheel", "show", "torch-cpu", "--packages", str(PACKAGES)],
    "an empty typer command line": [PYTHON, "-c", "import typer; typer.run(lambda: None)", "--help"],
    "python -m build --help": [PYTHON, "-m", "build", "--help"],
    "hatchling --help": [PYTHON, "-m", "hatchling", "--help"],
    "python": [PYTHON, "-c", "pass"],
}


def start(rounds: int) -> Part:
    """Every measurement of this part."""
    costs = in_turns({name: partial(run, command) for name, command in COMMANDS.items()}, rounds)
    table = Table(
        title="A short command",
        about="The whole process. `metawheel show` plans the committed families.",
        rows={name: cost.values() for name, cost in costs.items()},
    )
    return Part(title="Starting", tables=[table], versions=versions(["typer", "build", "hatchling"]), machine=machine())
