"""`metawheel publish`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, Packages, families_of, http_url, plain, print_result, print_warning, progress_bar

if TYPE_CHECKING:
    from metawheel.errors import PublishError
    from metawheel.family import Family
    from metawheel.publish.deliver import Delivered
    from metawheel.publish.upload import Published

Note = Callable[[Iterable[str]], None]  # wheels, by file name, that are published now

PINNED = (
    "these wrappers pin builds, which pip and uv find only where upstream's pages are too; if this index has none, "
    "upload the direct flavour (`metawheel build --flavour direct`)"
)

RepositoryUrl = Annotated[str | None, typer.Option(help="Upload URL of an index, as for twine.", show_default=False)]
Repository = Annotated[
    str | None, typer.Option(help="Section of ~/.pypirc that names an index, as for twine.", show_default=False)
]
ConfigFile = Annotated[Path | None, typer.Option(help="Instead of ~/.pypirc.", show_default=False)]
Server = Annotated[
    str | None, typer.Option(help="Which server it is, where its URL does not tell.", show_default=False)
]
IndexUrl = Annotated[str | None, typer.Option(help="Its simple index, where that lies elsewhere.", show_default=False)]
ToFolder = Annotated[Path | None, typer.Option(help="Copy the whole site to this folder instead.", show_default=False)]
ToStore = Annotated[
    str | None, typer.Option(metavar="s3://BUCKET/PREFIX", help="Or to this S3-compatible store.", show_default=False)
]
EndpointUrl = Annotated[str | None, typer.Option(help="Address of that store.", show_default=False)]
FolderKeys = Annotated[
    bool, typer.Option(help="Write each page under a key that ends in a slash too, which MinIO refuses.")
]
AllowRemoval = Annotated[
    bool, typer.Option("--allow-removal", help="Take published wheels that SITE lacks off the folder or store.")
]
Record = Annotated[bool, typer.Option(help="Note what was published in packages/*/released.jsonl.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A site, and where it is to be published."""

    site: Path
    repository_url: str | None = None
    repository: str | None = None
    config_file: Path | None = None
    server: str | None = None
    index_url: str | None = None
    folder: Path | None = None
    store: str | None = None
    endpoint_url: str | None = None
    folder_keys: bool = True
    allow_removal: bool = False

    def __post_init__(self) -> None:
        if len(self._places) > 1:
            raise typer.BadParameter("an index, --to-folder and --to-store are three ways to publish; name one")
        if self.index_url is not None:
            http_url(self.index_url, "--index-url")
        if self.folder is not None and self.folder.resolve() == self.site.resolve():
            raise typer.BadParameter(f"{self.folder} is the site itself; name a folder elsewhere")

    @property
    def _places(self) -> list[object]:
        return [item for item in (self.repository_url or self.repository, self.folder, self.store) if item is not None]

    @property
    def is_named(self) -> bool:
        return bool(self._places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What publishing came to: for people, for programs, and the failure that ended it."""

    text: str
    data: dict[str, Any]
    warnings: tuple[str, ...] = ()
    error: PublishError | None = None


def publish(
    site: Annotated[Path, typer.Argument(metavar="SITE")],
    repository_url: RepositoryUrl = None,
    repository: Repository = None,
    config_file: ConfigFile = None,
    server: Server = None,
    index_url: IndexUrl = None,
    to_folder: ToFolder = None,
    to_store: ToStore = None,
    endpoint_url: EndpointUrl = None,
    folder_keys: FolderKeys = True,
    allow_removal: AllowRemoval = False,
    record: Record = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the index, upload nothing.")] = False,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Publish a site: upload its wrappers to an index, or copy it to a folder or a store.

    User name and password come from where twine has them: TWINE_USERNAME and TWINE_PASSWORD, ~/.pypirc, the keyring.
    METAWHEEL_TIMEOUT sets how many seconds an index may take to answer.
    """
    target = Target(
        site=site,
        repository_url=repository_url,
        repository=repository,
        config_file=config_file,
        server=server,
        index_url=index_url,
        folder=to_folder,
        store=to_store,
        endpoint_url=endpoint_url,
        folder_keys=folder_keys,
        allow_removal=allow_removal,
    )
    if not target.is_named and not (os.environ.get("TWINE_REPOSITORY_URL") or os.environ.get("TWINE_REPOSITORY")):
        raise typer.BadParameter("say where to: --repository-url, --repository, --to-folder or --to-store")
    if dry_run and (to_folder is not None or to_store is not None):
        raise typer.BadParameter("only uploads to an index can be tried", param_hint="--dry-run")
    families = _recorders(packages) if record else None
    sent = send(target, families, dry_run=dry_run, quiet=as_json)
    if as_json or sent.error is None:
        print_result(sent.data if as_json else sent.text)
    for warning in sent.warnings:
        print_warning(plain(warning))
    if sent.error is not None:
        raise sent.error


def _recorders(packages: Path | None) -> Sequence[Family]:
    """The families that keep the record. Raises UnknownName."""
    from metawheel.errors import UnknownName

    try:
        return families_of(packages, None)
    except UnknownName as error:
        raise UnknownName(f"{error}; what is published is recorded there, unless you say --no-record") from None


def send(target: Target, families: Sequence[Family] | None, *, dry_run: bool = False, quiet: bool = False) -> Sent:
    """Publish a site and note what was published in the families' records; without families nothing is noted.

    Raises PublishError where the record has other wheels for a wrapper of the site.
    """
    from metawheel.publish.record import record, refuse_contradictions

    if families is not None:
        refuse_contradictions(target.site, families)

    def note(wheels: Iterable[str]) -> None:
        if families is not None and not dry_run:
            record(families, target.site, wheels)

    if target.folder is not None or target.store is not None:
        return _deliver(target, note)
    return _upload(target, note, dry_run=dry_run, quiet=quiet)


def _deliver(target: Target, note: Note) -> Sent:
    """Copy a site; its wheels are noted before the first of them can be seen, lest a break leaves that undone."""
    from metawheel.publish.deliver import to_folder, to_store

    def begun() -> None:
        note(path.name for path in (target.site / "files").glob("*.whl"))

    if target.folder is not None:
        delivered = to_folder(target.site, target.folder, allow_removal=target.allow_removal, begun=begun)
    else:
        with progress_bar("files") as progress:
            delivered = to_store(
                target.site,
                target.store or "",
                progress,
                endpoint_url=target.endpoint_url,
                allow_removal=target.allow_removal,
                folder_keys=target.folder_keys,
                begun=begun,
            )
    begun()  # where nothing was left to copy, too
    where = str(target.folder or target.store)
    return Sent(text=delivered_text(delivered, where), data=delivered_json(delivered, where))


def _upload(target: Target, note: Note, *, dry_run: bool, quiet: bool) -> Sent:
    """Upload to an index; a wrapper is noted with its first wheel there, lest a break leaves that undone."""
    from metawheel.errors import PublishError
    from metawheel.publish.login import Destination
    from metawheel.publish.upload import UploadError
    from metawheel.publish.upload import publish as publish_all

    destination = Destination(
        repository=target.repository,
        repository_url=target.repository_url,
        config_file=str(target.config_file) if target.config_file is not None else None,
        server=target.server,
        index_url=target.index_url,
    )
    error: PublishError | None = None
    published: Published | None = None
    noted: set[str] = set()

    def uploaded(name: str) -> None:
        if (wrapper := "-".join(name.split("-")[:2])) not in noted:
            note([name])
            noted.add(wrapper)
        if not quiet:
            typer.echo(f"uploaded {name}")

    try:
        with progress_bar("wheels") as progress:
            published = publish_all(target.site, destination, dry_run=dry_run, progress=progress, uploaded=uploaded)
    except UploadError as failure:
        error, published = failure, failure.published
    except PublishError as failure:
        error = failure
    if published is not None:
        note([*published.uploaded, *published.same])
        if (published.uploaded or published.missing) and _is_pinned(target.site):
            published = replace(published, warnings=(*published.warnings, PINNED))
    return Sent(
        text=published_text(published, dry_run=dry_run) if published is not None else "",
        data=published_json(published, str(error) if error is not None else None),
        warnings=published.warnings if published is not None else (),
        error=error,
    )


def _is_pinned(site: Path) -> bool:
    from metawheel.site import Manifest

    return any(wrapper.flavour == "pinned" for wrapper in Manifest.of(site).wrappers)


def published_text(published: Published, *, dry_run: bool) -> str:
    lines = [f"would upload {name}" for name in published.missing] if dry_run else []
    lines += [f"left out {name}: yanked" for name in published.yanked]
    count = len(published.missing) if dry_run else len(published.uploaded)
    same = f"{len(published.same)} there already, the same"
    lines.append(f"{published.url}: {count} wheels {'to upload' if dry_run else 'uploaded'}, {same}")
    return "\n".join(lines)


def published_json(published: Published | None, error: str | None = None) -> dict[str, Any]:
    """`missing` is what is to be uploaded still: with --dry-run, or after a break."""
    from metawheel.publish.upload import Published

    found = published or Published()
    return {
        "url": found.url or None,
        "index": found.index or None,
        "server": found.server or None,
        "replaces": found.replaces or None,
        "uploaded": list(found.uploaded),
        "same": list(found.same),
        "missing": list(found.missing),
        "yanked": list(found.yanked),
        "conflicts": [{"file": conflict.filename, "what": conflict.what} for conflict in found.conflicts],
        "warnings": list(found.warnings),
        "error": error,
    }


def delivered_text(delivered: Delivered, target: str) -> str:
    written, removed = len(delivered.written), len(delivered.removed)
    return f"{target}: {written} files written, {removed} removed, {delivered.unchanged} as before"


def delivered_json(delivered: Delivered, target: str) -> dict[str, Any]:
    return {
        "destination": target,
        "written": list(delivered.written),
        "removed": list(delivered.removed),
        "unchanged": delivered.unchanged,
    }
