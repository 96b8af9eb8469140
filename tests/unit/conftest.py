"""What the unit tests share: nothing beyond loopback is reached, unless a test is marked for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.here import Here, here_in
from tests.fakes.pages import ONLY_LOOPBACK, PageServer


@pytest.fixture(autouse=True)
def _only_loopback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send whatever leaves loopback to a proxy that is not there."""
    if request.node.get_closest_marker("network") is None:
        for name, value in ONLY_LOOPBACK.items():
            monkeypatch.delenv(name.upper(), raising=False)
            monkeypatch.setenv(name, value)
    yield
    # CacheControl leaves its temporary file of a response that broke off to the garbage collector.
    gc.collect()


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes without coverage, which loads modules and writes files of its own."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A loopback server for upstream's pages."""
    with PageServer() as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """A folder of families, an upstream beside it, and the command line in this process."""
    return here_in(tmp_path, monkeypatch, capsys)
