"""Fixtures that the client tests share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.clients.outcome import RUN, recorded
from tests.clients.report import summary
from tests.clients.scenarios import table
from tests.clients.stock import stock
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, WheelSpec


class MakeUpstream(Protocol):
    """Starts an upstream that is stopped when the test ends."""

    def __call__(
        self,
        wheels: Iterable[WheelSpec] = (),
        *,
        metadata: bool = True,
        ranges: bool = True,
        redirects: bool = False,
    ) -> UpstreamServer:
        """Start it with its switches."""
        ...


class ServeSite(Protocol):
    """Starts a web server for a folder that is stopped when the test ends."""

    def __call__(self, folder: Path, *, negotiate: bool = False) -> SiteServer:
        """Start it."""
        ...


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """A stack for servers of one test; whatever enters it is stopped at the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_upstream(servers: ExitStack) -> MakeUpstream:
    """Start loopback upstreams."""

    def make(
        wheels: Iterable[WheelSpec] = (),
        *,
        metadata: bool = True,
        ranges: bool = True,
        redirects: bool = False,
    ) -> UpstreamServer:
        server = UpstreamServer(wheels, metadata=metadata, ranges=ranges, redirects=redirects)
        return servers.enter_context(server)

    return make


@pytest.fixture
def serve_site(servers: ExitStack) -> ServeSite:
    """Serve built sites."""

    def serve(folder: Path, *, negotiate: bool = False) -> SiteServer:
        return servers.enter_context(SiteServer(folder, negotiate=negotiate))

    return serve


@pytest.fixture(scope="session")
def shared_pypi() -> Iterator[FakePyPI]:
    """One stand-in PyPI for the whole run, with all that the wrapped projects require; add nothing to it."""
    with FakePyPI() as server:
        stock(server)
        yield server


@pytest.fixture
def pypi(servers: ExitStack) -> FakePyPI:
    """Start a stand-in PyPI with the same stock that a test may add to."""
    server = servers.enter_context(FakePyPI())
    stock(server)
    return server


def pytest_configure(config: pytest.Config) -> None:
    """Name this run, for its workers too."""
    os.environ.setdefault(RUN, uuid.uuid4().hex)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what this run's scenarios found."""
    run = os.environ.get(RUN)
    lines = summary(table(), {key: record for key, record in recorded().items() if record.run == run})
    if lines:
        terminalreporter.section("clients")
        for line in lines:
            terminalreporter.write_line(line)
