"""`metawheel regenerate`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.build import incomplete, omissions_json
from metawheel.cli.check import check_json, check_text
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
from metawheel.cli.publish import (
    ConfigFile,
    EndpointUrl,
    FolderKeys,
    IndexUrl,
    Repository,
    RepositoryUrl,
    Sent,
    Server,
    Target,
    ToFolder,
    ToStore,
    send,
)
from metawheel.cli.sync import print_failures, sync_json, sync_text

if TYPE_CHECKING:
    from metawheel.regenerate import Regenerated


def regenerate(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the site.")],
    flavour: Flavour = "pinned",
    allow_unhashed: Unhashed = False,
    mirror: Mirrors = None,
    url: Url = "",
    repository_url: RepositoryUrl = None,
    repository: Repository = None,
    config_file: ConfigFile = None,
    server: Server = None,
    index_url: IndexUrl = None,
    to_folder: ToFolder = None,
    to_store: ToStore = None,
    endpoint_url: EndpointUrl = None,
    folder_keys: FolderKeys = True,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Follow upstream: sync, build, check, and publish what is new if told where to.

    Exit code 0 says that everything was looked at, whether or not something was new; 5 to 7 that a source could not be
    used: its families stay as they are, the others go on. A site that breaks a promise (1) is not published.
    """
    from metawheel.errors import PublishError
    from metawheel.inputs import Options
    from metawheel.regenerate import regenerate as run
    from metawheel.sync import today

    target = Target(
        site=output,
        repository_url=repository_url,
        repository=repository,
        config_file=config_file,
        server=server,
        index_url=index_url,
        folder=to_folder,
        store=to_store,
        endpoint_url=endpoint_url,
        folder_keys=folder_keys,
    )
    families = families_of(packages, None)
    options = Options(
        flavour=flavour_of(flavour), allow_unhashed=allow_unhashed, mirrors=mirrors_of(mirror), url=url_of(url)
    )
    with progress_bar("pages") as pages, progress_bar("families") as ledgers, progress_bar("wrappers") as wrappers:
        found = run(
            families,
            output,
            options,
            lambda: fetcher_of(mirror),
            today(),
            pages=pages,
            ledgers=ledgers,
            wrappers=wrappers,
        )
    sent: Sent | None = None
    if target.is_named and not found.findings:
        try:
            sent = send(target, families, quiet=True)
        except PublishError as error:
            sent = Sent(text="", data={"error": str(error)}, error=error)
    if as_json:
        print_result(regenerate_json(found, output) | {"published": sent.data if sent is not None else None})
    else:
        print_result("\n".join([regenerate_text(found, output), *([sent.text] if sent is not None else [])]))
    print_failures(found.synced)
    if found.built.pypi_error is not None and found.built.incomplete:
        print_warning(incomplete(found.built))
    for warning in sent.warnings if sent is not None else ():
        print_warning(plain(warning))
    if sent is not None and sent.error is not None:
        raise sent.error
    raise typer.Exit(found.exit_code)


def regenerate_text(found: Regenerated, site: Path) -> str:
    from metawheel.changes import lines

    built = found.built
    parts = [sync_text(found.synced)]
    parts += _section("new releases upstream", [f"{project} {version}" for project, version in found.releases])
    parts += _section("new backends upstream", [f"{project} +{label}" for project, label in found.backends])
    parts += _section(f"wrappers ({unchanged(found)} unchanged)", [plain(line) for line in lines(built.entry)])
    reasons = Counter((o.wrapper, o.version, o.reason) for o in found.omissions)
    left = [f"{name} {version}: {plain(reason)} ({count})" for (name, version, reason), count in reasons.items()]
    parts += _section("left out of the releases that changed", left)
    if not found.changed:
        parts.append("no change")
    parts.append(check_text(found.findings, site))
    return "\n".join(part for part in parts if part)


def _section(title: str, items: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {item}" for item in items)] if items else []


def unchanged(found: Regenerated) -> int:
    """How many versions of wrappers are as they were."""
    entry = found.built.entry
    touched = {*entry.new, *entry.unyanked, *entry.rebuilt, *dict(entry.reissued), *dict(entry.yanked)}
    return len(found.built.wrappers) - len(touched)


def regenerate_json(found: Regenerated, site: Path) -> dict[str, Any]:
    from metawheel.changes import as_json

    return {
        "site": str(site),
        "changed": found.changed,
        "exit_code": found.exit_code,
        "upstream": sync_json(found.synced),
        "releases": [{"project": project, "version": version} for project, version in found.releases],
        "backends": [{"project": project, "local": label} for project, label in found.backends],
        "wrappers": {
            **{key: value for key, value in as_json(found.built.entry).items() if key not in ("id", "date")},
            "unchanged": unchanged(found),
        },
        "left_out": omissions_json(found.omissions),
        "incomplete": list(found.built.incomplete),
        "check": check_json(found.findings),
    }
