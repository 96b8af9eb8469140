"""Mirrors: other places for the same addresses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

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
        try:
            parts = urlsplit(target)
        except ValueError as error:
            raise ValueError(f"{target!r} is no address: {error}") from None
        if parts.scheme not in ("http", "https"):
            if "://" in target and parts.scheme != "file":
                raise ValueError(f"{target!r} is neither an http, https or file address nor a folder")
            # Absolute: what a site is made from must not depend on where one is.
            target = str(Path(url2pathname(parts.path) if parts.scheme == "file" else target).absolute())
        if origin.endswith("/") and not target.endswith("/"):
            target += "/"
        return cls(origin, target)

    def apply(self, url: str) -> str | None:
        """The address or path in the mirror; None for what it does not have."""
        rest = url.removeprefix(self.origin)
        return self.target + (unquote(rest) if self.is_folder else rest) if url.startswith(self.origin) else None

    @property
    def is_folder(self) -> bool:
        return urlsplit(self.target).scheme not in ("http", "https")


def without_user(url: str) -> str:
    """An address as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def mirrored(url: str, mirrors: Iterable[Mirror]) -> str:
    """The address that the first fitting mirror gives; a folder's as a file: URL."""
    for mirror in mirrors:
        if (found := mirror.apply(url)) is not None:
            return Path(found).absolute().as_uri() if mirror.is_folder else found
    return url
