"""The servers that are compared: ours, the bare server that it runs on, and other people's package indexes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import BenchError
from tests.clients.envs import Client
from tests.fakes.pages import only_loopback
from tests.fakes.site import SiteServer
from tests.serve.running import command
from tests.servers.running import DEVPI, Process, ask, devpi, free_port

START = 60  # seconds until a server that does not answer is given up
# With what its manual recommends: a file watcher, and the server that it then prefers to the standard library's.
PYPISERVER = Client("pypiserver-cached", "pypi-server", ("pypiserver[cache]>=2.4,<3", "setuptools<81", "waitress"))
UVICORN = """
import sys, uvicorn
from pathlib import Path
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
given = Path(sys.argv[2])
static = given.is_dir()
app = StaticFiles(directory=given, html=True) if static else Response(given.read_bytes(), media_type="application/json")
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running server: the page that is asked for, and its process."""

    page: str
    pid: int


Start = Callable[[Path, Path, str], AbstractContextManager[Running]]  # of (a folder, the site, the project)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server to compare with, and the program that it needs."""

    name: str
    start: Start
    program: Client | None = None


@contextmanager
def ours(folder: Path, site: Path, project: str, *options: str) -> Iterator[Running]:
    """Our server, as the command line starts it."""
    with command(site, folder, *(options or ("--fallback", "none"))) as server:
        yield Running(page=f"{server.url}simple/{project}/", pid=server.process.pid)


@contextmanager
def static(_folder: Path, site: Path, project: str) -> Iterator[Running]:
    """A bare uvicorn with the site's files."""
    with _uvicorn(site) as server:
        yield Running(page=f"{server.page}simple/{project}/", pid=server.pid)


def ready(_folder: Path, site: Path, project: str) -> AbstractContextManager[Running]:
    """A bare uvicorn that has one answer."""
    return _uvicorn(site / "simple" / project / "index.json")


@contextmanager
def _uvicorn(given: Path) -> Iterator[Running]:
    url = f"http://127.0.0.1:{(port := free_port())}/"
    with subprocess.Popen([sys.executable, "-c", UVICORN, str(port), str(given)]) as process:
        try:
            until = time.monotonic() + START
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > until:
                    raise BenchError("uvicorn did not start")
                time.sleep(0.1)
            yield Running(page=url, pid=process.pid)
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        ask(url)
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


@contextmanager
def pypiserver(folder: Path, site: Path, project: str) -> Iterator[Running]:
    """A pypiserver over the folder of our wheels."""
    url = f"http://127.0.0.1:{(port := free_port())}/"
    arguments = ["run", "-i", "127.0.0.1", "-p", str(port), "--disable-fallback", str(site / "files")]
    with _process(Process(PYPISERVER, arguments, folder, url)) as pid:
        yield Running(page=f"{url}simple/{project}/", pid=pid)


@contextmanager
def uploaded(folder: Path, site: Path, project: str) -> Iterator[Running]:
    """A devpi that a project's wheels were uploaded to."""
    with devpi(folder) as server:
        index = server.index()
        wheels = (site / "files").glob(f"{project.replace('-', '_')}-*.whl")
        upload = [sys.executable, "-m", "twine", "upload", "--repository-url", index.url, *map(str, wheels)]
        subprocess.run(upload, check=True, capture_output=True, env=only_loopback(os.environ) | index.env)
        yield Running(page=f"{index.simple}{project}/", pid=_pid(server.process))


@contextmanager
def mirror(folder: Path, site: Path, project: str) -> Iterator[Running]:
    """A devpi that mirrors our site."""
    with SiteServer(site) as origin, devpi(folder) as server:
        index, url = server.index(), server.process.url
        login = json.loads(ask(f"{url}+login", {"user": index.user, "password": index.password}, method="POST"))
        token = base64.b64encode(f"{index.user}:{login['result']['password']}".encode()).decode()
        facts = {"type": "mirror", "mirror_url": origin.simple, "volatile": False}
        ask(f"{url}root/mirror", facts, method="PUT", headers={"X-Devpi-Auth": token})
        yield Running(page=f"{url}root/mirror/+simple/{project}/", pid=_pid(server.process))


@contextmanager
def _process(process: Process) -> Iterator[int]:
    process.start()
    try:
        yield _pid(process)
    finally:
        process.stop()


def _pid(process: Process) -> int:
    assert process.running is not None  # noqa: S101  it has been started
    return process.running.pid


BARE = (
    Contender(name="uvicorn, one answer in memory", start=ready),
    Contender(name="uvicorn, files", start=static),
)
OF_WHEELS = (
    Contender(name="pypiserver", start=pypiserver, program=PYPISERVER),
    Contender(name="devpi", start=uploaded, program=DEVPI),
)
OF_PAGES = (Contender(name="devpi, a mirror of the site", start=mirror, program=DEVPI),)
