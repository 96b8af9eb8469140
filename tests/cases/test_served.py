"""Cases about how an index answers: unknown names, slashes, the place of a tree, and the two spellings of a plus."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urljoin

import pytest
from pypi_simple import ProjectPage

from tests.cases.conftest import World
from tests.cases.plain import wheel_of
from tests.clients import envs
from tests.fakes.httpd import NOT_FOUND, Reply
from tests.fakes.ledgers import TORCH, UPSTREAM, build_site, torch_files, write_family
from tests.fakes.site import SiteServer


def get(url: str) -> tuple[int, bytes]:
    """Fetch a URL past any proxy that the machine has set; a redirect is followed."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site as a folder."""
    folder = tmp_path_factory.mktemp("served")
    write_family(folder / "packages" / "torch", TORCH, torch_files())
    build_site(folder / "packages", folder / "site")
    return folder / "site"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name is the base class's
        """Keep the output quiet."""


@pytest.fixture(scope="module", params=["ours", "http.server"])
def base(request: pytest.FixtureRequest, tree: Path) -> Iterator[str]:
    """The site's address on our loopback server, and on the one that the README names."""
    if request.param == "ours":
        with SiteServer(tree) as server:
            yield server.url
        return
    plain = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tree)))
    thread = Thread(target=plain.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{plain.server_address[1]}/"
    plain.shutdown()
    plain.server_close()
    thread.join()


# Case I05, https://github.com/pytorch/pytorch/issues/81900
@pytest.mark.parametrize("index", ["simple", "cu116/simple"])
@pytest.mark.parametrize("name", ["typing-extensions", "torchmetrics", "cmake"])
def test_a_name_that_the_index_does_not_have_is_a_404(base: str, index: str, name: str) -> None:
    for end in ("", "/"):
        assert get(f"{base}{index}/{name}{end}")[0] == 404


# Case I06, https://github.com/pytorch/pytorch/issues/63098
@pytest.mark.parametrize("path", ["simple", "simple/torch-cu116", "simple/torch", "cu116/simple", "cu116/simple/torch"])
def test_an_address_works_with_and_without_the_slash_at_its_end(base: str, path: str) -> None:
    with_slash, without = get(f"{base}{path}/"), get(f"{base}{path}")
    assert with_slash == without
    assert with_slash[0] == 200


@pytest.mark.clients
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("client", ["pip", "uv"])
def test_clients_take_an_index_with_and_without_slash(world: World, tmp_path: Path, client: str, slash: str) -> None:
    index = world.site.simple.rstrip("/") + slash
    if client == "pip":
        arguments = ["download", "torch-cpu==2.10.0", "--no-deps", "--index-url", index, "--only-binary=:all:"]
        envs.run("pip", [*arguments, "--python-version", "3.11", "--platform", "macosx_14_0_arm64"], cwd=tmp_path)
        assert [path.name[:9] for path in tmp_path.glob("*.whl")] == ["torch_cpu"]
        return
    (tmp_path / "requirements.in").write_text("torch-cpu==2.10.0\n", encoding="utf-8")
    arguments = ["pip", "compile", "requirements.in", "--universal", "--no-deps", "--default-index", index]
    done = envs.run("uv", [*arguments, "--python", sys.executable], cwd=tmp_path)
    assert "torch-cpu==2.10.0" in done.stdout


class _Below(SiteServer):
    """A site that is served below some path, as behind a repository manager."""

    below = "/repository/metawheel/"

    def answer(self, path: str, headers: dict[str, str], /) -> Reply:  # type: ignore[override]
        """Find what lies below the path, and nothing beside it."""
        if not path.startswith(self.below):
            return NOT_FOUND
        reply = super().answer(path.removeprefix(self.below.rstrip("/")), headers)
        if "Location" in reply.headers:
            return Reply(status=301, headers={"Location": self.below.rstrip("/") + reply.headers["Location"]})
        return reply


# Case X05, https://github.com/sonatype/nexus-public/issues/820: the proxy is told BASE or BASE/cu130 and asks
# …/simple/NAME/ below it; others are told …/simple/ and ask NAME/.
@pytest.mark.parametrize("remote", ["", "cu116/"])
def test_the_tree_works_below_any_path_and_each_view_is_a_tree_of_its_own(tree: Path, remote: str) -> None:
    with _Below(tree) as server:
        base = urljoin(server.url, server.below.lstrip("/")) + remote
        index = urljoin(base, "simple/")
        assert get(index)[0] == 200
        assert get(urljoin(index, "cmake"))[0] == 404
        page = urljoin(index, "torch-cu116/")
        status, body = get(page)
        assert status == 200
        found = ProjectPage.from_html("torch-cu116", body.decode(), page).packages
        assert found
        for item in found:
            assert item.url.startswith(urljoin(server.url, server.below.lstrip("/")))
            assert (get(item.url)[0], get(f"{item.url}.metadata")[0]) == (200, 200)


# Case X06, https://github.com/getnora-io/nora/issues/664
def test_a_plus_is_escaped_in_every_link_and_both_spellings_are_served(tree: Path, tmp_path: Path) -> None:
    for page in tree.glob("**/index.*"):
        text = page.read_text(encoding="utf-8")
        assert f"{UPSTREAM}cu116/torch-1.13.1+" not in text
    assert f"{UPSTREAM}cu116/torch-1.13.1%2Bcu116-" in (tree / "simple/torch/index.html").read_text(encoding="utf-8")
    name = "torch-1.13.1+cpu-cp310-none-macosx_11_0_arm64.whl"
    (tmp_path / name).write_bytes(wheel_of(name))
    plain = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    thread = Thread(target=plain.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        for spelling in (name, name.replace("+", "%2B"), name.replace("+", "%2b")):
            assert get(f"http://127.0.0.1:{plain.server_address[1]}/{spelling}") == (200, wheel_of(name))
    finally:
        plain.shutdown()
        plain.server_close()
        thread.join()
