"""`metawheel pip insert | remove | status`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from metawheel.cli.common import Json, plain, print_result, print_warning
from metawheel.cli.detect import (
    Backend,
    Index,
    Python,
    VersionSpec,
    backend_of,
    catalog_of,
    interpreter_of,
    specifier_of,
    without_password,
)

if TYPE_CHECKING:
    from metawheel.detect.interpreter import Interpreter
    from metawheel.install.pipconf import Place, Record, Scope, Tool

app = typer.Typer(
    help="Make plain pip and uv take the right build, by their own settings; and take these out again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Where = Annotated[
    Literal["user", "venv"] | None,
    typer.Option(
        "--scope", help="Whose settings.  [default: those of the environment, if it is one]", show_default=False
    ),
]


@app.command()
def insert(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[torch …]", help="For which projects.", show_default=False)
    ] = None,
    backend: Backend = "auto",
    cpu: Annotated[bool, typer.Option("--cpu", help="The same as --backend cpu.")] = False,
    version: VersionSpec = "",
    index: Index = None,
    python: Python = None,
    scope: Where = None,
    uv: Annotated[bool, typer.Option("--uv", help="uv's settings; pip's are the default where there is pip.")] = False,
    as_json: Json = False,
) -> None:
    """Put the index of the right backend into the settings, and for pip the versions that belong together."""
    from metawheel.detect.machine import probe
    from metawheel.detect.system import Host
    from metawheel.errors import UnknownName
    from metawheel.install.pipconf import hidden, place_of
    from metawheel.install.pipconf import insert as put_in
    from metawheel.install.pipsettings import settings_for
    from metawheel.install.wish import Wish

    if index is None:
        raise typer.BadParameter("name the index that has the wrappers, or set METAWHEEL_INDEX", param_hint="--index")
    interpreter = interpreter_of(python)
    tool: Tool = "uv" if uv or not interpreter.has_pip else "pip"
    if tool == "uv" and version:
        raise typer.BadParameter("uv's settings name an index, not a version; name it where you install")
    place = place_of(tool, _scope(scope, interpreter), interpreter, os.environ)
    asked = backend_of(backend, cpu=cpu)
    wish = Wish(items=tuple(items or ("torch",)), backend=asked, specifier=specifier_of(version))
    catalog = catalog_of(index, None, interpreter)
    settings = settings_for(
        wish, catalog, probe(Host()), interpreter, all_pythons=place.scope == "user" and tool == "pip"
    )
    if tool == "uv" and not settings.narrow:  # without versions only the index can tell one build from another
        raise UnknownName(f"{without_password(index)}: has the builds of all backends; uv needs an index of one")
    record = put_in(
        place,
        index=settings.index,
        backend=settings.backend,
        constraints=settings.constraints,
        interpreter=interpreter,
    )
    for what in hidden(place, record, interpreter, os.environ):
        print_warning(f"not heeded as long as there is {what}")
    print_result(_json(place, record) if as_json else _text(place, record))


@app.command()
def remove(python: Python = None, scope: Where = None, as_json: Json = False) -> None:
    """Take out what `insert` put in: the settings are again what they were, byte for byte."""
    from metawheel.install.pipconf import remove as take_out

    interpreter = interpreter_of(python)
    places = _places(_scope(scope, interpreter), interpreter)
    gone = [place for place in places if take_out(place)]
    if as_json:
        print_result({"removed": [str(place.config) for place in gone]})
    else:
        print_result("\n".join(f"{place.config}: as it was" for place in gone) or "nothing was put in")


@app.command()
def status(python: Python = None, as_json: Json = False) -> None:
    """Tell what is put in, and whether it is heeded."""
    from metawheel.install.pipconf import Record, hidden

    interpreter = interpreter_of(python)
    scopes: tuple[Scope, ...] = ("user", "venv") if interpreter.is_venv else ("user",)
    found = [
        (place, record, hidden(place, record, interpreter, os.environ))
        for scope in scopes
        for place in _places(scope, interpreter)
        if (record := Record.load(place)) is not None
    ]
    if as_json:
        print_result({"inserted": [{**_json(place, record), "hidden_by": list(why)} for place, record, why in found]})
        return
    lines = [
        line for place, record, why in found for line in (_text(place, record), *(f"  not heeded: {w}" for w in why))
    ]
    print_result("\n".join(lines) or "nothing is put in")


def _scope(scope: Scope | None, interpreter: Interpreter) -> Scope:
    return scope or ("venv" if interpreter.is_venv else "user")


def _places(scope: Scope, interpreter: Interpreter) -> list[Place]:
    from metawheel.install.pipconf import place_of

    tools: tuple[Tool, ...] = ("pip", "uv")
    return [place_of(tool, scope, interpreter, os.environ) for tool in tools]


def _text(place: Place, record: Record) -> str:
    lines = [f"{place.config} ({place.tool}, {place.scope}): {record.backend}, {without_password(record.index)}"]
    return "\n".join([*lines, *(f"  {plain(line)}" for line in record.constraints)])


def _json(place: Place, record: Record) -> dict[str, Any]:
    return {
        "tool": place.tool,
        "scope": place.scope,
        "config": str(place.config),
        "backend": record.backend,
        "index": without_password(record.index),
        "constraints": list(record.constraints),
    }
