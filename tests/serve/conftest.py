"""Fixtures of the server's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.pages import ONLY_LOOPBACK, PageServer
from tests.fakes.pypi import FakePyPI
from tests.serve.sites import write_site


@pytest.fixture(autouse=True)
def _only_loopback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Send whatever leaves loopback to a proxy that is not there; locks and caches stay in the test's folder.

    Clients are cut off on their own; before that they are installed.
    """
    if request.node.get_closest_marker("clients") is None:
        for name, value in ONLY_LOOPBACK.items():
            monkeypatch.delenv(name.upper(), raising=False)
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path / "metawheel-cache"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small site."""
    return write_site(tmp_path / "site")


@pytest.fixture
def pypi() -> Iterator[FakePyPI]:
    """A fallback index, empty."""
    with FakePyPI() as server:
        yield server


@pytest.fixture
def upstream() -> Iterator[PageServer]:
    """An upstream host that can misbehave."""
    with PageServer() as server:
        yield server
