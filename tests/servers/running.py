"""Real servers that take uploads, each in an environment of its own, on a free port, stopped by its own process."""

from __future__ import annotations

import base64
import json
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients import envs
from tests.clients.envs import Client

START = 60  # seconds until a server that does not answer is given up
USER = "publisher"

PYPISERVER = Client("pypiserver", "pypi-server", ("pypiserver[passlib]>=2.4,<3", "setuptools<81"))
_DEVPI = ("devpi-server>=6.20,<7", "setuptools<81")  # it still imports pkg_resources
DEVPI_INIT, DEVPI = (Client("devpi", program, _DEVPI) for program in ("devpi-init", "devpi-server"))


@dataclass
class Process:
    """A server's process, which can be killed and started again."""

    client: Client
    arguments: Sequence[str]
    folder: Path
    url: str
    running: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the server wrote."""
        return self.folder / "log"

    def start(self) -> None:
        """Start it, and return once it answers."""
        bin_folder = envs.ensure(self.client)
        command = [str(bin_folder / self.client.program), *self.arguments]
        env = envs.clean_env(self.folder, bin_folder)
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + START
        while True:
            try:
                ask(self.url)
                return
            except (urllib.error.URLError, ConnectionError):
                if self.running.poll() is not None or time.monotonic() > until:
                    pytest.fail(f"{self.client.name} did not start:\n{self.log.read_text(encoding='utf-8')[-3000:]}")
                time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running = None

    def stop(self) -> None:
        """End it, and make sure."""
        if self.running is not None:
            self.running.terminate()
            try:
                self.running.wait(START)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass(frozen=True)
class Index:
    """An index that takes uploads."""

    process: Process
    url: str  # what is uploaded to
    simple: str
    user: str
    password: str = field(repr=False)

    @property
    def env(self) -> dict[str, str]:
        """What twine reads of the environment."""
        return {"TWINE_USERNAME": self.user, "TWINE_PASSWORD": self.password}

    def posts(self) -> int:
        """How many uploads the server's log shows."""
        return self.process.log.read_text(encoding="utf-8").count("POST")


def ask(url: str, data: object = None, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> bytes:
    """Send a request past any proxy that the machine has set."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = None if data is None else json.dumps(data).encode()
    said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
    with opener.open(urllib.request.Request(url, body, said, method=method)) as reply:
        content: bytes = reply.read()
    return content


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def pypiserver(folder: Path, *, algorithm: str = "sha256") -> Iterator[Index]:
    """Run a pypiserver with a password file; its packages lie in `folder`/packages."""
    password = secrets.token_hex(8)
    (folder / "packages").mkdir(parents=True)
    code = "import sys; from passlib.apache import HtpasswdFile as File; file = File(sys.argv[1], new=True)\n"
    code += "file.set_password(*sys.argv[2:]); file.save()"
    python = envs.ensure(PYPISERVER) / "python"
    subprocess.run([str(python), "-c", code, str(folder / "passwords"), USER, password], check=True)
    url = f"http://127.0.0.1:{(port := free_port())}/"
    # Every action asks for the password; what it has not it refers to PyPI for, as by default.
    arguments = ["run", "-vv", "-i", "127.0.0.1", "-p", str(port), "-P", "passwords", "-a", "update,download,list"]
    arguments += ["--hash-algo", algorithm, "packages"]
    process = Process(PYPISERVER, arguments, folder, url)
    process.start()
    try:
        yield Index(process, url, f"{url}simple/", USER, password)
    finally:
        process.stop()


class Devpi:
    """A devpi-server, and the indexes that are made on it."""

    def __init__(self, process: Process, password: str) -> None:
        self.process = process
        self._password = password
        self._made = 0

    def index(self, *, volatile: bool | None = None) -> Index:
        """Make a new index; None: as devpi makes one by default."""
        login = json.loads(self._ask("+login", {"user": "root", "password": self._password}, "POST"))
        token = base64.b64encode(f"root:{login['result']['password']}".encode()).decode()
        self._made += 1
        name = f"root/index{self._made}"
        facts = {"type": "stage"} if volatile is None else {"type": "stage", "volatile": volatile}
        self._ask(name, facts, "PUT", {"X-Devpi-Auth": token})
        url = f"{self.process.url}{name}/"
        return Index(self.process, url, f"{url}+simple/", "root", self._password)

    def _ask(self, path: str, data: object, method: str, headers: Mapping[str, str] | None = None) -> bytes:
        return ask(f"{self.process.url}{path}", data, method=method, headers=headers)


@contextmanager
def devpi(folder: Path) -> Iterator[Devpi]:
    """Run a fresh devpi-server."""
    folder.mkdir(parents=True, exist_ok=True)
    password = secrets.token_hex(8)
    data = ["--serverdir", str(folder / "data")]
    envs.run(DEVPI_INIT, [*data, "--no-root-pypi", "--root-passwd", password], cwd=folder)
    url = f"http://127.0.0.1:{(port := free_port())}/"
    process = Process(DEVPI, [*data, "--host", "127.0.0.1", "--port", str(port)], folder, url)
    process.start()
    try:
        yield Devpi(process, password)
    finally:
        process.stop()
