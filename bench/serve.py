"""How fast `metawheel serve` answers for our own names, beside a bare Starlette answer of the same bytes.

    python -m bench.serve SITE

Needs wrk (Debian's package of that name) and Linux. Prints JSON: requests a second of both in alternating runs, their
ratio and the processor time of a request, for a small and a large page; errors with 200 clients; the same while the
fallback is dead and requests hang on it; resident memory before and after 100,000 requests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

ACCEPT = "application/vnd.pypi.simple.v1+json"
REQUESTS = 100_000
CLIENTS = 200
WAITING = 90  # requests that hang on the dead fallback; the server takes 100

BARE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

body = open(sys.argv[2], "rb").read()
async def answer(request):
    return Response(body, media_type="application/json")
uvicorn.run(Starlette(routes=[Route("/{path:path}", answer)]), port=int(sys.argv[1]), log_level="warning")
"""


@dataclass(frozen=True)
class Server:
    """A running server: the address that is asked, and its process."""

    url: str
    pid: int


def wrk(url: str, clients: int, seconds: float) -> dict[str, float]:
    """One run of wrk: requests, requests a second, and answers that were none or not 200."""
    options = ["-t1", f"-c{clients}", f"-d{seconds:g}s", "--timeout=10s", "-H", f"Accept: {ACCEPT}"]
    done = subprocess.run(["wrk", *options, url], capture_output=True, text=True, check=True).stdout

    def number(pattern: str) -> float:
        return float(found[1]) if (found := re.search(pattern, done)) is not None else 0.0

    errors = number(r"Non-2xx or 3xx responses: (\d+)")
    if (found := re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", done)) is not None:
        errors += sum(map(int, found.groups()))
    return {"requests": number(r"(\d+) requests in"), "rate": number(r"Requests/sec:\s+([\d.]+)"), "errors": errors}


def compare(ours: Server, bare: Server, clients: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Alternating runs of both: requests a second, and a request's processor time, which other load changes little."""
    runs: dict[Server, list[dict[str, float]]] = {ours: [], bare: []}
    for _ in range(rounds):
        for server, found in runs.items():
            before = processor_time(server.pid)
            run = wrk(server.url, clients, seconds)
            found.append({**run, "cost": (processor_time(server.pid) - before) / run["requests"]})
    rate, cost = ({server: median(run[key] for run in runs[server]) for server in runs} for key in ("rate", "cost"))
    return {
        "ours, requests/s": round(rate[ours]),
        "bare, requests/s": round(rate[bare]),
        "bare/ours": round(rate[bare] / rate[ours], 2),
        "ours, µs of processor time": round(cost[ours] * 1e6, 1),
        "bare, µs of processor time": round(cost[bare] * 1e6, 1),
        "errors": sum(run["errors"] for run in runs[ours]),
    }


def processor_time(pid: int) -> float:
    """Seconds that a process has had so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Resident memory in KiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found is not None else 0


def until(url: str, requests: int) -> float:
    """Ask that often; the number of errors."""
    done = errors = 0.0
    while done < requests:
        run = wrk(url, 32, 3)
        done, errors = done + run["requests"], errors + run["errors"]
    return errors


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def ours(site: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Our server's URL and process id."""
    command = ["-m", "metawheel", "serve", str(site), "--port", "0", "--json", *options]
    with running(*command) as process:
        assert process.stdout is not None  # noqa: S101 it is a pipe
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline()
        yield json.loads(text)["url"], process.pid


@contextmanager
def bare(page: Path) -> Iterator[Server]:
    port = free_port()
    with running("-c", BARE, str(port), str(page)) as process:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                continue
        yield Server(f"http://127.0.0.1:{port}/", process.pid)


@contextmanager
def dead_index() -> Iterator[str]:
    """An index that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}/simple/"


def measure(site: Path, seconds: float, rounds: int) -> dict[str, Any]:
    pages = sorted((path.stat().st_size, path.parent.name) for path in site.glob("simple/*/index.json"))
    small, large = pages[len(pages) // 2], pages[-1]
    result: dict[str, Any] = {"cores": os.cpu_count()}
    with ExitStack() as stack:
        url, pid = stack.enter_context(ours(site, "--fallback", "none"))
        for size, name in (small, large):
            other = stack.enter_context(bare(site / "simple" / name / "index.json"))
            result[f"{name}, {size} bytes"] = compare(Server(f"{url}simple/{name}/", pid), other, 32, seconds, rounds)
        page = f"{url}simple/{small[1]}/"
        result[f"{CLIENTS} clients"] = wrk(page, CLIENTS, seconds)
        until(page, REQUESTS // 10)
        before = resident(pid)
        errors = until(page, REQUESTS)
        result["memory"] = {"requests": REQUESTS, "KiB before": before, "KiB after": resident(pid), "errors": errors}
    with ExitStack() as stack:
        silent = stack.enter_context(dead_index())
        url, pid = stack.enter_context(ours(site, "--fallback", silent, "--timeout", "600", "--grace", "0"))
        address = ("127.0.0.1", urlsplit(url).port or 80)
        other = stack.enter_context(bare(site / "simple" / small[1] / "index.json"))
        for number in range(WAITING):
            hanging = stack.enter_context(socket.create_connection(address))
            hanging.sendall(f"GET /simple/hanging-{number}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        asked = Server(f"{url}simple/{small[1]}/", pid)
        result["dead fallback"] = compare(asked, other, 32, seconds, rounds)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["METAWHEEL_CACHE"] = cache
        json.dump(measure(asked.site, asked.seconds, asked.rounds), sys.stdout, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    main()
