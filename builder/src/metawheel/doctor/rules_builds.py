"""Rules about the builds that would be installed on a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from packaging.version import Version

from metawheel.doctor import advice
from metawheel.doctor.case import TORCH, Case, View, companions
from metawheel.doctor.known import (
    Backend,
    backend_named,
    index_url,
    last_release,
    paired,
    torch_of,
    watched,
)
from metawheel.doctor.model import Declared, Fault, Fix, Lock, Locked, Source
from metawheel.doctor.targets import KNOWN_PYTHONS, Target


def no_wheel(case: Case) -> Iterator[Fault]:
    """MW101: upstream has no wheel of the locked version for a target."""
    for view, item in _watched(case):
        if item.version is None or _label_on_mac(case, view, item):
            continue
        last = last_release(item.name, view.target)
        wheel, _ = case.wheel(view, item)
        gone = wheel is None and last is not None and Version(item.version.public) > last
        if wheel is False or gone:
            bounded = last is not None and Version(item.version.public) > last
            tail = f"; the last release that has one is {last}" if bounded else ""
            yield fault(
                view, item, f"{item.name} {item.version} has no wheel there{tail}", _older(case, view, item, last)
            )
    yield from _bound_too_high(case)
    yield from _folder_without_mac(case)


def _folder_without_mac(case: Case) -> Iterator[Fault]:
    """Sources that send macOS to the folder of an accelerator, which has nothing for it."""
    for view in case.views:
        for name in (TORCH, *companions()) if view.target.mac and not case.real_locks else ():
            item, source = view.one(name), case.source_here(view, name)
            index = case.index(source) if source is not None else None
            if item is None or source is None or index is None or source.tool != "uv":
                continue
            if source.scope:
                continue  # nobody asks for an accelerator's extra there
            labelled = item.version is not None and item.version.local is not None  # MW102 says it
            backend = backend_named(index.backend)
            upstream = index.url.startswith(index_url(""))
            if upstream and backend is not None and backend.accelerated and not labelled:
                what = f"{name} comes from {source.index!r} there, and {index.url} has no wheel for macOS"
                yield Fault(place=source.place, what=what, fix=advice.source_off_mac(source), target=_where(view))


def _bound_too_high(case: Case) -> Iterator[Fault]:
    """Requirements that no release with a wheel for the platform can meet."""
    for item in case.project.declared:
        for target in case.targets:
            last = last_release(item.name, target)
            if last is None or item.constraint or item.pin is not None or item.specifier is None or item.url:
                continue
            lower = [c for c in item.specifier if c.operator in {">=", ">", "~="} and Version(c.version) > last]
            if lower and target.fits(item.marker) and target.meets(case.project.python) and not case.real_locks:
                what = f"no release that {item.text!r} takes has a wheel there; the last release that has one is {last}"
                locked = Locked(name=item.name, version=None, place=item.place)
                yield Fault(
                    place=item.place, what=what, target=str(target), fix=_platform_fix(case, None, locked, target, last)
                )


def labelled_on_mac(case: Case) -> Iterator[Fault]:
    """MW102: a build with a local version label where upstream's builds have none."""
    for view, item in _watched(case):
        if item.version is not None and _label_on_mac(case, view, item):
            declared = _declared_at(case, item)
            what = f"{item.name} {item.version} is locked, but upstream has no build with that label there"
            yield fault(view, item, what, _for_mac(case, view, item, item.version, declared))


def _for_mac(case: Case, view: View, item: Locked, version: Version, declared: Declared | None) -> Fix:
    """The plain build for macOS: by the marker of the source that brings the labelled one, or by two requirements."""
    tool = case.tool(item.name, view.lock)
    for source in () if view.by_pip else case.sources(item.name):
        here = source.scope in {"", view.selection} and view.target.fits(source.marker)
        if source.tool == "uv" and source.index is not None and here:
            return _source_off_mac(source, _labelled_pin(case, view, item), version)
        if source.tool == "poetry" and source.index is not None:
            lines = advice.split_for_mac(tool, item.name, version)
            return Fix(paste=lines.replace(" }", f', source = "{source.index}" }}', 1))
    if declared is not None:
        return advice.mac_fix(declared, version)
    return Fix(paste=advice.split_for_mac(tool, item.name, version))


def _labelled_pin(case: Case, view: View, item: Locked) -> Declared | None:
    """The requirement whose label would be asked of PyPI too, once the source leaves macOS out."""
    for line in case.declared(item.name):
        here = line.scope in {"", view.selection} and view.target.fits(line.marker)
        if here and line.pin is not None and line.pin.local is not None:
            return line
    return None


def _source_off_mac(source: Source, pinned: Declared | None, version: Version) -> Fix:
    """A marker on a source of uv, and on a labelled pin: without its own the one cannot be locked for macOS."""
    off = advice.source_off_mac(source)
    if pinned is None:
        return off
    split = advice.mac_fix(pinned, version)
    both = (*split.edits, *off.edits) if split.edits and off.edits else ()
    return Fix(paste=f"{split.paste}\n\n{off.paste}", edits=both)


def cpu_where_accelerated(case: Case) -> Iterator[Fault]:
    """MW103: a CPU build where an accelerator's is meant."""
    for view, item, backend, wanted, by in _against_wanted(case):
        if wanted.accelerated and not backend.accelerated:
            what = f"{item.name} {_version(item)} is the CPU build, but {by} asks for {wanted}"
            yield fault(view, item, what, _backend_fix(case, view, item, str(wanted)))


def accelerated_where_cpu(case: Case) -> Iterator[Fault]:
    """MW104: an accelerator's build where the CPU's is meant."""
    for view, item, backend, wanted, by in _against_wanted(case):
        if not wanted.accelerated and backend.accelerated:
            what = f"{item.name} {_version(item)} is a {backend} build, but {by} asks for {wanted}"
            yield fault(view, item, what, _backend_fix(case, view, item, str(wanted)))


def other_accelerator(case: Case) -> Iterator[Fault]:
    """MW112: a build for another accelerator than the one that is meant; with `--backend` for another release of it."""
    for view, item, backend, wanted, by in _against_wanted(case):
        if not (wanted.accelerated and backend.accelerated):
            continue
        other = by == "--backend" and None not in {backend.name, wanted.name} and backend.name != wanted.name
        if backend.family != wanted.family or other:
            what = f"{item.name} {_version(item)} is a {backend} build, but {by} asks for {wanted}"
            yield fault(view, item, what, _backend_fix(case, view, item, str(wanted)))


def companion_backend(case: Case) -> Iterator[Fault]:
    """MW105: torchvision or torchaudio of another backend than torch."""
    for view in case.views:
        torch = view.one(TORCH)
        ours = case.build(view, torch) if torch is not None else None
        for name in companions():
            item = view.one(name)
            theirs = case.build(view, item) if item is not None else None
            if torch is None or item is None or ours is None or theirs is None:
                continue
            if _label_on_mac(case, view, torch) or _label_on_mac(case, view, item):
                continue  # MW102 says what is wrong there
            differ = ours.name != theirs.name if ours.name and theirs.name else ours.kind != theirs.kind
            if differ:
                what = f"{name} {_version(item)} is a {theirs} build, but torch {_version(torch)} a {ours} build"
                local = torch.version.local if torch.version is not None else None
                label = f"+{local}" if local else ""
                fitting = item.version.public if item.version is not None else None
                if fitting is None and torch.version is not None:
                    fitting = paired(torch.version, name)
                fix = _pin(case, view, name, f"{fitting}{label}") if fitting else f"# pin {name} to a {ours} build"
                yield fault(view, item, what, Fix(paste=fix))


def companion_version(case: Case) -> Iterator[Fault]:
    """MW106: torchvision or torchaudio that was built for another torch."""
    for view in case.views:
        torch = view.one(TORCH)
        for name in companions():
            item = view.one(name)
            if torch is None or item is None or torch.version is None or item.version is None:
                continue
            fitting = paired(torch.version, name)
            built_for = torch_of(name, item.version)
            if fitting is None or built_for is None or fitting == item.version.public:
                continue
            what = f"{name} {item.version} was built for torch {built_for}, not for {torch.version}"
            local = f"+{item.version.local}" if item.version.local else ""
            yield fault(view, item, what, Fix(paste=_pin(case, view, name, f"{fitting}{local}")))


def jax_plugin(case: Case) -> Iterator[Fault]:
    """MW107: jaxlib, jax and the plugin of an accelerator of different releases."""
    for view in case.views:
        jaxlib = view.one("jaxlib")
        if jaxlib is None or jaxlib.version is None:
            continue
        for item in view.items():
            if item.version is None:
                continue
            plugin = item.name.startswith(("jax-cuda", "jax-rocm")) and item.name.endswith(("-plugin", "-pjrt"))
            if plugin and item.version.public != jaxlib.version.public:
                what = (
                    f"{item.name} {item.version} is of another release than jaxlib {jaxlib.version}, so jax ignores it"
                )
                paste = _pin(case, view, item.name, jaxlib.version.public)
                yield fault(view, item, what, Fix(paste=paste))
            if item.name == "jax" and jaxlib.version.public != item.version.public and jaxlib.version > item.version:
                what = f"jaxlib {jaxlib.version} is newer than jax {item.version}, which does not take it"
                paste = _pin(case, view, "jaxlib", item.version.public)
                yield fault(view, jaxlib, what, Fix(paste=paste))


def _watched(case: Case) -> Iterator[tuple[View, Locked]]:
    for view in case.views:
        if view.lock.kind != "environment":
            yield from ((view, item) for item in view.items() if watched(item.name))


def _label_on_mac(case: Case, view: View, item: Locked) -> bool:
    labelled = item.version is not None and backend_named(item.version.local) is not None
    by_index = ".whl" not in (item.source or "")  # an address is for one platform, whatever the label
    return labelled and by_index and view.target.mac and case.wheel(view, item)[0] is not True


def _against_wanted(case: Case) -> Iterator[tuple[View, Locked, Backend, Backend, str]]:
    """What is locked, its backend, the one that is wanted there, and who wants it."""
    for view in case.views:
        wanted = case.wanted(view)
        if wanted is None:
            continue
        for name in (TORCH, *companions()):
            item = view.one(name)
            backend = case.build(view, item) if item is not None else None
            if item is not None and backend is not None:
                yield view, item, backend, *wanted
        yield from _jax_against(case, view)


def _jax_against(case: Case, view: View) -> Iterator[tuple[View, Locked, Backend, Backend, str]]:
    jaxlib = view.one("jaxlib")
    if case.backend is None or jaxlib is None or view.target.sys_platform != "linux":
        return
    plugins = [item for item in view.items() if item.name.endswith("-plugin")]
    if not plugins and (jaxlib.version is None or jaxlib.version.local is None) and view.locked:
        yield view, jaxlib, Backend("cpu"), case.backend, "--backend"


def _declared_at(case: Case, item: Locked) -> Declared | None:
    return next((d for d in case.project.declared if d.place == item.place and d.name == item.name), None)


def fault(view: View, item: Locked, what: str, fix: Fix) -> Fault:
    return Fault(place=item.place, what=what, fix=fix, target=_where(view))


def _where(view: View) -> str:
    return f"{view.target}, {view.selection.replace(':', ' ')}" if view.selection else str(view.target)


def _version(item: Locked) -> str:
    return str(item.version) if item.version is not None else "(any version)"


def _pin(case: Case, view: View, name: str, version: str) -> str:
    return advice.pins(case.tool(name, view.lock), name, (f"=={version}", None))


def _older(case: Case, view: View, item: Locked, last: Version | None) -> Fix:
    """The Pythons that have a wheel on the platform, or the release that has; else the platform is to be left out."""
    if last is not None and item.version is not None and Version(item.version.public) > last:
        return _platform_fix(case, view.lock, item, view.target, last)
    others = [
        text for text in KNOWN_PYTHONS if case.wheel(replace(view, target=view.target.with_python(text)), item)[0]
    ]
    if others and "pyproject.toml" in case.project.files:
        return Fix(paste=f'requires-python = ">={others[0]},<3.{int(others[-1].removeprefix("3.")) + 1}"')
    if others:
        return Fix(paste=f"# it has wheels there for Python {', '.join(others)}")
    marker = advice.marker_of(view.target, other=True)
    if view.lock.kind == "uv":
        return Fix(paste=f'# if the project is not for that platform\n[tool.uv]\nenvironments = ["{marker}"]')
    return Fix(paste=advice.pins(case.tool(item.name, view.lock), item.name, (f"=={item.version}", marker)))


def _platform_fix(case: Case, lock: Lock | None, item: Locked, target: Target, last: Version) -> Fix:
    wanted = f"=={item.version}" if item.version is not None else f">{last}"
    here, elsewhere = advice.marker_of(target), advice.marker_of(target, other=True)
    return Fix(paste=advice.pins(case.tool(item.name, lock), item.name, (f"=={last}", here), (wanted, elsewhere)))


def _backend_fix(case: Case, view: View, item: Locked, backend: str) -> Fix:
    tool = case.tool(item.name, view.lock)
    if item.name.startswith("jax"):
        extra = "cuda12" if backend.startswith("cu1") else backend
        return Fix(paste=advice.pins(tool, "jax", ("", None), extras=[extra]))
    lines = advice.index_lines(tool, item.name, backend)
    if tool == "pip" and item.version is not None:
        return Fix(paste=f"{lines}\n{item.name}=={item.version.public}+{backend}")
    return Fix(paste=f'[project]\ndependencies = ["{item.name}"]\n\n{lines}' if tool == "pep621" else lines)
