"""The command line, a module for each command: only these print. What is heavy is imported when a command needs it."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Annotated

import typer

from metawheel import __version__
from metawheel.cli import build, check, detect, doctor, install, pip, publish, regenerate, relabel, serve, show, sync
from metawheel.cli.common import print_error
from metawheel.errors import MetawheelError, OutputError

app = typer.Typer(
    help="Build thin wrapper distributions that pin the right PyTorch or JAX build on every platform.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130  # what typer, too, makes of Ctrl-C


def main() -> None:
    """Run the command line; a failure becomes one message and its own exit code."""
    # What a command makes it keeps to its end: to look there for garbage took a tenth of a build's time.
    gc.set_threshold(200_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for some reads every distribution's metadata
    try:
        app()
    except MetawheelError as error:
        print_error(str(error))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print_error("stopped; what was being written is as it was before")
        if threading.active_count() > 1:  # threads that wait for a server would be waited for
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # a file or folder that no message of ours names
        print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(OutputError.exit_code)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"metawheel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in (
    sync.sync,
    build.build,
    check.check,
    publish.publish,
    regenerate.regenerate,
    show.show,
    relabel.relabel,
    serve.serve,
    detect.detect,
    install.install,
    doctor.doctor,
):
    app.command()(command)
app.add_typer(pip.app, name="pip")
