"""Running contenders in turns, and what each run cost."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

SAMPLE = 0.05  # seconds between two looks at the memory
MEGABYTE = 1_000_000


class BenchError(Exception):
    """A contender failed; the message has the last that it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run, or the median of several, cost."""

    wall: float  # seconds
    processor: float  # seconds, all processes together
    memory: float  # bytes: the most that all processes had at once (PSS, sampled)

    @classmethod
    def median(cls, costs: Sequence[Cost]) -> Cost:
        """Each quantity's median."""
        return cls(
            wall=median(cost.wall for cost in costs),
            processor=median(cost.processor for cost in costs),
            memory=median(cost.memory for cost in costs),
        )

    def __add__(self, other: Cost) -> Cost:
        """One run after another."""
        return Cost(
            wall=self.wall + other.wall,
            processor=self.processor + other.processor,
            memory=max(self.memory, other.memory),
        )

    def values(self) -> dict[str, float]:
        """The columns of a table."""
        return {"s": self.wall, "processor s": self.processor, "peak MB": self.memory / MEGABYTE}


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Cost:
    """Run a command to its end; raises BenchError if it fails."""
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            # Without bytecode every start would compile what an installation has compiled.
            env={name: value for name, value in (env or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        with _watched(process.pid) as sizes:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        if process.returncode:
            said.seek(0)
            shown = " ".join(str(part) for part in command)
            raise BenchError(f"{shown} ended with {process.returncode}\n{said.read().decode(errors='replace')[-4000:]}")
        # The kernel adds to a process what those cost that it waited for.
        return Cost(wall=wall, processor=usage.ru_utime + usage.ru_stime, memory=max(sizes))


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The memory of a process and its descendants at each look, in bytes."""
    sizes = [0]
    ended = threading.Event()

    def look() -> None:
        while True:
            sizes.append(memory(pid))
            if ended.wait(SAMPLE):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield sizes
    finally:
        ended.set()
        thread.join()


def memory(pid: int) -> int:
    """The proportional set size of a process and its descendants; 0 for what has just ended."""
    process = Path("/proc", str(pid))
    with suppress(OSError):
        sizes = re.search(rb"^Pss: +(\d+) kB", (process / "smaps_rollup").read_bytes(), re.MULTILINE)
        children = [child for task in process.glob("task/*/children") for child in task.read_text().split()]
        return (int(sizes[1]) * 1024 if sizes is not None else 0) + sum(memory(int(child)) for child in children)
    return 0


def in_turns(contenders: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """Every contender once, then every contender again …: other load hits all of them; the medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            costs[name].append(contender())
    return {name: Cost.median(found) for name, found in costs.items()}
