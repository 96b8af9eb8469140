"""Reading pdm.lock, whose packages each carry one marker and the groups that want them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable

from packaging.utils import canonicalize_name

from tests.clients.lock_base import Lock, Locked, Scope, table_list, text_or_none
from tests.clients.lock_uv import wheel_names


class PdmLock(Lock):
    """A pdm.lock, for all platforms at once or for a target at a time."""

    def __init__(self, text: str) -> None:
        """Parse the text."""
        self._all = table_list(tomllib.loads(text), "package")

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        # PDM calls the project's own dependencies `default`, and its extras groups.
        wanted = {"default" if group == "main" else group for group in scope.groups | scope.extras}
        for package in self._all:
            groups = package.get("groups", ["default"])
            active = isinstance(groups, list) and not wanted.isdisjoint(groups)
            if active and scope.fits(text_or_none(package, "marker")):
                name = canonicalize_name(str(package["name"]))
                yield Locked(name, str(package["version"]), wheel_names(table_list(package, "files")))
