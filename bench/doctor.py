"""How long `metawheel doctor` takes on a large lock, against what its own tool needs to read it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.locks import write_project
from bench.machine import machine, versions
from bench.measure import Cost, in_turns, run
from bench.peers import Peers
from bench.report import Part, Table
from tests.clients import envs

TOMLLIB = "import sys, tomllib; tomllib.load(open(sys.argv[1], 'rb'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A command of the lock's own tool that reads all of it and asks no index."""

    name: str
    tool: str
    arguments: Sequence[str]


UV = ("--offline", "--python", sys.executable)
READERS: Mapping[str, Sequence[Reader]] = {
    "uv.lock": (
        Reader(name="uv lock --check", tool="uv", arguments=("lock", "--check", *UV)),
        Reader(name="uv export", tool="uv", arguments=("export", "--frozen", *UV)),
    ),
    "poetry.lock": (Reader(name="poetry show torch", tool="poetry", arguments=("show", "torch")),),
    "pdm.lock": (Reader(name="pdm export", tool="pdm", arguments=("export",)),),
}


def doctor(work: Path, rounds: int, sizes: Sequence[int]) -> Part:
    """Every measurement of this part."""
    peers = Peers.of(envs.CLIENTS[name] for name in ("uv", "poetry", "pdm"))
    tables = []
    for lock, readers in READERS.items():
        there = [reader for reader in readers if peers.have(envs.CLIENTS[reader.tool])]
        tables += [_table(work / f"{lock}-{count}", lock, count, there, rounds) for count in sizes]
    found = versions([]) | peers.versions
    return Part(title="doctor", tables=tables, skipped=peers.skipped, versions=found, machine=machine())


def _table(work: Path, lock: str, count: int, readers: Sequence[Reader], rounds: int) -> Table:
    project = work / "project"
    text = write_project(project, lock, count)
    contenders = {"metawheel doctor": partial(run, [sys.executable, "-m", "metawheel", "doctor", project])}
    for reader in readers:
        contenders[reader.name] = partial(_read, reader, project, work)
        _read(reader, project, work)  # it may make itself an environment first
    contenders["tomllib alone"] = partial(run, [sys.executable, "-c", TOMLLIB, project / lock])
    return Table(
        title=f"{lock}, {count:,} packages",
        about=f"{text.count('.whl'):,} wheels, {len(text) / 1e6:.2g} MB; the whole command.",
        rows={name: cost.values() for name, cost in in_turns(contenders, rounds).items()},
    )


def _read(reader: Reader, project: Path, work: Path) -> Cost:
    bin_folder = envs.ensure(reader.tool)
    env = envs.clean_env(work / "home", bin_folder, {"PDM_CHECK_UPDATE": "0"})
    return run([bin_folder / reader.tool, *reader.arguments], cwd=project, env=env)
