"""Upstream moves on, and an index that a team runs gets exactly what is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.pages import CANONICAL, metawheel, page, torch_links, write_family, write_pages
from tests.servers.conftest import MakeIndex
from tests.servers.running import Index

pytestmark = pytest.mark.clients

OLD = torch_links("2.7.1+cu118", "2.7.1+cu128")
CELL = torch_links("2.7.1+cu128", python="cp312")
NEW = torch_links("2.8.0+cu128", "2.8.0+cu129")


def regenerate(place: Path, index: Index, links: list[str]) -> dict[str, Any]:
    """What `metawheel regenerate` published, with these links upstream."""
    write_pages(place / "up", {"torch": page(links)})
    options: list[str | Path] = ["--packages", place / "packages", "--mirror", f"{CANONICAL}={place / 'up'}"]
    done = metawheel(
        "regenerate",
        "-o",
        place / "site",
        "--json",
        "--repository-url",
        index.url,
        *options,
        cache=place / "cache",
        env=index.env,
    )
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["published"]
    return found


@pytest.mark.parametrize("kind", ["pypiserver sha256", "devpi volatile=False", "devpi"])
def test_an_index_gets_what_is_new_once_and_never_another_content(
    make_index: MakeIndex, tmp_path: Path, kind: str
) -> None:
    index = make_index(kind)
    write_family(tmp_path / "packages")
    first = regenerate(tmp_path, index, OLD)["uploaded"]
    assert {name.split("-")[0] for name in first} == {"torch_cu118", "torch_cu128"}
    posts = index.posts()
    again = regenerate(tmp_path, index, OLD)
    assert (again["uploaded"], set(again["same"]), index.posts()) == ([], set(first), posts)
    with_cell = regenerate(tmp_path, index, [*OLD, *CELL])["uploaded"]
    assert {tuple(name.split("-")[:2]) for name in with_cell} == {("torch_cu128", "2.7.1.post1")}
    release = regenerate(tmp_path, index, [*OLD, *CELL, *NEW])["uploaded"]
    assert {tuple(name.split("-")[:2]) for name in release} == {("torch_cu128", "2.8.0"), ("torch_cu129", "2.8.0")}
    yanked = [f'{link}|data-yanked="broken"' if "cp312" in link else link for link in (*OLD, *CELL, *NEW)]
    last = regenerate(tmp_path, index, yanked)
    assert {tuple(name.split("-")[:2]) for name in last["uploaded"]} == {("torch_cu128", "2.7.1.post2")}
    assert any("2.7.1.post1" in warning and "yank it there too" in warning for warning in last["warnings"])
    end = regenerate(tmp_path, index, yanked)
    assert end["uploaded"] == []
    assert set(end["same"]) == {*first, *with_cell, *release, *last["uploaded"]}
