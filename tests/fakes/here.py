"""A folder of families, an upstream beside it, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from metawheel import cli
from tests.fakes.pages import CANONICAL, ONLY_LOOPBACK, Ran, page, write_family, write_pages


@dataclass(frozen=True)
class Here:
    """A folder of families, an upstream that is the folder up/ beside it, and the command in this process."""

    packages: Path
    run: Callable[[list[str]], Ran]

    def upstream(self, links: list[str], **others: list[str]) -> None:
        """Lay down upstream's page of torch, and of other projects."""
        pages = {"torch": links, **others}
        write_pages(self.packages.parent / "up", {project: page(found) for project, found in pages.items()})

    def synced(self, links: list[str]) -> None:
        """Make the family torch-cuda and sync it once."""
        write_family(self.packages)
        self.upstream(links)
        assert self.sync().code == 0

    def sync(self, *arguments: str, mirror: str = "") -> Ran:
        """Run `metawheel sync`."""
        return self.command("sync", *arguments, mirror=mirror)

    def regenerate(self, *arguments: str, mirror: str = "") -> Ran:
        """Run `metawheel regenerate` into the folder site/ beside the families."""
        return self.command("regenerate", "-o", str(self.site), *arguments, mirror=mirror)

    def command(self, name: str, *arguments: str, mirror: str = "") -> Ran:
        """Run a command that reads upstream."""
        mirror = mirror or f"{CANONICAL}={self.packages.parent / 'up'}"
        return self.run([name, *arguments, "--packages", str(self.packages), "--mirror", mirror])

    @property
    def site(self) -> Path:
        return self.packages.parent / "site"


def here_in(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Set up a folder of families; nothing beyond loopback is reached from it."""
    settings = ONLY_LOOPBACK | {"METAWHEEL_CACHE": str(folder / "cache"), "SOURCE_DATE_EPOCH": "1750000000"}
    for name, value in settings.items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)

    def run(arguments: list[str]) -> Ran:
        monkeypatch.setattr("sys.argv", ["metawheel", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Ran(caught.value.code, out, err)

    return Here(folder / "packages", run)
