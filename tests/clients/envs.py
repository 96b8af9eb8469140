"""Real clients, each in a virtual environment of its own, cut off from the machine's settings."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.interpreters import version_of

# Nothing listens there: a client that asks for anything but a loopback server fails at once.
DEAD_PROXY = "http://127.0.0.1:9"
MACHINE = dict(os.environ)  # before any test shuts the network off
INSTALL_TIMEOUT = 600
RUN_TIMEOUT = 180


@dataclass(frozen=True)
class Client:
    """A program under test and what to install to have it."""

    name: str
    program: str
    requirements: tuple[str, ...]
    in_project: bool = False  # runs on the project's own interpreter, not on any


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client("pip", "pip", ("pip",), in_project=True),
        Client("pip-23", "pip", ("pip>=23.3,<24",), in_project=True),
        Client("uv", "uv", ("uv",)),
        Client("poetry", "poetry", ("poetry>=2,<3",)),
        Client("poetry-1.8", "poetry", ("poetry>=1.8,<1.9",)),
        Client("pdm", "pdm", ("pdm", "hishel<2")),
        Client("pipenv", "pipenv", ("pipenv",), in_project=True),
        Client("pip-tools", "pip-compile", ("pip-tools",), in_project=True),
    )
}


class ClientFailedError(AssertionError):
    """A client ended with an exit status other than the one expected."""


def cache_root() -> Path:
    """Where environments are kept between runs."""
    chosen = os.environ.get("METAWHEEL_TEST_CACHE")
    return Path(chosen) if chosen else Path(__file__).parents[2] / ".cache" / "clients"


def ensure(client: Client | str, python: Path | None = None) -> Path:
    """Make sure a client's environment exists, on a given interpreter, and return its `bin` folder."""
    client = CLIENTS[client] if isinstance(client, str) else client
    python = python or Path(sys.executable)
    identity = "\n".join((version_of(python) or "", str(python.resolve()), *client.requirements))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    folder = cache_root() / f"{client.name}-py{version_of(python)}-{digest}"
    done = folder / "done"
    # A virtual environment cannot be moved, so it grows in place and only the marker makes it count.
    if not done.exists():
        with _locked(folder.with_name(f"{folder.name}.lock")):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                _make(python, folder, client.requirements)
                done.write_text("\n".join(client.requirements) + "\n", encoding="utf-8")
    return folder / "bin"


def client_version(client: Client | str, python: Path | None = None) -> str:
    """The version of a client as its environment has it installed."""
    client = CLIENTS[client] if isinstance(client, str) else client
    project = re.split(r"[^A-Za-z0-9._-]", client.requirements[0], maxsplit=1)[0]
    code = f"from importlib.metadata import version; print(version({project!r}))"
    command = [str(ensure(client, python) / "python"), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The cache hides itself from git, whatever the folder that holds it.
    (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(python: Path, folder: Path, requirements: Sequence[str]) -> None:
    commands = [
        [str(python), "-m", "venv", str(folder)],
        # The machine's own settings are wanted here: they say how its registry is reached.
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--upgrade", *requirements],
    ]
    for command in commands:
        done = subprocess.run(
            command, env=MACHINE, capture_output=True, text=True, timeout=INSTALL_TIMEOUT, check=False
        )
        if done.returncode:
            raise ClientFailedError(describe(command, done))


def clean_env(
    home: Path,
    bin_folder: Path,
    extra: Mapping[str, str] | None = None,
    interpreters: Iterable[Path] = (),
) -> dict[str, str]:
    """Build an environment from nothing, so that no setting of the machine's reaches a client."""
    for name in ("cache", "config", "data", "tmp"):
        (home / name).mkdir(parents=True, exist_ok=True)
    path = [bin_folder, *(python.parent for python in interpreters), "/usr/local/bin", "/usr/bin", "/bin"]
    env = {
        "PATH": os.pathsep.join(str(folder) for folder in path),
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CONFIG_DIRS": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "HTTP_PROXY": DEAD_PROXY,
        "HTTPS_PROXY": DEAD_PROXY,
        "ALL_PROXY": DEAD_PROXY,
        "NO_PROXY": "127.0.0.1",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_RETRIES": "0",
        # UV_NO_CONFIG stays unset: with it uv also ignores the indexes that the project itself names.
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_RETRIES": "0",
        "UV_KEYRING_PROVIDER": "disabled",
        "POETRY_VIRTUALENVS_IN_PROJECT": "true",
        "POETRY_KEYRING_ENABLED": "false",
        "POETRY_NO_INTERACTION": "1",
        "POETRY_REQUESTS_MAX_RETRIES": "0",
    }
    return {**env, **(extra or {})}


def run(
    client: Client | str,
    args: Sequence[str],
    *,
    cwd: Path,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    python: Path | None = None,
    interpreters: Iterable[Path] = (),
    timeout: float = RUN_TIMEOUT,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a client on `python`, with `interpreters` on its PATH; a `status` of None takes any exit status."""
    client = CLIENTS[client] if isinstance(client, str) else client
    bin_folder = ensure(client, python)
    command = [str(bin_folder / client.program), *args]
    # An empty home, unless one is given: no cache of an earlier run may answer for a server.
    with tempfile.TemporaryDirectory(prefix="metawheel-home-") as fresh:
        full_env = clean_env(home or Path(fresh), bin_folder, env, interpreters)
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=full_env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ClientFailedError(f"{' '.join(command)} ran past {timeout} s") from error
    if status is not None and done.returncode != status:
        raise ClientFailedError(describe(command, done))
    return done


def describe(command: Sequence[str], done: subprocess.CompletedProcess[str]) -> str:
    """Say what ran, how it ended and the last of what it printed."""
    parts = [f"{' '.join(command)} ended with {done.returncode}"]
    for title, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text.strip():
            parts.append(f"--- {title}\n{text.strip()[-6000:]}")
    return "\n".join(parts)
