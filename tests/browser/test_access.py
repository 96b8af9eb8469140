"""The pages are for everyone: no serious fault, in light and dark, on a phone and a laptop."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.axe import faults
from tests.browser.chromium import SIZES, Browser
from tests.browser.conftest import World

pytestmark = pytest.mark.clients

PAGES = {"front": "index.html", "wrapper": "wrappers/torch-cu116.html", "matrix": "matrix.html"}


def keep(browser: Browser, name: str) -> None:
    """Keep a picture where METAWHEEL_SHOTS says, for people to look at."""
    if folder := os.environ.get("METAWHEEL_SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png")


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_serious_fault(browser: Browser, world: World, page: str, scheme: str, width: int) -> None:
    browser.look(width=width, scheme=scheme)
    browser.open(f"{world.site.url}{PAGES[page]}", picker=page == "front")
    keep(browser, f"{page}-{width}-{scheme}")
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert faults(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_where_nothing_is_covered(browser: Browser, world: World, scheme: str) -> None:
    browser.look(scheme=scheme)
    address = f"{world.site.url}index.html#wrapper=torch-cu116&python=cp313&platform=linux+x86_64"
    browser.open(address, picker=True)
    assert "has no version" in browser.state()
    assert faults(browser) == []


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_serious_fault_without_scripts_of_ours(browser: Browser, world: World, page: str) -> None:
    browser.tell("Network.enable")
    browser.tell("Network.setBlockedURLs", urls=["*people.js"])
    browser.open(f"{world.site.url}{PAGES[page]}")
    assert not browser.shown("#picker")
    assert faults(browser) == []
    browser.tell("Network.setBlockedURLs", urls=[])
    browser.complaints()  # that the script was blocked


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_scrolls_down_only(browser: Browser, world: World, page: str) -> None:
    browser.look(width=360)
    browser.open(f"{world.site.url}{PAGES[page]}", picker=page == "front")
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.run("return document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("page", PAGES)
def test_dark_is_dark_and_light_is_light(browser: Browser, world: World, page: str) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        browser.look(scheme=scheme)
        browser.open(f"{world.site.url}{PAGES[page]}")
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    assert brightness["dark"] < 128
    assert brightness["light"] > 600
