"""Building the wrappers' wheels with hatchling's own wheel builder, in worker processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import multiprocessing
import os
import signal
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metawheel.errors import BuildError
from metawheel.model import Artifact
from metawheel.project import TAG_VARIABLE, Tree

if TYPE_CHECKING:
    from hatchling.builders.wheel import WheelBuilder
    from hatchling.plugin.manager import PluginManager

# Every build has the same clock, so that the same inputs give the same bytes (reproducible-builds.org).
SOURCE_DATE_EPOCH = "1580601600"  # 2020-02-02, hatchling's own default


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One project and the wheels to build from it."""

    key: str
    tree: Tree
    wheels: tuple[str, ...]  # file names


def build_wheels(
    jobs: Sequence[Job], folder: Path, progress: Callable[[int, int], None], *, workers: int | None = None
) -> Iterator[Artifact]:
    """Build every job's wheels into a folder, each with its METADATA beside it as `<wheel>.metadata`.

    Raises BuildError, which names the wrapper.
    """
    if not jobs:
        return
    count = min(workers or os.cpu_count() or 1, len(jobs))
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_start)
    try:
        with _without_interruption():
            futures = {pool.submit(_build, job, str(folder)): job for job in jobs}
        for done, future in enumerate(as_completed(futures), start=1):
            try:
                yield from future.result()
            except BrokenProcessPool as error:
                raise BuildError(f"{futures[future].key}: the worker process died while it was built") from error
            progress(done, len(jobs))
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
    os.environ["SOURCE_DATE_EPOCH"] = SOURCE_DATE_EPOCH
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@functools.cache
def _plugins() -> PluginManager:
    """What `hatchling.build.build_wheel` finds anew for every wheel."""
    from hatchling.plugin.manager import PluginManager

    return PluginManager()


def _build(job: Job, folder: str) -> list[Artifact]:
    from hatchling.builders.wheel import WheelBuilder

    # One place for all of a worker's projects: what they have in common, the build hook and its bytecode, stays.
    place = Path(folder, f"project-{os.getpid()}")
    write_project(job.tree, place)
    builder = WheelBuilder(str(place), plugin_manager=_plugins())
    return [_build_one(builder, job, wheel, folder) for wheel in job.wheels]


def _build_one(builder: WheelBuilder, job: Job, wheel: str, folder: str) -> Artifact:
    os.environ[TAG_VARIABLE] = wheel.removesuffix(".whl").split("-", 2)[2]
    messages = io.StringIO()
    try:
        with contextlib.redirect_stdout(messages):
            [built] = builder.build(directory=folder, versions=["standard"])
    except Exception as error:  # noqa: BLE001  a foreign tool's failure, whatever its kind, is this wrapper's failure
        raise BuildError(f"{job.key}: hatchling could not build {wheel}: {error}") from None
    if os.path.basename(built) != wheel:
        raise BuildError(f"{job.key}: hatchling built {os.path.basename(built)}, not {wheel}")
    return read_artifact(Path(built), write_metadata=True)


def read_artifact(path: Path, *, write_metadata: bool = False) -> Artifact:
    """The facts of a built wheel; can write its METADATA beside it."""
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name)
    if write_metadata:
        path.with_name(f"{path.name}.metadata").write_bytes(metadata)
    return Artifact(
        filename=path.name,
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
            path.write_bytes(content)
        path.chmod(0o644)
