"""The servers a scenario runs against: our site, upstream, and what stands in for PyPI."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.clients.scenarios import Conditions
from tests.clients.standin import Relabel, build_stand_in_site
from tests.clients.stock import stock, stock_plain_builds, stock_third_parties
from tests.fakes.httpd import LoopbackServer, Reply
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SIMPLE_JSON, SiteServer
from tests.fakes.upstream import UpstreamServer

PADDING = 300_000  # bytes in each stand-in: a wheel that is fetched whole shows


@dataclass(frozen=True)
class Traffic:
    """What a client asked our site and upstream for, and what it fetched of the wheels that are wrapped."""

    requests: int
    page_bytes: int
    wheel_bytes: int


class PriorityProxy(LoopbackServer):
    """Two indexes as one: a project's page is that of the first index that has the project."""

    def __init__(self, first: SiteServer, second: Mapping[str, FakePyPI]) -> None:
        """Put an index before others, each under a name of its own."""
        super().__init__()
        self._first, self._second = first, second

    def simple(self, second: str) -> str:
        """The URL of the first index with the one of this name behind it."""
        return f"{self.url}{second}/simple/"

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Send a client on to the page."""
        name, _, rest = path.strip("/").partition("/")
        ours = self._first.answer(f"/{rest}/", headers).status == 200
        chosen = self._first if ours else self._second[name]
        return Reply(status=302, headers={"Location": f"{chosen.url}{rest}/"})


@dataclass(frozen=True)
class World:
    """One site and the servers around it."""

    site: SiteServer
    upstream: UpstreamServer
    pypi: FakePyPI
    strangers: FakePyPI  # PyPI once more, on which somebody has registered the wrappers' names
    proxy: PriorityProxy
    files: SiteServer | None  # what serves the relabelled builds
    names: dict[str, str]  # sha256 → file name of all that can be locked

    def reset(self) -> None:
        """Forget the requests so far."""
        for server in self._servers:
            server.log.reset()

    def traffic(self) -> Traffic:
        """What was asked for since the last reset."""
        own = [server for server in (self.site, self.upstream, self.files) if server is not None]
        heavy = [hit for server in self._servers if server is not self.site for hit in server.log.hits("wheel")]
        wheels = sum(hit.sent for hit in heavy if hit.path.rpartition("/")[2].startswith(("torch", "jax")))
        return Traffic(
            requests=sum(server.log.count() for server in own),
            page_bytes=sum(server.log.bytes("page") + server.log.bytes("metadata") for server in own),
            wheel_bytes=wheels,
        )

    @property
    def _servers(self) -> tuple[UpstreamServer | SiteServer | FakePyPI, ...]:
        some = (self.site, self.upstream, self.pypi, self.strangers)
        return some if self.files is None else (*some, self.files)


Maker = Callable[[Conditions], World]


def make_world(conditions: Conditions, folder: Path, servers: ExitStack) -> World:
    """Start the servers of a world."""
    upstream = servers.enter_context(UpstreamServer(metadata=conditions.metadata, redirects=conditions.redirects))
    pypi, strangers = servers.enter_context(FakePyPI()), servers.enter_context(FakePyPI())
    files = relabel = None
    if conditions.relabel:
        files = servers.enter_context(SiteServer(folder / "relabelled"))
        relabel = Relabel(conditions.relabel, files.root, files.url)
    site = build_stand_in_site(
        folder,
        upstream,
        conditions.wrappers,
        metadata=conditions.metadata,
        hashes=conditions.hashes,
        flavour=conditions.flavour,
        padding=PADDING,
        pypi=pypi,
        relabel=relabel,
    )
    for index in (pypi, strangers):
        stock(index)
        stock_plain_builds(index)
        stock_third_parties(index)
    for name in {wrapper.partition("==")[0] for wrapper in conditions.wrappers}:
        strangers.add(name, "99.0")
    server = servers.enter_context(SiteServer(site))
    proxy = servers.enter_context(PriorityProxy(server, {"pypi": pypi, "strangers": strangers}))
    names = {upstream.sha256(path): path.rpartition("/")[2] for path in upstream.paths()}
    return World(server, upstream, pypi, strangers, proxy, files, {**names, **_names(site, pypi)})


def _names(site: Path, pypi: FakePyPI) -> dict[str, str]:
    pages = [json.loads(path.read_bytes()) for path in site.glob("simple/*/index.json")]
    listed = json.loads(pypi.answer("/simple/", {"accept": SIMPLE_JSON}).body)["projects"]
    for project in listed:
        page = pypi.answer(f"/simple/{project['name']}/", {"accept": SIMPLE_JSON})
        pages.append(json.loads(page.body))
    files = [file for page in pages for file in page["files"]]
    return {file["hashes"]["sha256"]: file["filename"] for file in files if file["hashes"]}
