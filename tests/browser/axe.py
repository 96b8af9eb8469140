"""axe-core, which finds what a page keeps from some of its readers; fetched once with npm, then cached."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tarfile
from typing import Any

import pytest

from tests.browser.chromium import Browser
from tests.clients.envs import INSTALL_TIMEOUT, cache_root

VERSION = "4.14.1"
SERIOUS = ("serious", "critical")


@functools.cache
def source() -> str:
    """The script; skips the test where there is no npm."""
    archive = cache_root() / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm, which fetches axe-core, is not installed")
        archive.parent.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", f"axe-core@{VERSION}"]
        subprocess.run(command, cwd=archive.parent, check=True, capture_output=True, timeout=INSTALL_TIMEOUT)
    with tarfile.open(archive) as content:
        member = content.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def faults(browser: Browser) -> list[str]:
    """The serious and critical faults of the page that is open."""
    browser.run(source())
    script = "const done = arguments[0]; axe.run().then(done, (error) => done(String(error)))"
    results: Any = browser.driver.execute_async_script(script)
    assert isinstance(results, dict), results
    assert results["passes"]
    return [
        f"{fault['id']} ({fault['impact']}): {node['html']} {node['failureSummary']}"
        for fault in results["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]
