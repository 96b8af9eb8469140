"""How fast `metawheel serve` answers, against other servers of package indexes and the bare server that it runs on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from bench.ledgers import PACKAGES
from bench.machine import machine, versions
from bench.measure import MEGABYTE, memory, run
from bench.peers import Peers
from bench.report import Part, Table
from bench.servers import BARE, OF_PAGES, OF_WHEELS, Contender, Running, ours

ROOT = Path(__file__).parents[1]
CLIENTS = (1, 50, 200)
WRAPPER, UPSTREAM = "torch-cpu", "torch"  # whose pages are asked for
OURS = Contender(name="metawheel serve", start=ours)
WAITING = 90  # requests that hang on the dead fallback; ours lets 100 wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one run of the load found."""

    rate: float  # answers a second
    answers: int
    failed: int
    size: int  # bytes of an answer
    processor: float  # of the server, seconds


def serve(work: Path, rounds: int, seconds: float) -> Part:
    """Every measurement of this part."""
    peers = Peers.of(other.program for other in (*OF_WHEELS, *OF_PAGES))
    site = work / "site"
    run([sys.executable, "-m", "metawheel", "build", "--offline", "-o", site, "--packages", PACKAGES])
    tables = []
    for project, others in ((WRAPPER, OF_WHEELS), (UPSTREAM, OF_PAGES)):
        contenders = [contender for contender in (OURS, *BARE, *others) if peers.have(contender.program)]
        tables.append(_pages(work / project, site, project, contenders, rounds, seconds))
    tables.append(_hanging(work / "hanging", site, rounds, seconds))
    found = versions(["starlette", "uvicorn"]) | peers.versions
    return Part(title="Serving", tables=tables, skipped=peers.skipped, versions=found, machine=machine())


def _pages(work: Path, site: Path, project: str, contenders: Sequence[Contender], rounds: int, seconds: float) -> Table:
    with ExitStack() as stack:
        servers = {}
        for number, contender in enumerate(contenders):
            (folder := work / str(number)).mkdir(parents=True)
            servers[contender.name] = stack.enter_context(contender.start(folder, site, project))
        for server in servers.values():
            _load(server, 1, 0)
        before = {name: memory(server.pid) for name, server in servers.items()}
        loads = _in_turns(servers, rounds, seconds)
        rows = {
            name: {
                **_columns(loads[name]),
                "bytes a page": loads[name][CLIENTS[0]][0].size,
                "MB at first": before[name] / MEGABYTE,
                "MB at last": memory(server.pid) / MEGABYTE,
            }
            for name, server in servers.items()
        }
    return Table(
        title=f"The page of {project}",
        about=(
            f"{', '.join(map(str, CLIENTS))} clients at once, on connections that stay open if the server lets them, "
            "with pip's `Accept`; one process is all of them. `uvicorn, one answer in memory` looks at nothing and "
            "sends our bytes, which no server on it can beat; `uvicorn, files` is Starlette's StaticFiles over the "
            "site. MB: the server's memory (PSS) after one page, and after all."
        ),
        rows=rows,
    )


def _columns(loads: Mapping[int, list[Load]]) -> dict[str, float | None]:
    """The columns of any load."""
    every = [load for found in loads.values() for load in found]
    rates = {f"pages/s at {clients}": median(load.rate for load in found) for clients, found in loads.items()}
    answers = sum(load.answers for load in every)
    return {
        **rates,
        "processor µs a page": sum(load.processor for load in every) / answers * 1e6 if answers else None,
        "pages": answers,
        "failed": sum(load.failed for load in every),
    }


def _in_turns(servers: Mapping[str, Running], rounds: int, seconds: float) -> dict[str, dict[int, list[Load]]]:
    """Every server once with so many clients, then every server again …: other load hits all of them."""
    loads: dict[str, dict[int, list[Load]]] = {name: {count: [] for count in CLIENTS} for name in servers}
    for _ in range(rounds):
        for count in CLIENTS:
            for name, server in servers.items():
                loads[name][count].append(_load(server, count, seconds))
    return loads


def _load(server: Running, clients: int, seconds: float) -> Load:
    before = _processor_time(server.pid)
    command = [sys.executable, "-m", "bench.load", server.page, str(clients), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Load(**json.loads(done.stdout), processor=_processor_time(server.pid) - before)


def _processor_time(pid: int) -> float:
    """Seconds that a process has had so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _hanging(work: Path, site: Path, rounds: int, seconds: float) -> Table:
    """Our own pages while every request that goes to the fallback hangs."""
    work.mkdir()
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        fallback = f"http://127.0.0.1:{silent.getsockname()[1]}/simple/"
        options = ("--fallback", fallback, "--timeout", "600", "--grace", "0")
        hangs = stack.enter_context(ours(work, site, WRAPPER, *options))
        calm = stack.enter_context(ours(work, site, WRAPPER))
        for number in range(WAITING):
            address = urlsplit(hangs.page)
            waiting = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            waiting.sendall(f"GET /simple/hanging-{number}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        servers = {f"{WAITING} requests hang": hangs, "without a fallback": calm}
        rows = {name: _columns(loads) for name, loads in _in_turns(servers, rounds, seconds).items()}
    return Table(
        title="While the fallback is dead",
        about=f"Our page of {WRAPPER}, while requests for other names wait for an index that says nothing.",
        rows=rows,
    )
