"""Reading Pipfile.lock, which names files by their hashes alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from tests.clients.lock_base import Lock, Locked, Scope


class PipfileLock(Lock):
    """A Pipfile.lock; `known` gives the file name of each sha256."""

    def __init__(self, text: str, known: Mapping[str, str] | None = None) -> None:
        """Parse the text."""
        self._packages_by_name: dict[str, dict[str, Any]] = json.loads(text)["default"]
        self._known = known

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        for name, package in self._packages_by_name.items():
            if scope.fits(package.get("markers")):
                files = named_by_hash(package.get("hashes", ()), self._known)
                yield Locked(
                    canonicalize_name(name), package["version"].removeprefix("=="), files, source=package.get("index")
                )


def named_by_hash(hashes: Iterable[str], known: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """The names of files given as `sha256:…`; None where nobody can tell."""
    found = [item.removeprefix("sha256:") for item in hashes]
    if known is None or not found:
        return None
    return tuple(known[item] for item in found if item in known)
