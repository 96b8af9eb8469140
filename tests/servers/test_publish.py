"""What a team runs: published from empty, again, against other bytes, with a wrong password, broken off."""

from __future__ import annotations

import base64
import json
import platform
import secrets
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pypi_simple import ProjectPage

from metawheel.publish.login import Destination
from metawheel.publish.upload import UploadError, publish
from tests.clients import envs
from tests.fakes.pages import Ran, metawheel
from tests.servers.conftest import MakeIndex
from tests.servers.running import Devpi, Index, ask, devpi, pypiserver
from tests.servers.sites import Sites, with_other_bytes

pytestmark = pytest.mark.clients

KINDS = ["pypiserver sha256", "pypiserver md5", "devpi", "devpi volatile=False"]


def command(site: Path, index: Index, *arguments: str) -> Ran:
    """Run `metawheel publish`; no password is in what it prints."""
    env = index.env
    options = ["--repository-url", index.url, "--no-record", *arguments]
    done = metawheel("publish", site, *options, cache=site.parent / "cache", env=env)
    assert env["TWINE_PASSWORD"] not in done.out + done.err
    return done


def wheels_of(site: Path) -> set[str]:
    return {path.name for path in (site / "files").glob("*.whl")}


def listed(index: Index) -> dict[str, str | None]:
    """The wheels that the index's own pages list, with the sha256 where they say it."""
    found: dict[str, str | None] = {}
    for project in ("torch-cpu", "torch-cu128", "torch-cuda"):
        url = f"{index.simple}{project}/"
        headers = {"Accept": "text/html", "Authorization": basic(index)}
        for package in ProjectPage.from_html(project, ask(url, headers=headers).decode(), url).packages:
            found[package.filename] = package.digests.get("sha256")
    return found


def basic(index: Index) -> str:
    return f"Basic {base64.b64encode(f'{index.user}:{index.password}'.encode()).decode()}"


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
@pytest.mark.parametrize("kind", KINDS)
def test_from_empty_everything_is_uploaded_and_pip_installs_it(
    sites: Sites, make_index: MakeIndex, tmp_path: Path, kind: str, flavour: str
) -> None:
    index, site = make_index(kind), sites.site(flavour)
    before = index.posts()
    first = json.loads(command(site, index, "--json").out)
    assert set(first["uploaded"]) == wheels_of(site) == set(listed(index))
    assert first["server"] == kind.split(maxsplit=1)[0]
    posts = index.posts()
    assert posts > before
    second = json.loads(command(site, index, "--json").out)
    assert (second["uploaded"], second["same"]) == ([], first["uploaded"])
    assert index.posts() == posts
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("pip installs for the platform that runs the test, and Linux on x86-64 is what is judged")
    builds = ["--extra-index-url", sites.builds.simple] if flavour == "pinned" else []
    address = index.simple.replace("://", f"://{index.user}:{index.password}@")
    options = ["--index-url", address, *builds, "--extra-index-url", sites.pypi.simple, "--only-binary=:all:"]
    envs.run("pip", ["install", "--target", str(tmp_path / "installed"), *options, "torch-cpu"], cwd=tmp_path)
    installed = {path.name for path in (tmp_path / "installed").glob("torch*.dist-info")}
    assert installed == {"torch_cpu-2.9.1.dist-info", "torch-2.9.1+cpu.dist-info"}


@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_stop_it_before_anything_is_uploaded(
    sites: Sites, make_index: MakeIndex, tmp_path: Path, kind: str
) -> None:
    index = make_index(kind)
    assert command(sites.direct, index).code == 0
    posts, pages = index.posts(), listed(index)
    name = with_other_bytes(sites.direct, tmp_path / "site")
    done = command(tmp_path / "site", index)
    assert done.code == 12
    assert f"{name}: the index has other bytes" in done.err
    assert "nothing was uploaded" in done.err
    assert (index.posts(), listed(index)) == (posts, pages)


def test_a_volatile_index_is_told_of(sites: Sites, make_index: MakeIndex) -> None:
    fixed, volatile = make_index("devpi volatile=False"), make_index("devpi")
    assert "volatile=False" in command(sites.direct, volatile, "--dry-run").err
    assert command(sites.direct, fixed, "--dry-run").err == ""


@pytest.mark.parametrize("kind", ["pypiserver", "devpi volatile=False"])
def test_a_wrong_password_is_told_in_a_sentence(sites: Sites, make_index: MakeIndex, kind: str) -> None:
    index = make_index(kind)
    done = command(sites.direct, replace(index, password=secrets.token_hex(8)))
    assert done.code == 12
    assert "TWINE_PASSWORD" in done.err
    assert len(done.err.splitlines()) == 1
    address = index.url.replace("://", f"://{index.user}:in-the-url@")
    done = metawheel(
        "publish", sites.direct, "--repository-url", address, "--no-record", cache=sites.direct.parent / "cache"
    )
    assert done.code == 12
    assert "in-the-url" not in done.out + done.err


@pytest.mark.parametrize("kind", ["pypiserver", "devpi"])
def test_a_server_that_dies_in_the_middle_is_completed_by_the_next_run(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with pypiserver(tmp_path / "a") if kind == "pypiserver" else devpi(tmp_path / "b") as server:
        index = server.index(volatile=False) if isinstance(server, Devpi) else server
        for key, value in index.env.items():
            monkeypatch.setenv(key, value)
        done: list[str] = []

        def dies(name: str) -> None:
            done.append(name)
            if len(done) == 2:
                index.process.kill()

        with pytest.raises(UploadError, match="2 of ") as caught:
            publish(sites.direct, Destination(repository_url=index.url), uploaded=dies)
        assert list(caught.value.published.uploaded) == done
        assert str(caught.value).startswith(f"{caught.value.published.missing[0]}: {index.url} no complete answer")
        index.process.start()
        second = publish(sites.direct, Destination(repository_url=index.url))
        assert list(second.same) == done
        assert {*second.same, *second.uploaded} == wheels_of(sites.direct) == set(listed(index))


def test_an_sdist_that_somebody_uploaded_stops_it(sites: Sites, make_index: MakeIndex) -> None:
    index = make_index("pypiserver")
    (index.process.folder / "packages" / "torch_cpu-2.9.1.tar.gz").write_bytes(b"strange")
    done = command(sites.direct, index)
    assert done.code == 12
    assert "torch_cpu-2.9.1.tar.gz: is on the index" in done.err
    assert index.posts() == 0
