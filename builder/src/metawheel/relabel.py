"""`metawheel relabel`: give plain builds a local version label, for a site that hosts files itself."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from metawheel import ledger
from metawheel.branches import file_platforms
from metawheel.errors import RelabelError, UnknownName, UpstreamAlarm
from metawheel.family import Family
from metawheel.files import make_folder, write_if_changed
from metawheel.model import UpstreamFile
from metawheel.rewrite import relabel_wheel, relabelled_name
from metawheel.upstream.download import downloaded
from metawheel.upstream.hosted import find_hosted
from metawheel.upstream.http import Fetcher

SOURCE = "relabelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelling:
    """One plain build that gets a label, and the families whose ledgers have it."""

    file: UpstreamFile
    label: str
    families: tuple[Family, ...]

    @property
    def filename(self) -> str:
        return relabelled_name(self.file.filename, self.label)


def find_plain(families: Iterable[Family], wanted: Iterable[str], systems: Iterable[str] = ()) -> list[Relabelling]:
    """The hashed plain builds in the ledgers that requirements such as torch==2.9.1 name, without those done before.

    `systems` narrows them to these values of sys_platform. Raises UnknownName, LedgerError.
    """
    requirements = [_requirement(text) for text in wanted]
    only = set(systems)
    found: dict[str, list[tuple[Family, UpstreamFile]]] = defaultdict(list)
    matched: set[Requirement] = set()
    unhashed: list[str] = []
    for family in families:
        order = {source.name: number for number, source in enumerate(family.source)}
        files = ledger.load(family.ledger_path)
        done = {file.filename for file in files if file.upstream_sha256 is not None}
        # One file name can have other bytes on another host: the first source's is the one that wrappers pin.
        for file in sorted(files, key=lambda file: (file.sha256 is None, order.get(file.source, len(order)))):
            naming = [r for r in requirements if _names(r, file)]
            if not naming or not _is_plain(family, file):
                continue
            if only and not only & {platform.sys_platform for platform in file_platforms(file)}:
                continue
            matched.update(naming)
            if any(other == family for other, _ in found[file.filename]):
                continue
            if file.sha256 is None:
                unhashed.append(file.filename)
            elif relabelled_name(file.filename, family.plain) not in done:
                found[file.filename].append((family, file))
    for requirement in requirements:
        if requirement not in matched:
            raise UnknownName(f"no ledger has a plain build of {requirement}")
    if unhashed and not any(found.values()):
        raise RelabelError(f"no ledger has a sha256 of {unhashed[0]}; run `metawheel sync --hash-missing` first")
    return [_relabelling(items) for _, items in sorted(found.items()) if items]


def _relabelling(items: Sequence[tuple[Family, UpstreamFile]]) -> Relabelling:
    family, file = items[0]
    for other, theirs in items:
        if theirs.sha256 != file.sha256:
            raise RelabelError(f"{file.filename}: the ledgers of {family.name} and {other.name} disagree; sync both")
    return Relabelling(file=file, label=family.plain, families=tuple(family for family, _ in items))


def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement:
        raise UnknownName(f"{text!r} is not PROJECT or PROJECT==VERSION") from None


def _names(requirement: Requirement, file: UpstreamFile) -> bool:
    named = canonicalize_name(requirement.name) == file.project
    return named and requirement.specifier.contains(file.release, prereleases=True)


def _is_plain(family: Family, file: UpstreamFile) -> bool:
    return (
        file.local is None
        and file.gone is None
        and bool(file_platforms(file))
        and any(source.name == file.source for source in family.source)
        and family.backend(file) == family.plain
    )


def relabel(
    items: Sequence[Relabelling],
    folder: Path,
    url: str,
    fetcher: Fetcher,
    today: str,
    on_bytes: Callable[[str, int, int | None], None],
) -> list[UpstreamFile]:
    """Download each plain build, write it with its label into a folder served at `url`, and note it in the ledgers.

    Each file is noted as soon as it is written. Raises SourceError, RelabelError, OutputError.
    """
    make_folder(folder)
    hosted, failure = find_hosted([item.file for item in items if item.file.url is None], fetcher)
    made = []
    for item in items:
        address = item.file.url or hosted.get(item.file.filename)
        if address is None:
            raise failure or RelabelError(f"{item.file.filename}: PyPI does not list it any more")
        file = _relabel_one(item, address, folder, url, fetcher, on_bytes)
        for family in item.families:
            files = ledger.load(family.ledger_path)
            ledger.save(family.ledger_path, [*files, replace(file, first_seen=today)])
        made.append(file)
    return made


def _relabel_one(
    item: Relabelling,
    address: str,
    folder: Path,
    url: str,
    fetcher: Fetcher,
    on_bytes: Callable[[str, int, int | None], None],
) -> UpstreamFile:
    file = item.file
    with downloaded(fetcher, address, lambda done, total: on_bytes(file.filename, done, total)) as part:
        with part.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        if sha256 != file.sha256:
            raise UpstreamAlarm(address, f"has sha256 {sha256}, the ledger knows {file.sha256}; it was not relabelled")
        made = relabel_wheel(part, file.filename, item.label, folder)
        write_if_changed(folder / f"{made.path.name}.metadata", made.metadata)
    return replace(
        file,
        filename=made.path.name,
        source=SOURCE,
        url=f"{url.rstrip('/')}/{quote(made.path.name)}",
        sha256=made.sha256,
        sha256_from="computed",
        upstream_sha256=file.sha256,
        size=made.size,
        metadata=hashlib.sha256(made.metadata).hexdigest(),
    )
