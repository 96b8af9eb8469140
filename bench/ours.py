"""One of our stages alone, for a process of its own: `python -m bench.ours STAGE ARGUMENT...`."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from metawheel.files import has_content
from metawheel.model import Artifact, Wrapper
from metawheel.site import FILES, HostedFiles, Manifest, SiteWrapper, lay_down, page_digests, site_pages
from metawheel.swap import staged
from metawheel.wheels import Job, artifact, build_wheels, read_metadata


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
    with staged(Path(folder)) as stage:
        artifacts: dict[str, Artifact] = {}
        for name in names:
            if old is not None and name in old.wheels and _is_kept(Path(folder), old.wheels[name]):
                artifacts[name] = old.wheels[name]
            else:
                content = Path(wheels, name).read_bytes()
                metadata = read_metadata(content)
                stage.write(f"{FILES}/{name}", content)
                stage.write(f"{FILES}/{name}.metadata", metadata)
                artifacts[name] = artifact(name, content, metadata)
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


def _is_kept(folder: Path, item: Artifact) -> bool:
    """As `metawheel build` asks."""
    place = folder / "files" / item.filename
    return has_content(place, item.sha256) and has_content(Path(f"{place}.metadata"), item.metadata_sha256)


STAGES: dict[str, Callable[..., None]] = {"emit": emit, "site": site, "pages": pages}

if __name__ == "__main__":
    STAGES[sys.argv[1]](*sys.argv[2:])
