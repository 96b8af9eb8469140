"""Debian's Chromium without a window, and what the tests ask of it."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.clients.envs import DEAD_PROXY

WAIT = 30  # seconds until a page that shows nothing is given up
SIZES = {360: 740, 1280: 800}  # a phone's and a laptop's width and height, in CSS pixels


class Browser:
    """One window; every page is opened afresh."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def look(self, *, width: int = 1280, scheme: str = "light", scripts: bool = True) -> None:
        """Choose the window's width, the colour scheme that it prefers, and whether it runs scripts."""
        screen = {"width": width, "height": SIZES[width], "deviceScaleFactor": 1, "mobile": width < 500}
        self.tell("Emulation.setDeviceMetricsOverride", **screen)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.tell("Emulation.setScriptExecutionDisabled", value=not scripts)

    def tell(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, url: str, *, picker: bool = False) -> None:
        """Open a page; with `picker`, wait until that is there."""
        self.driver.get("about:blank")  # else an address that differs in its fragment only is no new page
        self.driver.get(url)
        if picker:
            WebDriverWait(self.driver, WAIT).until(lambda _: self.find("#picker").is_displayed())

    def find(self, selector: str) -> WebElement:
        (found,) = self.all(selector)
        return found

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def shown(self, selector: str) -> list[WebElement]:
        return [element for element in self.all(selector) if element.is_displayed()]

    def pick(self, **choices: str) -> None:
        """Click options of the picker, by field and value."""
        for name, value in choices.items():
            self.find(f'#picker input[name="{name}"][value="{value}"]').click()

    def steps(self) -> list[str]:
        """The texts to paste that are shown."""
        return [code.text for code in self.shown("code[data-template]")]

    def state(self) -> str:
        return self.find("#state").text

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """What the console has had to say since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def picture(self, path: Path, height: int = 2600) -> None:
        """Keep the page, down to a height, as a PNG."""
        size = self.tell("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height), "scale": 1}
        taken = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running Chromium that reaches loopback only; skips the test where it is not installed."""
    program, helper = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or helper is None:
        pytest.skip("Debian's chromium and chromium-driver are not installed")
    options = Options()
    options.binary_location = program
    # No sandbox: it refuses to run as root, as whom containers run tests; the pages are our own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--proxy-server={DEAD_PROXY}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(helper))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
