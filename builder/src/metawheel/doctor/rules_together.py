"""Rules about what cannot be installed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metawheel.doctor import advice
from metawheel.doctor.case import Case, View
from metawheel.doctor.installed import Environment
from metawheel.doctor.known import backend_named, modules_of, watched, wrapper_of
from metawheel.doctor.model import Fault, Fix, Locked
from metawheel.doctor.rules_builds import fault
from metawheel.model import Platform
from metawheel.tags import complement

_KEPT = ("-gpu", "-cu", "-rocm", "-xpu", "-directml", "-headless", "-binary")  # of several builds, the special one


def two_versions(case: Case) -> Iterator[Fault]:
    """MW109: two versions of one project on one target."""
    for view in case.views:
        for name, found in view.active.items():
            versions = sorted({item.version for item in found if item.version is not None})
            if len(versions) > 1 and watched(name):
                several = " and ".join(map(str, versions))
                what = f"{name} is asked for as {several} at once: the markers of its lines overlap"
                yield fault(view, found[-1], what, Fix(paste=_disjoint(found)))


def two_wrappers(case: Case) -> Iterator[Fault]:
    """MW110: two wrappers that pin different builds of one project."""
    for view in case.views:
        found: dict[str, Locked] = {}
        for item in view.items():
            wrapper = wrapper_of(item.name)
            if wrapper is None or wrapper[1].kind == "select" or wrapper[1].name == "cuda":
                continue
            other = found.setdefault(wrapper[0], item)
            if other.name != item.name:
                what = f"{other.name} and {item.name} both pin {wrapper[0]}, and only one of the builds can be there"
                kept = _installed_wrapper(view, other, item)
                drop = other.name if kept == item.name else item.name
                fix = f"pip uninstall {drop}" if view.lock.kind == "environment" else f"# keep one, for example\n{kept}"
                yield fault(view, item, what, Fix(paste=fix))


def shared_module(case: Case) -> Iterator[Fault]:
    """MW111: two packages that install the same module."""
    for view in case.views:
        owners: dict[str, set[Locked]] = {}
        for item in view.items():
            for module in modules_of(item.name):
                owners.setdefault(module, set()).add(item)
        if isinstance(view.lock, Environment):
            by_name = {item.name: item for item in view.lock.packages}
            for module, names in view.lock.modules:
                owners.setdefault(module, set()).update(by_name[name] for name in by_name if name in names)
        for module, items in sorted(owners.items()):
            names_here = sorted({item.name for item in items})
            if len(names_here) > 1:
                kept = next((n for part in _KEPT for n in names_here if part in n), names_here[0])
                what = f"{' and '.join(names_here)} both install the module {module!r}, and the last one installed wins"
                last = max(items, key=lambda item: (item.place, item.name))
                yield fault(view, last, what, _one_module(case, view, names_here, kept))


def _one_module(case: Case, view: View, names: Sequence[str], kept: str) -> Fix:
    others = [name for name in names if name != kept]
    if view.lock.kind == "uv":
        lines = ", ".join(f'"{name} ; {_elsewhere(case, view, kept)}"' for name in others)
        return Fix(paste=f"[tool.uv]\noverride-dependencies = [{lines}]")
    return Fix(paste=f"pip uninstall -y {' '.join(names)}\npip install --no-deps --force-reinstall {kept}")


def _elsewhere(case: Case, view: View, kept: str) -> str:
    """The marker of the platforms where a project is not installed; one that never holds where there are none."""
    same = [other for other in case.views if other.lock is view.lock and other.selection == view.selection]
    there = {Platform(other.target.sys_platform, other.target.machine) for other in same if kept in other.active}
    if all(kept in other.active for other in same):
        return "sys_platform == 'never'"
    return advice.single(complement(there))


def _disjoint(found: tuple[Locked, ...]) -> str:
    first, second = found[0], found[-1]
    return (
        f"{first.name}=={first.version} ; sys_platform == 'linux'\n"
        f"{second.name}=={second.version} ; sys_platform != 'linux'"
    )


def _installed_wrapper(view: View, one: Locked, other: Locked) -> str:
    """Of two wrappers the one whose build is there."""
    for item in (one, other):
        wrapper = wrapper_of(item.name)
        there = view.one(wrapper[0]) if wrapper is not None else None
        if wrapper is not None and there is not None and there.version is not None:
            backend = backend_named(there.version.local)
            if backend is not None and backend.name == wrapper[1].name:
                return item.name
    return other.name
