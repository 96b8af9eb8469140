"""`metawheel serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import Json, http_url, print_result

if TYPE_CHECKING:
    from metawheel.serve.app import Settings


def serve(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder that `metawheel build` made.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8000,
    fallback: Annotated[
        str, typer.Option(metavar="URL", help="Simple index for all names that are not ours; or pypi, or none.")
    ] = "pypi",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a page of the fallback may take.")] = 10.0,
    cache: Annotated[
        Path | None, typer.Option(help="Fetch upstream files once, into this folder.", show_default=False)
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Let in only its users: lines of user:sha256.", show_default=False)
    ] = None,
    grace: Annotated[int, typer.Option(min=0, help="Seconds that running requests have to end on a stop.")] = 30,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print each request.")] = False,
    as_json: Json = False,
) -> None:
    """Serve the site and, behind the same URL, another index for all other names."""
    try:
        from metawheel.serve.app import Settings
        from metawheel.serve.server import configure, listen, run
    except ImportError as error:
        raise typer.BadParameter(
            f"serve needs more; install metawheel with its extra, serve ({error.name} is missing)"
        ) from None

    settings = Settings(site=site, fallback=fallback_of(fallback), cache=cache, tokens=token_file, timeout=timeout)
    with listen(host, port) as bound:
        config = configure(settings, grace=grace, access_log=access_log)
        address = url_of(host, bound.getsockname()[1])
        print_result(serve_json(settings, address) if as_json else serve_text(settings, address))
        run(config, bound)


def serve_text(settings: Settings, address: str) -> str:
    from metawheel.upstream.mirrors import without_user

    url = settings.fallback
    others = "not looked up" if url is None else f"looked up at {without_user(url)}"
    return f"{settings.site}: served at {address}simple/; other names are {others}"


def serve_json(settings: Settings, address: str) -> dict[str, Any]:
    from metawheel.upstream.mirrors import without_user

    return {
        "site": str(settings.site),
        "url": address,
        "index": f"{address}simple/",
        "fallback": None if settings.fallback is None else without_user(settings.fallback),
        "cache": None if settings.cache is None else str(settings.cache),
    }


def fallback_of(value: str) -> str | None:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    if value == "none":
        return None
    return PYPI_SIMPLE_ENDPOINT if value == "pypi" else http_url(value, "--fallback", ", pypi or none")


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
