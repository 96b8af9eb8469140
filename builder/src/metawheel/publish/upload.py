"""Publishing a site's wrappers to an index that takes uploads: what is missing is uploaded, nothing is replaced."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.metadata import parse_email
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename
from packaging.version import Version

from metawheel.errors import MALFORMED, OutputError, PublishError
from metawheel.model import Artifact, wheel_name
from metawheel.publish.login import Destination, log_in
from metawheel.publish.remote import Answer, Remote
from metawheel.publish.servers import GENERIC, Server, advice, by_greeting, by_url, named, refusals
from metawheel.publish.simple import RemoteFile
from metawheel.site import Manifest
from metawheel.upstream.mirrors import without_user

Progress = Callable[[int, int], None]  # files done, all files
Pages = Mapping[str, "tuple[RemoteFile, ...] | None"]  # by project; None: the index does not have it

ATTEMPTS = 3  # for one file, each after a look at the page
PAUSE = 1.0  # seconds before the second attempt
PASSING = frozenset({None, 429, 500, 502, 503, 504})  # statuses after which another attempt may do; None: no answer
LISTED = 20  # lines of a message that lists wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file of the index that is not what the site has for its name and version."""

    filename: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What an index has of a site; file names in the order of upload."""

    url: str = ""  # without user and password
    index: str = ""
    server: str = ""
    replaces: str = ""  # whether the index replaces a file that is uploaded again: never, always or as set up
    uploaded: tuple[str, ...] = ()
    same: tuple[str, ...] = ()  # there already, with the same sha256
    missing: tuple[str, ...] = ()  # to be uploaded still: with `dry_run`, or after a break
    yanked: tuple[str, ...] = ()  # not uploaded: the site yanks them, and an upload cannot
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()


class UploadError(PublishError):
    """An index that did not take all wrappers; `published` says what it has."""

    def __init__(self, message: str, published: Published) -> None:
        super().__init__(message)
        self.published = published


class UploadStopped(UploadError):
    """Ctrl-C while wrappers were uploaded."""

    exit_code = 130


def publish(
    site: Path,
    destination: Destination,
    *,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
    uploaded: Callable[[str], None] = lambda filename: None,
) -> Published:
    """Upload the wheels of a site that an index lacks; `uploaded` is told of each at once.

    Raises OutputError where the site is not as it was built. Raises PublishError before anything is uploaded where the
    server is known to refuse a wheel, or the index has something else for its version; and where an upload fails
    (UploadStopped on Ctrl-C): an UploadError's `published` says what the index has.
    """
    manifest = _built(site)
    wheels = manifest.wheels
    yanked = {name: item.yanked for item in manifest.wrappers if item.yanked is not None for name in item.wheels}
    login = log_in(destination)
    with closing(Remote(login)) as remote:
        server, index, greeting = _recognised(remote, destination)
        replaces, warnings = _devpi(remote, greeting) or (server.replaces, [])
        _refuse(site, wheels, server)
        projects: list[str] = sorted({wheel_name(name).project for name in wheels})
        pages = {name: remote.page(index, name, forwards=server.forwards) for name in projects}
        if not any(pages.values()) and not server.no_root and not remote.is_there(index):
            raise PublishError(f"{index}: there is no simple index; name it with --index-url")
        found = compare(wheels, _with_hashes(pages, wheels, remote), yanked)
        found = replace(found, url=remote.url, index=index, server=server.name, replaces=replaces)
        found = replace(found, warnings=(*login.warnings, *warnings, *found.warnings))
        if found.conflicts:
            raise UploadError(_conflict_text(found), found)
        return found if dry_run else _upload_all(site / "files", wheels, found, remote, server, progress, uploaded)


def compare(wheels: Mapping[str, Artifact], pages: Pages, yanked: Mapping[str, str]) -> Published:
    """What of a site an index has, lacks or contradicts. Pure; every file on a page has a sha256 if it is ours.

    `yanked`: wheels that the site yanks, with the reason.
    """
    listed: dict[str, set[str | None]] = defaultdict(set)  # sha256 of what the index has under a name
    for file in itertools.chain.from_iterable(page or () for page in pages.values()):
        listed[file.filename].add(file.sha256)
    same, missing, left, conflicts, warnings = [], [], [], [], []
    for name in sorted(wheels, key=_order):
        if name in listed and listed[name] == {wheels[name].sha256}:
            same.append(name)
            if name in yanked:
                warnings.append(f"{name}: the site yanks it ({yanked[name] or 'no reason given'}); yank it there too")
        elif name in listed:
            theirs = " and ".join(sorted(str(sha256) for sha256 in listed[name]))
            what = f"the index has other bytes: sha256 {theirs}, not {wheels[name].sha256}"
            conflicts.append(Conflict(filename=name, what=what))
        elif name in yanked:
            left.append(name)
        else:
            missing.append(name)
    ours = _by_release(name for name in wheels if name not in left)
    for release, files in sorted(_by_release(listed).items()):
        for stranger in sorted(set(files) - set(wheels)) if release in ours else ():
            what = f"is on the index; of that version this site has {', '.join(ours[release])}"
            conflicts.append(Conflict(filename=stranger, what=what))
    return Published(
        same=tuple(same),
        missing=tuple(missing),
        yanked=tuple(left),
        conflicts=tuple(conflicts),
        warnings=tuple(warnings),
    )


def _order(filename: str) -> tuple[str, Version, str]:
    name = wheel_name(filename)
    return (name.project, name.version, filename)


def _by_release(filenames: Iterable[str]) -> dict[tuple[str, Version], list[str]]:
    """Wheels and sdists by project and version; other files, which no installer takes, are left out."""
    found: dict[tuple[str, Version], list[str]] = defaultdict(list)
    for filename in sorted(filenames):
        try:
            if filename.endswith(".whl"):
                name = wheel_name(filename)
                found[name.project, name.version].append(filename)
            else:
                found[parse_sdist_filename(filename)].append(filename)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
    return found


def _built(site: Path) -> Manifest:
    """What a site holds, each wheel proved to be the one that was built. Raises OutputError."""
    manifest = Manifest.of(site)
    for name, wheel in manifest.wheels.items():
        for path, sha256 in ((name, wheel.sha256), (f"{name}.metadata", wheel.metadata_sha256)):
            try:
                found = hashlib.sha256((site / "files" / path).read_bytes()).hexdigest()
            except OSError as error:
                raise OutputError(f"{site / 'files' / path}: cannot be read: {error.strerror}") from error
            if found != sha256:
                raise OutputError(
                    f"{site / 'files' / path}: is not what was built; `metawheel check {site}` tells all that is wrong"
                )
    return manifest


def _recognised(remote: Remote, destination: Destination) -> tuple[Server, str, str]:
    """The kind of server, its simple index, and its greeting if it was asked. Raises PublishError."""
    server = named(destination.server) if destination.server is not None else by_url(remote.url)
    greeting = remote.greeting() if server is None or server.greets is not None else Answer(status=None, text="")
    if server is None:
        server = (by_greeting(greeting.text) if greeting.good else None) or named(GENERIC)
    index = server.index_url(remote.url)
    if destination.index_url is not None:
        index = without_user(destination.index_url)
        remote.trust(index)
    if index is None:
        said = "" if greeting.good else f" ({greeting.text})"
        raise PublishError(
            f"{remote.url}: does not tell which server it is{said}; if the address is right, say which with"
            " --server, or where its simple index lies with --index-url"
        )
    return server, index if index.endswith("/") else f"{index}/", greeting.text if greeting.good else ""


def _devpi(remote: Remote, greeting: str) -> tuple[str, list[str]] | None:
    """Whether a devpi index replaces files, and what to warn of: its own JSON says it. None for another server."""
    try:
        facts = json.loads(greeting)["result"]
        kind, volatile = facts["type"], facts.get("volatile")
    except MALFORMED:
        return None
    if kind == "mirror":
        raise PublishError(f"{remote.url}: is a mirror, which takes no uploads")
    if not volatile:
        return "never", []
    risk = "whoever may upload to it can replace what is published here; set volatile=False on it"
    return "always", [f"{remote.url}: is a volatile index: {risk}"]


def _refuse(site: Path, wheels: Iterable[str], server: Server) -> None:
    """Raise PublishError where the server is known to refuse a wheel."""
    refused = {}
    for name in sorted(wheels, key=_order):
        metadata, _ = parse_email((site / "files" / f"{name}.metadata").read_bytes())
        if reasons := refusals(server, name, metadata):
            refused[name] = reasons
    if refused:
        lines = [f"{name}: {'; '.join(reasons)}" for name, reasons in refused.items()]
        what_to_do = advice(reason for reasons in refused.values() for reason in reasons)
        raise PublishError(_lines(f"{server.name} refuses {len(refused)} of these wheels; {what_to_do}", lines))


def _with_hashes(pages: Pages, wheels: Mapping[str, Artifact], remote: Remote) -> Pages:
    """The same pages, with a sha256 for each file of ours; where a page gives none, the file is downloaded."""
    return {
        project: page
        and tuple(
            replace(file, sha256=remote.sha256(file)) if file.filename in wheels and file.sha256 is None else file
            for file in page
        )
        for project, page in pages.items()
    }


def _upload_all(
    folder: Path,
    wheels: Mapping[str, Artifact],
    found: Published,
    remote: Remote,
    server: Server,
    progress: Progress,
    uploaded: Callable[[str], None],
) -> Published:
    done: list[str] = []

    def state() -> Published:
        return replace(found, uploaded=tuple(done), missing=found.missing[len(done) :])

    name = ""
    try:
        progress(0, len(found.missing))
        for name in found.missing:
            if (failure := _upload(folder / name, wheels[name], found.index, remote, server)) is not None:
                raise PublishError(f"{found.url} {failure.text}")
            done.append(name)
            uploaded(name)
            progress(len(done), len(found.missing))
    except KeyboardInterrupt:
        raise UploadStopped(f"stopped at {name}; {_again(state())}", state()) from None
    except PublishError as error:
        raise UploadError(f"{name}: {error}; {_again(state())}", state()) from error
    return state()


def _upload(path: Path, wheel: Artifact, index: str, remote: Remote, server: Server) -> Answer | None:
    """Upload one wheel; returns the answer that it failed with.

    Whether a file was stored is never guessed: after a failure the page is looked at, and only if the file is not
    there it may be sent again.
    """
    for attempt in range(1, ATTEMPTS + 1):
        answer = remote.upload(path)
        if answer.good:
            return None
        try:
            page = remote.page(index, wheel_name(path.name).project, forwards=server.forwards) or ()
            there = {file.sha256 or remote.sha256(file) for file in page if file.filename == path.name}
        except PublishError:
            return answer
        if there == {wheel.sha256}:
            return None
        if there:
            return replace(answer, text=f"{answer.text}; it now has other bytes under that name, so remove them there")
        if answer.status not in PASSING or attempt == ATTEMPTS:
            return answer
        time.sleep(PAUSE * attempt)
    return None


def _again(found: Published) -> str:
    whole = len(found.uploaded) + len(found.missing)
    return f"{len(found.uploaded)} of {whole} wheels were uploaded. Publish again: what is missing is uploaded then"


def _conflict_text(found: Published) -> str:
    return _lines(
        f"{found.url}: {len(found.conflicts)} files there are not what this site has for their version; nothing was"
        " uploaded. A published version never changes: what changed has to become a new version (.postN), or these"
        " files are to be removed from the index, if nobody has installed them",
        [f"{conflict.filename}: {conflict.what}" for conflict in found.conflicts],
    )


def _lines(title: str, lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "\n  ".join([f"{title}:", *lines[:LISTED], *more])
