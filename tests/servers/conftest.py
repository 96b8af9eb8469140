"""Sites and servers that the tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.stock import stock
from tests.fakes.pages import ONLY_LOOPBACK
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer
from tests.servers.running import Devpi, Index, devpi, pypiserver
from tests.servers.sites import Sites, build_direct, build_pinned

MakeIndex = Callable[[str], Index]


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """The sites, and the servers around them; they are only read."""
    folder = tmp_path_factory.mktemp("sites")
    with UpstreamServer(metadata=True) as upstream, FakePyPI() as pypi:
        stock(pypi)
        pinned = build_pinned(folder / "pinned", upstream)
        direct = build_direct(folder / "direct", upstream)
        with SiteServer(folder / "pinned" / "builds") as builds:
            yield Sites(pinned, direct, pypi, upstream, builds)


@pytest.fixture(scope="session")
def shared_devpi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devpi]:
    """One devpi-server; each test makes indexes of its own."""
    with devpi(tmp_path_factory.mktemp("devpi")) as server:
        yield server


@pytest.fixture
def make_index(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeIndex]:
    """Start an empty index of a kind; it is stopped when the test ends."""
    with ExitStack() as stack:

        def make(kind: str) -> Index:
            name, _, how = kind.partition(" ")
            if name == "pypiserver":
                return stack.enter_context(pypiserver(tmp_path / "pypiserver", algorithm=how or "sha256"))
            server: Devpi = request.getfixturevalue("shared_devpi")
            return server.index(volatile=False if how == "volatile=False" else None)

        yield make


@pytest.fixture(autouse=True)
def _only_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine's reaches twine, and nothing leaves loopback."""
    for name in [name for name in os.environ if name.startswith("TWINE_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in ONLY_LOOPBACK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path / "cache"))
