"""One site for all cases that a real client judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer

WRAPPERS = (
    *("torch-cpu==2.2.2", "torch-cpu==2.3.0", "torch-cpu==2.10.0"),
    *("torch-cu124==2.6.0", "torch-cu128==2.10.0"),
)


@dataclass(frozen=True)
class World:
    """Our site, upstream, and what stands in for PyPI."""

    site: SiteServer
    upstream: UpstreamServer
    pypi: FakePyPI


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A site of a few wrappers, with stand-ins for upstream's wheels and for all that they require; add nothing."""
    with UpstreamServer() as upstream, FakePyPI() as pypi:
        stock(pypi)
        pypi.add("torchmetrics", "1.0", requires=["torch>=2.0"])
        with SiteServer(build_stand_in_site(tmp_path_factory.mktemp("cases"), upstream, WRAPPERS)) as site:
            yield World(site, upstream, pypi)


@pytest.fixture
def pypi() -> Iterator[FakePyPI]:
    """A stand-in PyPI with the same stock that a test may add to."""
    with FakePyPI() as server:
        stock(server)
        yield server
