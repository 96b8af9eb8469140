"""`metawheel publish` on the command line: what it warns of, and where it does not publish to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from metawheel.cli.publish import PINNED
from metawheel.inputs import Options
from tests.fakes.here import Here
from tests.fakes.index import FakeIndex
from tests.fakes.ledgers import TORCH, build_site, torch_files, write_family
from tests.fakes.pages import Ran, state

Publish = Callable[..., Ran]


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    with FakeIndex() as running:
        yield running


@pytest.fixture
def publish(here: Here, index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Build a site of a flavour and publish it to an index that takes uploads."""
    monkeypatch.setenv("TWINE_USERNAME", "publisher")
    monkeypatch.setenv("TWINE_PASSWORD", "secret")
    write_family(here.packages / "torch", TORCH, torch_files())

    def call(flavour: str, *arguments: str) -> Ran:
        build_site(here.packages, here.site, Options(flavour=flavour, offline=True))
        urls = ["--repository-url", index.url, "--index-url", index.simple]
        return here.run(["publish", str(here.site), "--packages", str(here.packages), *urls, *arguments])

    return call


def test_uploading_pinned_wrappers_is_warned_of_for_the_index_may_lack_what_they_pin(publish: Publish) -> None:
    told = f"metawheel: warning: {PINNED}\n"
    for arguments in (["--dry-run"], []):
        ran = publish("pinned", *arguments)
        assert (ran.code, ran.err) == (0, told)
    again = publish("pinned", "--json")
    assert (again.code, again.err, json.loads(again.out)["warnings"]) == (0, "", [])


def test_programs_are_told_the_warning_too(publish: Publish) -> None:
    assert json.loads(publish("pinned", "--json", "--dry-run").out)["warnings"] == [PINNED]


def test_uploading_direct_wrappers_is_not_warned_of(publish: Publish) -> None:
    ran = publish("direct")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("command", ["publish", "regenerate"])
def test_a_site_is_not_published_to_its_own_folder_nor_recorded_as_published(here: Here, command: str) -> None:
    write_family(here.packages / "torch", TORCH, torch_files())
    build_site(here.packages, here.site)
    before = state(here.packages.parent)
    folder = str(here.site / ".." / here.site.name)
    arguments = [str(here.site)] if command == "publish" else ["-o", str(here.site)]
    ran = here.run([command, *arguments, "--to-folder", folder, "--packages", str(here.packages)])
    assert ran.code == 2
    assert "is the site itself" in ran.err
    assert state(here.packages.parent) == before


@pytest.mark.parametrize("command", ["publish", "regenerate"])
def test_an_index_url_that_is_none_is_refused_before_anything_is_done(here: Here, command: str) -> None:
    arguments = [str(here.site)] if command == "publish" else ["-o", str(here.site)]
    ran = here.run([command, *arguments, "--repository-url", "http://127.0.0.1:9/", "--index-url", "simple"])
    assert (ran.code, here.site.exists()) == (2, False)
    assert "--index-url" in ran.err
