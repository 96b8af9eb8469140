"""`metawheel install`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, plain, print_result
from metawheel.cli.detect import (
    Backend,
    Index,
    Python,
    VersionSpec,
    backend_of,
    catalog_of,
    choice_json,
    interpreter_of,
    specifier_of,
    without_password,
)

if TYPE_CHECKING:
    from metawheel.install.commands import Plan


def install(
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="torch [torchvision …] [-- ARGUMENTS]", help="What to install; then pip's or uv's own options."
        ),
    ],
    backend: Backend = "auto",
    cpu: Annotated[bool, typer.Option("--cpu", help="The same as --backend cpu.")] = False,
    version: VersionSpec = "",
    index: Index = None,
    python: Python = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be run.")] = False,
    as_json: Json = False,
) -> None:
    """Install the build that fits this machine, with the pip or uv that the environment has."""
    import shutil

    from metawheel.detect.machine import probe
    from metawheel.detect.system import Host
    from metawheel.files import cache_folder
    from metawheel.install.commands import installer_of, plan, run, write_constraints
    from metawheel.install.wish import Wish

    if index is None:
        raise typer.BadParameter("name the index that has the wrappers, or set METAWHEEL_INDEX", param_hint="--index")
    wanted, arguments = split(items)
    wish = Wish(
        items=wanted,
        backend=backend_of(backend, cpu=cpu),
        specifier=specifier_of(version),
        arguments=arguments,
    )
    interpreter = interpreter_of(python)
    installer = installer_of(interpreter, shutil.which("uv"))
    catalog = catalog_of(index, None, interpreter)
    planned = plan(wish, catalog, probe(Host()), interpreter, installer, cache_folder())
    print_result(install_json(planned) if as_json else install_text(planned))
    write_constraints(planned)  # for a dry run too, so that what it shows can be run
    if not dry_run:
        run(planned, stdout_is_taken=as_json)


def split(items: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to install, and from the first word that begins with a dash on the installer's arguments."""
    first = next((place for place, item in enumerate(items) if item.startswith("-")), len(items))
    return tuple(items[:first]), tuple(items[first:])


def install_text(planned: Plan) -> str:
    lines = [f"{c.offer.wrapper}=={c.offer.version}: {plain(c.reason)}" for c in planned.choices]
    lines += [f"{planned.constraints_path}: {', '.join(planned.constraints)}"]
    return "\n".join([*lines, *(f"$ {shown(command)}" for command in planned.commands)])


def install_json(planned: Plan) -> dict[str, Any]:
    return {
        "choices": [choice_json(choice) for choice in planned.choices],
        "constraints": {"path": str(planned.constraints_path), "lines": list(planned.constraints)},
        "commands": [[without_password(word) for word in command] for command in planned.commands],
    }


def shown(command: tuple[str, ...]) -> str:
    """A command as it can be pasted into a shell, but for passwords."""
    words = [without_password(word) for word in command]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
