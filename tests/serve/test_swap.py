"""A site that is replaced underneath is found again, and every answer is of one state."""

from __future__ import annotations

import itertools
import shutil
import threading
from pathlib import Path

import pytest

from metawheel.serve import site as site_module
from metawheel.site import MANIFEST
from tests.serve.running import Client, serving
from tests.serve.sites import WRAPPERS, write_site

NEW = (*WRAPPERS, "torch_cpu-2.10.0-py3-none-any.whl", "torch_xpu-2.10.0-py3-none-any.whl")


def test_a_new_state_is_served_from_the_next_request_on(site: Path) -> None:
    with serving(site) as client:
        old = client.page("/simple/torch-cpu/")
        assert client.page("/simple/torch-xpu/").status_code == 404
        write_site(site, wrappers=NEW)
        assert "torch_cpu-2.10.0-py3-none-any.whl" in client.listing("/simple/torch-cpu/")
        assert client.listing("/simple/torch-xpu/")
        assert client.get("/files/torch_xpu-2.10.0-py3-none-any.whl").status_code == 200
        changed = client.get("/simple/torch-cpu/", headers={"If-None-Match": old.headers["etag"]})
        assert changed.status_code == 200
        write_site(site)
        assert client.get("/files/torch_xpu-2.10.0-py3-none-any.whl").status_code == 404
        assert client.page("/simple/torch-cpu/").content == old.content


def test_each_answer_is_of_one_state_while_builds_follow_one_another(site: Path) -> None:
    states = {name: write_site(site.with_name(name), wrappers=found) for name, found in (("a", WRAPPERS), ("b", NEW))}
    pages = {(folder / "simple" / "torch-cpu" / "index.html").read_bytes() for folder in states.values()}
    stop = threading.Event()
    seen: set[bytes] = set()

    def read(client: Client) -> None:
        while not stop.is_set():
            answer = client.page("/simple/torch-cpu/", "text/html")
            assert answer.status_code == 200
            seen.add(answer.content)

    with serving(site) as client:
        reader = threading.Thread(target=read, args=[client])
        reader.start()
        for wrappers in itertools.islice(itertools.cycle((NEW, WRAPPERS)), 30):
            write_site(site, wrappers=wrappers)
        stop.set()
        reader.join()
    assert seen <= pages
    assert len(seen) == 2


def test_the_last_state_is_served_while_the_new_one_cannot_be_read(site: Path) -> None:
    with serving(site) as client:
        page = client.page("/simple/torch-cpu/").content
        manifest = (site / MANIFEST).read_bytes()
        (site / MANIFEST).write_bytes(manifest[:50])
        assert client.page("/simple/torch-cpu/").content == page
        health = client.get("/-/health")
        assert (health.status_code, health.json()["status"]) == (200, "stale")
        assert client.metric("metawheel_site_stale") == 1
        shutil.rmtree(site)
        assert client.page("/simple/torch-cpu/").content == page
        write_site(site, wrappers=NEW)
        while client.get("/-/health").json()["status"] == "stale":
            pass
        assert client.listing("/simple/torch-xpu/")


def test_what_was_damaged_is_served_again_once_it_is_put_right(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "REPAIR", 0.0)
    page = site / "simple" / "torch-cpu" / "index.json"
    content = page.read_bytes()
    page.write_bytes(content[:50])
    with serving(site) as client:
        assert client.page("/simple/torch-cpu/").status_code == 500
        page.write_bytes(content)
        assert client.page("/simple/torch-cpu/").content == content
        assert client.get("/-/health").json()["broken"] == 0


def test_a_site_that_stays_damaged_is_not_read_again_and_again(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "REPAIR", 0.0)
    (site / "simple" / "torch-cpu" / "index.json").unlink()
    with serving(site) as client:
        monkeypatch.delattr(site_module, "load")
        found = [client.page(f"/simple/{name}/").status_code for name in ("torch-cpu", "torch", "torch-cpu")]
    assert found == [500, 200, 500]


def test_a_site_behind_a_link_is_followed_when_the_link_turns(site: Path) -> None:
    link = site.with_name("current")
    link.symlink_to(site)
    with serving(link) as client:
        assert client.page("/simple/torch-xpu/").status_code == 404
        other = write_site(site.with_name("other"), wrappers=NEW)
        link.unlink()
        link.symlink_to(other)
        assert client.listing("/simple/torch-xpu/")
