"""One of our stages alone, for a process of its own: `python -m bench.ours STAGE ARGUMENT...`."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from metawheel.files import has_content, write_new
from metawheel.model import Artifact, Wrapper
from metawheel.site import FILES, HostedFiles, Manifest, SiteWrapper, lay_down, page_digests, site_pages
from metawheel.swap import staged
from metawheel.wheels import Job, artifact, build_wheels, read_metadata

MANY = 3000  # wheels, from which on a worker's start costs less than it saves


def emit(packages: str, folder: str) -> None:
    """Plan the families' wrappers and build all their wheels."""
    from metawheel.family import load_families
    from metawheel.inputs import Options, make_plan

    wrappers = make_plan(load_families(Path(packages)), Options()).wrappers
    jobs = [Job.of(wrapper) for wrapper in wrappers]
    for _ in build_wheels(jobs, Path(folder), lambda done, total: None, work=Path(folder)):
        pass


def site(wrappers: str, wheels: str, folder: str) -> None:
    """Write a site of pickled wrappers whose wheels lie in a folder; what the site has already is kept."""
    with Path(wrappers).open("rb") as file:
        planned: Sequence[Wrapper] = pickle.load(file)  # noqa: S301  our own, of this run
    old = Manifest.load(Path(folder))
    names = sorted(name for wrapper in planned for name in wrapper.wheels)
    kept = {} if old is None else {name: old.wheels[name] for name in names if _is_kept(Path(folder), old, name)}
    with staged(Path(folder)) as stage:
        made = _taken_over([name for name in names if name not in kept], wheels, str(stage.folder(FILES)))
        artifacts = {name: made[name] if name in made else kept[name] for name in names}
        pages, incomplete = site_pages(planned, artifacts, HostedFiles(urls={}))
        new = Manifest(
            inputs="",
            wrappers=[SiteWrapper.of(wrapper) for wrapper in planned],
            wheels=artifacts,
            pages=page_digests(pages),
            incomplete=incomplete,
        )
        lay_down(stage, old, new, pages)
        stage.complete = True


def _taken_over(names: Sequence[str], wheels: str, folder: str) -> dict[str, Artifact]:
    """Copy wheels into a site's folder, each with its METADATA; as builds do, in workers where there are many."""
    workers = os.cpu_count() or 1
    take = partial(_take, wheels=wheels, folder=folder)
    if len(names) < MANY:
        found = [take(names)]
    else:
        size = -(-len(names) // (workers * 4))  # several parts for each, so that none waits long for another
        parts = [names[start : start + size] for start in range(0, len(names), size)]
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(take, parts))
    return {item.filename: item for part in found for item in part}


def _take(names: Sequence[str], *, wheels: str, folder: str) -> list[Artifact]:
    made = []
    for name in names:
        with open(f"{wheels}/{name}", "rb") as file:
            content = file.read()
        metadata = read_metadata(content)
        write_new(f"{folder}/{name}", content)
        write_new(f"{folder}/{name}.metadata", metadata)
        made.append(artifact(name, content, metadata))
    return made


def pages(wrappers: str, listed: str, wheels: str, folder: str) -> None:
    """Write only the index of pickled wrappers, whose wheels' hashes are listed and which lie elsewhere."""
    with Path(wrappers).open("rb") as file:
        planned: Sequence[Wrapper] = pickle.load(file)  # noqa: S301  our own, of this run
    artifacts: dict[str, Artifact] = {}
    for line in Path(listed).read_text(encoding="utf-8").splitlines():
        facts = json.loads(line)
        name = facts["filename"]
        artifacts[name] = Artifact(
            filename=name,
            sha256=facts["hash"].removeprefix("sha256="),
            size=os.stat(f"{wheels}/{name}").st_size,
            metadata_sha256=facts["core_metadata"].removeprefix("sha256="),
        )
    found, _ = site_pages(planned, artifacts, HostedFiles(urls={}))
    with staged(Path(folder)) as stage:
        for path, content in found.items():
            stage.write(path, content)
        stage.complete = True


def _is_kept(folder: Path, old: Manifest, name: str) -> bool:
    """As `metawheel build` asks."""
    item, place = old.wheels.get(name), f"{folder}/{FILES}/{name}"
    return (
        item is not None and has_content(place, item.sha256) and has_content(f"{place}.metadata", item.metadata_sha256)
    )


STAGES: dict[str, Callable[..., None]] = {"emit": emit, "site": site, "pages": pages}

if __name__ == "__main__":
    gc.set_threshold(200_000)  # as the command line has it
    STAGES[sys.argv[1]](*sys.argv[2:])
