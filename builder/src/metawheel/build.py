"""`metawheel build`: from families and ledgers to a site, and to the wrappers' projects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from metawheel import changes, released
from metawheel.changes import NOTHING, Entry, difference
from metawheel.errors import BuildError
from metawheel.family import Family
from metawheel.files import has_content, sha256_of
from metawheel.inputs import Options, digest, make_plan
from metawheel.model import Artifact, Omission, Statement, Wrapper
from metawheel.people.pages import pages as people_pages
from metawheel.project import Tree, render_project
from metawheel.site import FILES, HostedFiles, Manifest, SiteWrapper, lay_down, page_digests, site_pages
from metawheel.swap import staged, tidy
from metawheel.wheels import Job, build_wheels, write_project

if TYPE_CHECKING:
    from metawheel.upstream.http import Fetcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build did."""

    wrappers: tuple[Statement, ...]
    wheels: int
    entry: Entry = NOTHING  # what is new against the last state
    built: int = 0  # wheels that were not taken over from the last state
    changed: tuple[str, ...] = ()  # paths in the site
    incomplete: tuple[str, ...] = ()  # projects whose pages lack PyPI-hosted files
    pypi_error: str | None = None
    omissions: tuple[Omission, ...] | None = None  # None: nothing was planned
    unchanged: bool = False  # nothing to do: not a file was touched


def build(
    families: Sequence[Family],
    site: Path,
    options: Options,
    fetcher: Callable[[], Fetcher],
    progress: Callable[[int, int], None],
) -> Built:
    """Build a site; offline, but for the addresses of files that PyPI hosts. Raises MetawheelError."""
    tidy(site)
    old = Manifest.load(site)
    inputs = digest(families, options)
    if old is not None and old.inputs == inputs and old.is_whole(site) and (not old.incomplete or options.offline):
        return Built(
            wrappers=tuple(old.wrappers), wheels=len(old.wheels), incomplete=tuple(old.incomplete), unchanged=True
        )
    planned = make_plan(families, options)
    hosted, pypi_error = _hosted(planned.wrappers, old.hosted if old else {}, options, fetcher)
    jobs, digests = _jobs(planned.wrappers)
    recorded = _recorded(families, options.flavour)
    kept = _kept(site, old, digests, recorded)
    missing = [replace(job, wanted=left) for job in jobs if (left := job.wanted - kept.keys())]
    with staged(site) as stage:
        made = {item.filename: item for item in build_wheels(missing, stage.folder(FILES), progress, work=stage.work)}
        _refuse_other_bytes(made, recorded)
        wheels = {name: made[name] if name in made else kept[name] for name in sorted(digests)}
        pages, incomplete = site_pages(planned.wrappers, wheels, hosted, options.mirrors)
        wrappers = [SiteWrapper.of(wrapper) for wrapper in planned.wrappers]
        entry = difference(old, wrappers, wheels, pages)
        history = changes.extend(changes.load(site), entry, planned.date)
        pages |= changes.render(history)
        pages |= people_pages(families, planned, wheels, hosted, options.mirrors, url=options.url)
        new = Manifest(
            inputs=inputs,
            ledgers={family.name: sha256_of(family.ledger_path) for family in families},
            wrappers=wrappers,
            wheels=wheels,
            projects=digests,
            pages=page_digests(pages),
            hosted=dict(sorted(hosted.urls.items())),
            incomplete=incomplete,
        )
        changed: tuple[str, ...] = ()
        if new != old or not old.is_whole(site):
            changed = lay_down(stage, old, new, pages)
            stage.complete = True
    return Built(
        wrappers=planned.wrappers,
        wheels=len(wheels),
        entry=entry,
        built=len(made),
        changed=changed,
        incomplete=tuple(incomplete),
        pypi_error=pypi_error,
        omissions=planned.omissions,
        unchanged=not stage.complete,
    )


def write_projects(wrappers: Iterable[Wrapper], folder: Path) -> None:
    """Leave every wrapper's project in folder/<name>-<version>/."""
    for wrapper in wrappers:
        write_project(render_project(wrapper), folder / f"{wrapper.name}-{wrapper.version}")


def _jobs(wrappers: Iterable[Wrapper]) -> tuple[list[Job], dict[str, str]]:
    """A job for each wrapper, and for each wheel the digest of the project it is built from."""
    jobs = [Job.of(wrapper) for wrapper in wrappers]
    digests = {name: digest for job in jobs for digest in [_tree_digest(job.tree)] for name in job.wheels}
    return jobs, dict(sorted(digests.items()))


def _tree_digest(tree: Tree) -> str:
    return hashlib.sha256(json.dumps(dict(tree), sort_keys=True).encode()).hexdigest()


def _recorded(families: Iterable[Family], flavour: str) -> dict[str, str]:
    """The sha256 of every released wheel of a flavour."""
    items = (item for family in families for item in released.load(family))
    return {name: sha256 for item in items if item.flavour == flavour for name, sha256 in item.wheels.items()}


def _kept(
    site: Path, old: Manifest | None, digests: Mapping[str, str], recorded: Mapping[str, str]
) -> dict[str, Artifact]:
    """The wheels of the last state that would be built alike or were released, and are as they were built."""
    if old is None:
        return {}
    return {
        name: item
        for name, item in old.wheels.items()
        if name in digests
        and (item.sha256 == recorded[name] if name in recorded else old.projects.get(name) == digests[name])
        and has_content(f"{site}/{FILES}/{name}", item.sha256)
        and has_content(f"{site}/{FILES}/{name}.metadata", item.metadata_sha256)
    }


def _refuse_other_bytes(made: Mapping[str, Artifact], recorded: Mapping[str, str]) -> None:
    for name, item in made.items():
        if recorded.get(name, item.sha256) != item.sha256:
            raise BuildError(
                f"{name}: was released with sha256 {recorded[name]}, and is now built with {item.sha256} (another "
                "hatchling or zlib); copy the site that holds the released file to the output folder and build there"
            )


def _hosted(
    wrappers: Iterable[Wrapper], known: Mapping[str, str], options: Options, fetcher: Callable[[], Fetcher]
) -> tuple[HostedFiles, str | None]:
    """Where PyPI has the files that it hosts; what was once found is not asked again."""
    files = {file.filename: file for wrapper in wrappers for file in wrapper.files if file.url is None}
    urls = {name: known[name] for name in files if name in known}
    wanted = [file for name, file in files.items() if name not in urls]
    error: str | None = None
    if wanted and options.offline:
        error = "PyPI was not asked (--offline)"
    elif wanted:
        from metawheel.upstream.hosted import find_hosted

        found, failure = find_hosted(wanted, fetcher())
        urls |= found
        error = None if failure is None else f"PyPI was not reached ({failure})"
    return HostedFiles(urls=urls, missing=frozenset(files) - frozenset(urls)), error
