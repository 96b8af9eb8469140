"""The family folders as projects: each holds its headline wrapper at the newest release with a full ledger."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.version import Version

from metawheel.choose import UNHASHED
from metawheel.family import Family
from metawheel.files import write_if_changed
from metawheel.model import Wrapper
from metawheel.plan import Plan
from metawheel.project import render_project


def headline(family: Family, plan: Plan) -> Wrapper | None:
    """The newest headline wrapper none of whose own cells waits for a sha256; None where there is none."""
    waiting = {(o.wrapper, o.version) for o in plan.omissions if o.reason == UNHASHED and "extra" not in o.what}
    emitted = {wrapper.name for wrapper in plan.wrappers}

    def is_full(wrapper: Wrapper) -> bool:
        needed = {Requirement(line).name for line in wrapper.requires} & emitted
        return not waiting & {(name, wrapper.release) for name in (wrapper.name, *needed)}

    name = family.prefix + family.headline
    found = [w for w in plan.wrappers if w.name == name and w.yanked is None and is_full(w)]
    return max(found, key=lambda wrapper: Version(wrapper.version), default=None)


def write_headlines(families: Iterable[Family], plan: Plan, *, write: bool = True) -> list[str]:
    """Bring the machine-written files beside each family.toml up to date; returns the paths that differ."""
    changed = []
    for family in families:
        wrapper = headline(family, plan)
        for name, content in (render_project(wrapper) if wrapper is not None else {}).items():
            if write_if_changed(family.folder / name, content.encode(), write=write):
                changed.append(str(family.folder / name))
    return changed
