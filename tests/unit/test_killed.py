"""Killed with SIGKILL at any change to the file system: old or new is there as a whole, and the next run tidies up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from metawheel import ledger, released
from metawheel.check import check_site
from metawheel.family import load_families
from metawheel.model import UpstreamFile
from tests.fakes.ledgers import TORCH, UPSTREAM, torch_files, write_family

# Imports all once, then forks a process for every run: it counts the changes that it is about to make to the file
# system and the wrappers that its workers have built, and kills itself at the step that it was told. Workers that it
# leaves behind must end by themselves.
NURSERY = """
import json, os, signal, sys, time, traceback
from metawheel import cli
import metawheel.build, metawheel.check, metawheel.publish.deliver, metawheel.publish.record, metawheel.sync
import metawheel.upstream.http, metawheel.wheels

CHANGES = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR

def arm(step):
    me, left = os.getpid(), step

    def hit():
        nonlocal left
        if os.getpid() == me:
            left -= 1
            if left == 0:
                os.kill(me, signal.SIGKILL)

    def watch(event, args):
        exchange = event == "ctypes.dlsym" and args[1] == "renameat2"
        if event in CHANGES or exchange or (event == "open" and args[2] & WRITES and args[0] != os.devnull):
            hit()

    sync, built = os.fsync, metawheel.wheels.as_completed
    os.fsync = lambda descriptor: (hit(), sync(descriptor))[1]
    metawheel.wheels.as_completed = lambda jobs: ((hit(), job)[1] for job in built(jobs))
    sys.addaudithook(watch)
    return lambda: step - left

def run(arguments, step):
    os.setsid()
    log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    steps = arm(step)
    try:
        sys.argv = ["metawheel", *arguments]
        cli.main()
    finally:
        os.write(taken, str(steps()).encode())

def has_members(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

for line in sys.stdin:
    order = json.loads(line)
    answer, taken = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            run(order["arguments"], order["step"])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(taken)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = int(os.read(answer, 99) or 0)
    os.close(answer)
    until = time.monotonic() + 20
    while (orphans := has_members(child)) and time.monotonic() < until:
        time.sleep(0.01)
    print(json.dumps([code, steps, orphans]), flush=True)
"""
NEVER = 10**9


@dataclass(frozen=True)
class Nursery:
    """Where commands are run to be killed."""

    process: subprocess.Popen[str]
    log: Path

    def run(self, *arguments: str | Path, kill: int | None = None) -> int:
        """Run a command, killed at a step if asked to; how many steps it took to its end, which must be a good one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"arguments": [str(item) for item in arguments], "step": kill or NEVER}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        code, steps, orphans = json.loads(self.process.stdout.readline())
        assert not orphans, "a worker goes on after its parent was killed"
        assert code == (0 if kill is None else -9), self.log.read_text(encoding="utf-8")
        return int(steps)


@contextmanager
def _nursery(folder: Path) -> Iterator[Nursery]:
    folder.mkdir()
    env = {**os.environ, "METAWHEEL_CACHE": str(folder / "cache"), "LOG": str(folder / "log")}
    env |= {"SOURCE_DATE_EPOCH": "1700000000", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", NURSERY]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield Nursery(process, folder / "log")
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with _nursery(tmp_path_factory.mktemp("killed") / "nursery") as running:
        yield running


FAMILY = TORCH.partition("[[companion]]")[0].replace('"torch", "torchvision"', '"torch"')
OTHER = f'prefix = "acme-"\n{FAMILY}'
OLD, MORE = (
    [file for file in torch_files(release) if file.project == "torch" and file.local != "cu117"]
    for release in ("1.12.1", "1.13.1")
)
NEW = [*OLD, *MORE]
YANKED = [replace(file, yanked="broken") for file in OLD]


def _content(folder: Path) -> dict[str, bytes | None]:
    """Every file by its path, with its content; folders, too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def _lay(place: Path, state: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    if state.exists():
        shutil.copytree(state, place)


def _kill(
    nursery: Nursery,
    command: list[str | Path],
    restore: Callable[[], None],
    look: Callable[[], None],
    kills: int | range,
) -> None:
    """Kill a command at some steps, or at so many of them from the first to the last; look at what is there then."""
    for _ in range(2):  # the first run also makes the lock's folder
        restore()
        steps = nursery.run(*command)
    if isinstance(kills, int):
        assert steps > kills
        chosen = [1 + number * (steps - 1) // (kills - 1) for number in range(kills)]
    else:
        chosen = list(kills)
    for step in chosen:
        restore()
        nursery.run(*command, kill=step)
        look()


def _page(folder: Path, files: list[UpstreamFile]) -> None:
    links = (f'<a href="{file.url}#sha256={file.sha256}">{file.filename}</a>' for file in files)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>", encoding="utf-8")


def test_sync_killed_anywhere_leaves_whole_ledgers_and_the_next_run_tidies_up(nursery: Nursery, tmp_path: Path) -> None:
    packages, pristine, pages = tmp_path / "work" / "packages", tmp_path / "pristine", tmp_path / "pages"
    for name, text in (("torch", FAMILY), ("acme", OTHER)):
        write_family(packages / name, text, [])
    command: list[str | Path] = ["sync", "--packages", packages, f"--mirror={UPSTREAM}={pages}"]
    _page(pages / "torch", OLD)
    nursery.run(*command)
    _lay(pristine, packages)
    before = _content(packages)
    _page(pages / "torch", NEW)
    nursery.run(*command)
    after = _content(packages)
    assert before != after

    def look() -> None:
        for family in load_families(packages):
            assert ledger.load(family.ledger_path)
        now = _content(packages)
        for path in before.keys() | after.keys():
            assert now.get(path) in (before.get(path), after.get(path)), path
        nursery.run(*command)
        assert _content(packages) == after
        assert [path.name for path in packages.parent.iterdir()] == ["packages"]

    _kill(nursery, command, lambda: _lay(packages, pristine), look, 20)


@pytest.fixture(scope="module")
def states(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledgers and the sites of three states: old, old with everything yanked, and new with another release."""
    folder = tmp_path_factory.mktemp("states")
    for name, files in (("old", OLD), ("yanked", YANKED), ("new", NEW)):
        packages, site = folder / f"packages-{name}", folder / name
        write_family(packages / "torch", FAMILY, files)
        if name != "old":
            shutil.copytree(folder / "old", site)
        nursery.run("build", "--packages", packages, "-o", site)
        assert check_site(site) == []
    return folder


# From old to new, steps 8 to 12 are those in which workers are started and build.
@pytest.mark.parametrize(("start", "goal", "kills"), [("old", "yanked", 30), ("old", "new", range(8, 13, 2))])
def test_build_killed_anywhere_leaves_a_whole_site_and_the_next_run_tidies_up(
    nursery: Nursery, states: Path, tmp_path: Path, start: str, goal: str, kills: int | range
) -> None:
    site = tmp_path / "site"
    command: list[str | Path] = ["build", "--packages", states / f"packages-{goal}", "-o", site]
    whole = (_content(states / start), _content(states / goal))

    def look() -> None:
        assert _content(site) in whole
        nursery.run(*command)
        assert _content(site) == whole[1]
        assert [path.name for path in tmp_path.iterdir()] == ["site"]

    _kill(nursery, command, lambda: _lay(site, states / start), look, kills)


@pytest.mark.parametrize(("start", "goal", "kills"), [("old", "new", 30), ("new", "old", 20), ("none", "old", 14)])
def test_publishing_to_a_folder_killed_anywhere_leaves_a_whole_site_and_the_next_run_tidies_up(
    nursery: Nursery, states: Path, tmp_path: Path, start: str, goal: str, kills: int
) -> None:
    folder = tmp_path / "folder"
    command: list[str | Path] = ["publish", states / goal, "--to-folder", folder, "--allow-removal", "--no-record"]
    whole = (_content(states / start), _content(states / goal))

    def look() -> None:
        assert _content(folder) in whole
        nursery.run(*command)
        assert _content(folder) == whole[1]
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]

    _kill(nursery, command, lambda: _lay(folder, states / start), look, kills)


def test_publishing_to_a_folder_killed_anywhere_leaves_recorded_what_is_there(
    nursery: Nursery, states: Path, tmp_path: Path
) -> None:
    folder, packages = tmp_path / "folder", tmp_path / "packages"
    command: list[str | Path] = ["publish", states / "new", "--to-folder", folder, "--packages", packages]
    wheels = {path.name for path in (states / "new" / "files").glob("*.whl")}

    def restore() -> None:
        _lay(folder, states / "old")
        _lay(packages, states / "packages-new")

    def recorded() -> set[str]:
        return {name for family in load_families(packages) for item in released.load(family) for name in item.wheels}

    def look() -> None:
        assert recorded() in (set(), wheels)
        assert _content(folder) in (_content(states / "old"), _content(states / "new"))
        if _content(folder) == _content(states / "new"):
            assert recorded() == wheels
        nursery.run(*command)
        assert recorded() == wheels

    _kill(nursery, command, restore, look, 30)
