"""The server under test: in this process, or as the command line starts it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import uvicorn

from metawheel.serve.app import Settings
from metawheel.serve.server import configure, listen
from tests.fakes.pages import command_env, start

JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"


class Client(httpx.Client):
    """A client that follows nothing, and is at the server's root."""

    def page(self, path: str, accept: str = JSON) -> httpx.Response:
        return self.get(path, headers={"Accept": accept})

    def listing(self, path: str) -> dict[str, Any]:
        """A project page's files by name."""
        answer = self.page(path)
        assert answer.status_code == 200, answer.text
        return {file["filename"]: file for file in answer.json()["files"]}

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, 0 where nothing was counted."""
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        start = f"{name}{{{wanted}}} " if wanted else f"{name} "
        lines = self.get("/-/metrics").text.splitlines()
        return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)


@contextmanager
def serving(site: Path, *, grace: int = 5, **settings: Any) -> Iterator[Client]:
    """Serve from a thread of this process."""
    with listen("127.0.0.1", 0) as bound:
        server = uvicorn.Server(configure(Settings(site=site, **settings), grace=grace))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            host, port = bound.getsockname()
            with Client(base_url=f"http://{host}:{port}", timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@dataclass(frozen=True)
class Command:
    """A running `metawheel serve`."""

    process: Popen[str]
    said: Mapping[str, Any]

    @property
    def index(self) -> str:
        return str(self.said["index"])

    @property
    def url(self) -> str:
        return str(self.said["url"])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def command(site: Path, cache: Path, *options: str) -> Iterator[Command]:
    """Start the real command line on a free port; killed at the end if it still runs."""
    process = start(["serve", str(site), "--port", "0", "--json", *options], command_env(cache) | dict(os.environ))
    assert process.stdout is not None
    with process:
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            if not line:
                _, err = process.communicate(timeout=60)
                raise AssertionError(err)
            text += line
        try:
            yield Command(process, json.loads(text))
        finally:
            process.kill()
            process.communicate()
