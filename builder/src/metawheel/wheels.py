"""Building the wrappers' wheels with hatchling's own wheel builder, in worker processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import multiprocessing
import os
import signal
import tempfile
import threading
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metawheel.errors import BuildError
from metawheel.files import write_new
from metawheel.model import Artifact, Wrapper
from metawheel.project import TAG_VARIABLE, Tree, render_project
from metawheel.wheelcopy import retagged

if TYPE_CHECKING:
    from hatchling.plugin.manager import PluginManager

# Every build has the same clock, so that the same inputs give the same bytes (reproducible-builds.org).
SOURCE_DATE_EPOCH = "1580601600"  # 2020-02-02, hatchling's own default
FEW = 10  # projects, below which a worker's start costs more than it saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One project and the wheels to make of it."""

    key: str
    tree: Tree
    wheels: tuple[str, ...]  # file names of all that the project gives; the first is what hatchling builds
    wanted: frozenset[str]

    @classmethod
    def of(cls, wrapper: Wrapper) -> Job:
        """All wheels of a wrapper."""
        wheels = wrapper.wheels
        return cls(key=wrapper.key, tree=render_project(wrapper), wheels=wheels, wanted=frozenset(wheels))


def build_wheels(
    jobs: Sequence[Job],
    folder: Path,
    progress: Callable[[int, int], None],
    *,
    work: Path,
    workers: int | None = None,
) -> Iterator[Artifact]:
    """Build every job's wheels into a folder, each with its METADATA beside it as `<wheel>.metadata`.

    Their projects are laid down in the folder `work`. Raises BuildError, which names the wrapper.
    """
    work = work.absolute()  # hatchling works in a folder of its own
    if workers is None and len(jobs) < FEW:
        results: Generator[list[Artifact]] = (_build(job, str(folder), str(work)) for job in jobs)
    else:
        results = _in_workers(jobs, str(folder), str(work), workers or os.cpu_count() or 1)
    with contextlib.closing(results):  # whatever happens in the middle, the workers end
        for done, made in enumerate(results, start=1):
            yield from made
            progress(done, len(jobs))


def _in_workers(jobs: Sequence[Job], folder: str, work: str, workers: int) -> Generator[list[Artifact]]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context, initializer=_start)
    try:
        with _without_interruption():
            futures = {pool.submit(_build, job, folder, work): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise BuildError(f"{futures[future].key}: the worker process died while it was built") from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _without_interruption() -> Iterator[None]:
    """Hold Ctrl-C back while workers are started; they inherit that, and it is the parent's to answer afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _build(job: Job, folder: str, work: str) -> list[Artifact]:
    first = job.wheels[0]
    # One place for all of a process's projects: what they have in common, the build hook and its bytecode, stays.
    place = Path(work, f"project-{os.getpid()}")
    write_project(job.tree, place)
    messages = io.StringIO()
    try:
        with contextlib.redirect_stdout(messages), _environment(work), _inside(place):
            built = place / _hatchling(".", ".")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a foreign tool's failure, whatever its kind, is this wrapper's failure
        raise BuildError(f"{job.key}: hatchling could not build {first}: {error}") from None
    if built.name != first:
        raise BuildError(f"{job.key}: hatchling built {built.name}, not {first}")
    content = built.read_bytes()
    metadata = read_metadata(content)
    made = []
    for wheel in (name for name in job.wheels if name in job.wanted):
        data = content if wheel == first else retagged(content, wheel.removesuffix(".whl").split("-", 2)[2])
        write_new(f"{folder}/{wheel}", data)
        write_new(f"{folder}/{wheel}.metadata", metadata)
        made.append(artifact(wheel, data, metadata))
    built.unlink()
    return made


@contextlib.contextmanager
def _environment(work: str) -> Iterator[None]:
    """What hatchling and our hook read of it is the same on every machine; hatchling's temporary files are ours."""
    before = {name: os.environ.pop(name, None) for name in (TAG_VARIABLE, "SOURCE_DATE_EPOCH")}
    os.environ["SOURCE_DATE_EPOCH"] = SOURCE_DATE_EPOCH
    folder, tempfile.tempdir = tempfile.tempdir, work
    try:
        yield
    finally:
        tempfile.tempdir = folder
        del os.environ["SOURCE_DATE_EPOCH"]
        os.environ.update({name: value for name, value in before.items() if value is not None})


@contextlib.contextmanager
def _inside(place: Path) -> Iterator[None]:
    """Work in a folder: hatchling looks for the licence with a glob, in which the [ of a folder above is no letter."""
    try:
        before = Path.cwd()
    except FileNotFoundError:  # it has gone; nobody can go back to it
        before = place
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def _hatchling(project: str, folder: str) -> str:
    """What `hatchling.build.build_wheel` does, but for the plugins, which that looks for anew each time."""
    from hatchling.builders.wheel import WheelBuilder

    [built] = WheelBuilder(project, plugin_manager=_plugins()).build(directory=folder, versions=["standard"])
    return built


@functools.cache
def _plugins() -> PluginManager:
    from hatchling.plugin.manager import PluginManager

    return PluginManager()


def read_metadata(wheel: bytes) -> bytes:
    """A wheel's METADATA; raises zipfile.BadZipFile and KeyError where it is no wheel."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        found = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(next(found, "METADATA"))


def artifact(filename: str, content: bytes, metadata: bytes) -> Artifact:
    """The facts of a built wheel."""
    return Artifact(
        filename=filename,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
    )


def write_project(tree: Tree, folder: Path) -> None:
    """Lay a project's files down; file modes do not follow the umask, they go into the wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tree.items():
        path, content = folder / name, text.encode()
        if not path.exists() or path.read_bytes() != content:
            write_new(path, content)
