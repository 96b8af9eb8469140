"""The names that wrappers and views may have. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.utils import is_normalized_name

from metawheel.errors import FamilyError
from metawheel.family import FAMILY_FILE, SITE_FOLDERS, Family
from metawheel.model import Wrapper

_VIEW = re.compile(r"[a-z0-9][a-z0-9._]*")


def refuse_bad_names(families: Sequence[Family], wrappers: Iterable[Wrapper]) -> None:
    """Raise FamilyError where a name is claimed twice, is upstream's, or cannot be a project's or a folder's."""
    paths = {family.name: family.folder / FAMILY_FILE for family in families}
    upstream = frozenset().union(*(family.listed for family in families))
    owner: dict[str, str] = {}
    keys: set[str] = set()
    for wrapper in wrappers:
        path = paths[wrapper.family]
        other = owner.setdefault(wrapper.name, wrapper.family)
        if other != wrapper.family:
            raise FamilyError(
                f"{path}: wrapper.name: {wrapper.name!r} is also emitted by {paths[other]}; "
                "give one of them another name or a prefix"
            )
        if wrapper.key in keys:
            raise FamilyError(f"{path}: wrapper.name: two rules emit {wrapper.key}")
        keys.add(wrapper.key)
        if wrapper.name in upstream:
            raise FamilyError(f"{path}: wrapper.name: {wrapper.name!r} is the name of an upstream project")
        if not is_normalized_name(wrapper.name):
            raise FamilyError(f"{path}: wrapper.name: {wrapper.name!r} is no name that a project can have")
        if wrapper.view is not None and (wrapper.view in SITE_FOLDERS or not _VIEW.fullmatch(wrapper.view)):
            raise FamilyError(f"{path}: wrapper.view: {wrapper.view!r} cannot be a folder of a site")
