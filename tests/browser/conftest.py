"""A site of stand-ins, a stand-in PyPI on which a stranger has the wrappers' names, and a browser."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from metawheel.people.pages import POLICY
from tests.browser.chromium import Browser, chromium
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock, stock_plain_builds
from tests.fakes.httpd import Reply
from tests.fakes.pages import ONLY_LOOPBACK
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer

WRAPPERS = (
    "torch-cpu==2.9.1",
    "torch-cpu==1.13.1",
    "torch-cu116==1.13.1",
    "torch-cu128==2.10.0",
    "jaxlib-cuda12==0.5.3",
)
STRANGERS = ("torch-cpu", "torch-cu128", "torch-cuda", "jaxlib-cuda12")
# A folder whose name would run a command, were it pasted into a shell as it is.
TRAP = "$(touch trapped);'`touch trapped`"


class PeopleServer(SiteServer):
    """A web server that sends the policy as a header too, and has the site once more in a folder with an evil name."""

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Read the file at a path."""
        reply = super().answer(path.removeprefix(f"/{TRAP}"), headers)
        guessed, _ = mimetypes.guess_type(path)
        known = guessed if guessed and path.startswith("/static/") else reply.content_type
        return replace(reply, content_type=known, headers={**reply.headers, "Content-Security-Policy": POLICY})


@dataclass(frozen=True)
class World:
    """A site and its stand-in for PyPI."""

    site: SiteServer
    pypi: FakePyPI


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, UpstreamServer(metadata=True) as upstream, FakePyPI() as pypi:
        for name, value in ONLY_LOOPBACK.items():
            patch.setenv(name, value)
        stock(pypi)
        stock_plain_builds(pypi)
        site = build_stand_in_site(tmp_path_factory.mktemp("people"), upstream, WRAPPERS, pypi=pypi)
        for name in STRANGERS:
            pypi.add(name, "99.0")
        with PeopleServer(site) as server:
            yield World(server, pypi)


@pytest.fixture(scope="session")
def _running() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(_running: Browser) -> Iterator[Browser]:
    """A browser at a laptop's width; whatever its console complains of fails the test."""
    _running.look()
    _running.complaints()
    yield _running
    assert _running.complaints() == []
