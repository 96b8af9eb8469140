"""Mirrors: other places for the same addresses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

PYPI = "pypi"  # how the command line names PyPI's simple index


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where addresses that begin with `origin` are fetched instead: a URL or a folder."""

    origin: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Mirror:
        """Read FROM=TO; raises ValueError."""
        origin, separator, target = text.partition("=")
        if not separator or not origin or not target:
            raise ValueError(f"{text!r} is not FROM=TO")
        if origin == PYPI:
            from pypi_simple import PYPI_SIMPLE_ENDPOINT

            origin = PYPI_SIMPLE_ENDPOINT
        if origin.endswith("/") and not target.endswith("/"):
            target += "/"
        return cls(origin, target)

    def apply(self, url: str) -> str | None:
        return self.target + url.removeprefix(self.origin) if url.startswith(self.origin) else None

    @property
    def is_folder(self) -> bool:
        return urlsplit(self.target).scheme not in ("http", "https")


def mirrored(url: str, mirrors: Iterable[Mirror]) -> str:
    """The address that the first fitting mirror gives; a folder's as a file: URL."""
    for mirror in mirrors:
        if (found := mirror.apply(url)) is not None:
            return Path(unquote(found)).absolute().as_uri() if mirror.is_folder else found
    return url
