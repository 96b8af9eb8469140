"""`metawheel relabel`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, Mirrors, Packages, download_bars, families_of, fetcher_of, print_result, url_of

if TYPE_CHECKING:
    from metawheel.model import UpstreamFile


def relabel(
    builds: Annotated[list[str], typer.Argument(metavar="PROJECT==VERSION...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the relabelled wheels.")],
    url: Annotated[str, typer.Option(help="Where that folder will be served.")],
    system: Annotated[
        list[str] | None,
        typer.Option(help="Only builds for this sys_platform, such as darwin. Repeatable.", show_default=False),
    ] = None,
    mirror: Mirrors = None,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Give plain builds a local version label, for a site that hosts files itself."""
    from metawheel.relabel import find_plain
    from metawheel.relabel import relabel as relabel_all
    from metawheel.site import MANIFEST
    from metawheel.sync import today, update_headlines

    if not (address := url_of(url)):
        raise typer.BadParameter("say where the folder will be served", param_hint="--url")
    place = Path(os.path.realpath(output))
    if any((folder / MANIFEST).exists() for folder in (place, *place.parents)):
        raise typer.BadParameter(f"{output} is in a site; a build removes what it did not make", param_hint="--output")
    found = find_plain(families_of(packages, None), builds, system or ())
    with download_bars() as on_bytes:
        made = relabel_all(found, output, address, fetcher_of(mirror), today(), on_bytes)
    update_headlines(families_of(packages, None))
    print_result(relabel_json(made) if as_json else relabel_text(made, output))


def relabel_text(made: Sequence[UpstreamFile], folder: Path) -> str:
    if not made:
        return "nothing to relabel: every plain build asked for has a label already"
    return "\n".join([*(file.filename for file in made), f"{len(made)} wheels in {folder}; ledgers brought up to date"])


def relabel_json(made: Sequence[UpstreamFile]) -> dict[str, Any]:
    return {
        "relabelled": [
            {"file": file.filename, "url": file.url, "sha256": file.sha256, "upstream_sha256": file.upstream_sha256}
            for file in made
        ]
    }
