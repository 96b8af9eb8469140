"""`metawheel build`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import (
    Flavour,
    Json,
    Mirrors,
    Packages,
    Unhashed,
    Url,
    families_of,
    fetcher_of,
    flavour_of,
    mirrors_of,
    plain,
    print_result,
    print_warning,
    progress_bar,
    url_of,
)

if TYPE_CHECKING:
    from metawheel.build import Built
    from metawheel.model import Omission


def build(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the site.")],
    families: Annotated[list[str] | None, typer.Argument(metavar="[FAMILY]...", show_default=False)] = None,
    flavour: Flavour = "pinned",
    allow_unhashed: Unhashed = False,
    projects: Annotated[
        Path | None, typer.Option(help="Also leave every wrapper's project in this folder.", show_default=False)
    ] = None,
    mirror: Mirrors = None,
    url: Url = "",
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask PyPI where its files are.")] = False,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Build the site: the wrappers, and the index that serves them."""
    from metawheel.build import build as build_site
    from metawheel.build import write_projects
    from metawheel.inputs import Options, make_plan

    found = families_of(packages, families)
    options = Options(
        flavour=flavour_of(flavour),
        allow_unhashed=allow_unhashed,
        mirrors=mirrors_of(mirror),
        offline=offline,
        url=url_of(url),
    )
    with progress_bar("wrappers") as progress:
        built = build_site(found, output, options, lambda: fetcher_of(mirror, patient=False), progress)
    if projects is not None:
        write_projects(make_plan(found, options).wrappers, projects)
    print_result(build_json(built, output) if as_json else build_text(built, output))
    if built.pypi_error is not None and built.incomplete:
        print_warning(incomplete(built))


def build_text(built: Built, site: Path) -> str:
    if built.unchanged:
        return f"{site}: nothing changed; {built.wheels} wheels, not a file touched"
    names = {wrapper.name for wrapper in built.wrappers}
    lines = [
        (
            f"{site}: {len(built.wrappers)} versions of {len(names)} wrappers in {built.wheels} wheels"
            f" ({built.built} built, {built.wheels - built.built} as before); {len(built.changed)} files changed"
        )
    ]
    if built.entry:
        lines.append(f"{plain(built.entry.summary)}; CHANGES.json has them and the reasons")
    left = {(omission.wrapper, omission.version) for omission in built.omissions or ()}
    if left:
        lines.append(f"left out in part or whole: {len(left)} versions; `metawheel show NAME==VERSION` says why")
    return "\n".join(lines)


def incomplete(built: Built) -> str:
    return (
        f"{built.pypi_error}, so the files that it hosts are on no page here: those of "
        f"{', '.join(built.incomplete)}. uv looks no further than the first index that has a page of a "
        "project, so it may not find them; build again when PyPI can be reached"
    )


def omissions_json(omissions: Iterable[Omission]) -> list[dict[str, str]]:
    return [{"wrapper": o.wrapper, "version": o.version, "what": o.what, "reason": o.reason} for o in omissions]


def build_json(built: Built, site: Path) -> dict[str, Any]:
    return {
        "site": str(site),
        "unchanged": built.unchanged,
        "wheels": built.wheels,
        "built": built.built,
        "changed": list(built.changed),
        "incomplete": list(built.incomplete),
        "pypi_error": built.pypi_error,
        "wrappers": [wrapper.key for wrapper in built.wrappers],
        "omissions": None if built.omissions is None else omissions_json(built.omissions),
    }
