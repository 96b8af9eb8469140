"""Publishing a built site as static files: to a web server's folder, or to an S3-compatible store.

Both write what is missing and nothing else. A wheel that was published never changes under its name.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metawheel.errors import OutputError, PublishError
from metawheel.files import has_content
from metawheel.model import wheel_name
from metawheel.parallel import threads
from metawheel.publish.store import PARALLEL_REQUESTS, Store
from metawheel.site import MANIFEST, Manifest
from metawheel.swap import staged, tidy

_INDEX_PAGE = re.compile(r"(?:.+?/)??simple/(?:(?P<project>[^/]+)/)?[^/]*")  # a project's page, or a root page

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What publishing did, as paths in the site; in a store a page has its folder's path, too: `simple/torch/`."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A built site; what is read of it is what its manifest says, or OutputError."""

    site: Path
    manifest: Manifest
    digests: Mapping[str, str]  # path → sha256

    @classmethod
    def load(cls, site: Path) -> _Source:
        manifest = Manifest.of(site)
        source = cls(site=site, manifest=manifest, digests=manifest.files)
        there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
        for path in source.digests:
            if path not in there:  # nor is a path that leads out of the site
                raise OutputError(f"{site / path}: is missing; `metawheel check {site}` tells all that is wrong")
            source.read(path)
        return source

    def read(self, path: str) -> bytes:
        place = self.site / path
        try:
            content = place.read_bytes()
        except OSError as error:
            raise OutputError(f"{place}: cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != self.digests[path]:
            raise OutputError(f"{place}: is not what was built; `metawheel check {self.site}` tells all that is wrong")
        return content


def _refuse(where: Path | str, published: Mapping[str, str], new: Manifest, *, allow_removal: bool) -> None:
    """Raise PublishError where a published wheel (file name → sha256) would change or be lost."""
    changed = [name for name, item in new.wheels.items() if published.get(name, item.sha256) != item.sha256]
    if changed:
        raise PublishError(
            f"{where}: {_some(changed)} was published with other content, and nothing was written; "
            "what is published never changes under its name: another content needs another version"
        )
    lost = published.keys() - new.wheels.keys()
    if lost and not allow_removal:
        raise PublishError(
            f"{where}: {_some(lost)} is published but not in this site, and nothing was written; "
            "build the site of all families, or allow the removal (--allow-removal): locks that name it will break"
        )


def _some(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return shown if len(names) <= 3 else f"{shown} (and {len(names) - 3} more)"


def to_folder(
    site: Path, folder: Path, *, allow_removal: bool = False, begun: Callable[[], None] = lambda: None
) -> Delivered:
    """Publish a site to a folder, which is replaced in one step; unchanged files stay the same files.

    `begun` is told before that step: from then on the site's wheels count as published.

    Raises OutputError if the site is not whole or the folder is not ours, and PublishError, before anything is
    written, if a published wheel would change, or be lost without `allow_removal`.
    """
    source = _Source.load(site)
    if folder.resolve() != site.resolve() and folder.resolve().is_relative_to(site.resolve()):
        raise OutputError(f"{folder}: lies in the site that is to be published; name a folder elsewhere")
    tidy(folder)
    old = Manifest.load(folder)
    before = {} if old is None else old.files
    published = {} if old is None else {name: item.sha256 for name, item in old.wheels.items()}
    _refuse(folder, published, source.manifest, allow_removal=allow_removal)
    if old == source.manifest and all(has_content(folder / path, sha256) for path, sha256 in before.items()):
        return Delivered(unchanged=len(before))
    written = []
    with staged(folder) as stage:
        if Manifest.load(folder) != old:
            raise OutputError(f"{folder}: was changed by another run meanwhile; publish again")
        for path, sha256 in sorted(source.digests.items()):
            if not stage.keep(path, sha256):
                stage.write(path, source.read(path))
                written.append(path)
        stage.write(MANIFEST, source.manifest.dump())
        begun()
        stage.complete = True
    return Delivered(
        written=(*written, MANIFEST),
        removed=tuple(sorted(before.keys() - source.digests.keys())),
        unchanged=len(source.digests) - len(written),
    )


def to_store(
    site: Path,
    url: str,
    progress: Progress,
    *,
    endpoint_url: str | None = None,
    allow_removal: bool = False,
    folder_keys: bool = True,
    begun: Callable[[], None] = lambda: None,
) -> Delivered:
    """Publish a site to an S3-compatible store, `url` being `s3://bucket/prefix`; credentials are boto3's business.

    A store replaces one object at a time, so the order keeps every moment whole: files, upstream's project pages,
    wrappers' project pages, root pages; then removals, the other way round; the manifest last. A run that was broken
    off is completed by the next. One run at a time: a store has no lock.

    A store has no folders, so nothing answers `simple/torch-cpu/` by itself. Static website hosting, or a CDN's rule,
    answers it with the index document, `index.html`. For everything else each page is also written under the key that
    ends in a slash; `folder_keys=False` leaves that out, for stores that take no such key (MinIO).

    `begun` is told before the first object is written: from then on the site's wheels count as published.

    Raises OutputError if the site is not whole, and PublishError if the store cannot be used or, before anything is
    written, if a published wheel would change, or be lost without `allow_removal`.
    """
    source = _Source.load(site)
    store = Store.open(url, endpoint_url)
    wanted = _with_folder_keys(source.digests) if folder_keys else dict(source.digests)
    listed = store.paths()
    old = store.manifest() if MANIFEST in listed else None
    if old is None and (strange := listed.keys() - _with_folder_keys(source.digests).keys()):
        raise PublishError(f"{url}: holds {_some(strange)}, which is no part of this site; name a prefix of its own")
    before = {} if old is None else _with_folder_keys(old.files)

    # What a manifest lists was there when it was written; files that still have their size are not asked for again,
    # pages are: a run broken off may have changed them.
    there = {
        path: before[path]
        for path in wanted
        if path in before and _wave(path) == 0 and listed.get(path) == (site / path).stat().st_size
    }
    asked = sorted((wanted.keys() & listed.keys()) - there.keys())
    for number, (path, sha256) in enumerate(_each(store.sha256, asked), start=1):
        there[path] = sha256
        progress(number, len(asked))
    published = {} if old is None else {name: item.sha256 for name, item in old.wheels.items()}
    published |= {path.removeprefix("files/"): there[path] for path in asked if path.endswith(".whl")}
    _refuse(url, published, source.manifest, allow_removal=allow_removal)

    wrappers = {wheel_name(name).project for name in (*source.manifest.wheels, *published)}

    def wave(path: str) -> int:
        return _wave(path, wrappers)

    def put(path: str) -> None:
        store.put(path, source.read(f"{path}index.html" if path.endswith("/") else path))

    missing = [path for path, sha256 in wanted.items() if there.get(path) != sha256]
    missing.sort(key=lambda path: (wave(path), path))
    gone = sorted((listed.keys() & before.keys()) - wanted.keys(), key=lambda path: (-wave(path), path))
    if missing:
        begun()
    done = itertools.count(1)
    for action, paths in ((put, missing), (store.delete, gone)):
        for _, group in itertools.groupby(paths, wave):
            for _ in _each(action, list(group)):
                progress(next(done), len(missing) + len(gone))
    manifest = source.manifest.dump()
    renewed = old is None or old.dump() != manifest
    if renewed:
        store.put(MANIFEST, manifest)
    return Delivered(
        written=(*missing, MANIFEST) if renewed else tuple(missing),
        removed=tuple(gone),
        unchanged=len(wanted) - len(missing),
    )


def _with_folder_keys(digests: Mapping[str, str]) -> dict[str, str]:
    """A site's files and, for each index.html, the key that ends in a slash."""
    pages = {path.removesuffix("index.html"): sha for path, sha in digests.items() if path.endswith("/index.html")}
    return {**digests, **pages}


def _wave(path: str, wrappers: Collection[str] = ()) -> int:
    """When a path is written: what a page refers to, and what a wrapper pins, comes before it."""
    if path.startswith("files/"):
        return 0
    page = _INDEX_PAGE.fullmatch(path)
    if page is None:  # what tells of the site, such as a feed
        return 4
    if page["project"] is None:
        return 3
    return 2 if page["project"] in wrappers else 1


def _each(action: Callable[[str], Any], paths: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Do something with every path, several at a time; the first error ends it."""
    with threads(PARALLEL_REQUESTS) as pool:
        futures = {pool.submit(action, path): path for path in paths}
        for future in as_completed(futures):
            yield futures[future], future.result()
