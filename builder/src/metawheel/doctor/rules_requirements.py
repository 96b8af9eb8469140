"""Rules about requirement lines as they are written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from metawheel.doctor import advice
from metawheel.doctor.case import Case
from metawheel.doctor.known import backend_named, companions_of_torch, index_url, watched, wrapper_of
from metawheel.doctor.lock_text import file_name
from metawheel.doctor.model import Declared, Edit, Extra, Fault, Fix, Place, Unread
from metawheel.doctor.targets import PLATFORMS, Target
from metawheel.model import Platform
from metawheel.tags import complement

_ORDERED = re.compile(r"(?P<operator>>=|<=|~=|>|<|\^|~)\s*v?(?P<version>[^,;\s\"')]*\+[^,;\s\"')]+)")
_WINDOWS = re.compile(r"win32|Windows|AMD64|ARM64|['\"]nt['\"]")


def hole(case: Case) -> Iterator[Fault]:
    """MW108: the markers of a project's lines leave a target out, where something else may bring in any build."""
    for (name, _), lines in _by_name(case).items():
        by_pip = lines[0].tool == "pip"
        always = [] if by_pip else [item for item in case.declared(name) if not item.scope and item.tool != "pip"]
        plain = any(item.marker is None for item in (*lines, *always))
        closed = lines[0].place.path in case.project.compiled or all(item.hashed for item in lines)
        if len(lines) < 2 or plain or closed or not _split_by_platform(name):
            continue
        for target in case.targets:
            here = target.meets(case.project.python) and _for_platform(case, target)
            if not here or any(target.fits(item.marker) for item in lines):
                continue
            there = _locked_there(case, name, target)
            tail = f", and another package brings {name} {there}" if there else ""
            what = f"the {len(lines)} lines of {name} leave this platform out{tail}"
            yield Fault(place=lines[-1].place, what=what, target=str(target), fix=_closing(lines))


def _closing(lines: list[Declared]) -> Fix:
    """A last line with the complement of the others' markers."""
    covered = [
        Platform(target.sys_platform, target.machine)
        for target in PLATFORMS.values()
        if any(target.fits(item.marker) for item in lines)
    ]
    last = lines[-1]
    plain = f"=={last.pin.public}" if last.pin is not None else str(last.specifier or "")
    return Fix(paste=advice.pins(last.tool, last.name, (plain, complement(covered) if covered else None)))


def _locked_there(case: Case, name: str, target: Target) -> str | None:
    for view in case.views:
        item = view.one(name)
        if view.locked and view.target == target and item is not None:
            return str(item.version)
    return None


def _for_platform(case: Case, target: Target) -> bool:
    environments = case.project.environments
    return not environments or any(target.fits(marker) for marker in environments)


def loose_pin(case: Case) -> Iterator[Fault]:
    """MW201: `==X` without a label where an index in reach lists labelled builds of X."""
    for item in case.project.declared:
        if any(clause.operator == "===" for clause in item.specifier or ()):
            continue  # compares the text: no label is met
        if item.pin is None or item.pin.local or item.url or not companions_of_torch(item.name) or item.constraint:
            continue
        if item.tool != "pip" and case.real_locks:
            continue  # the lock says which build it is
        if not any(target.fits(item.marker) for target in case.targets if not target.mac):
            continue  # macOS has plain builds only
        for index in case.indexes_of(item):
            whole = index.url.rstrip("/") == index_url("").rstrip("/") or index.url.endswith("/torch_stable.html")
            listed = index.backend or ("any" if whole else None)
            beside = index.role in {"extra", "links"} or (index.tool == "uv" and index.role == "ordinary")
            if listed is None or not beside:
                continue
            label = listed if backend_named(listed) else "cpu"
            what = f"{item.text!r} takes {item.pin}+{label} where {index.url} has it, and the plain build elsewhere"
            if listed == "any":
                what = f"{item.text!r} takes whichever labelled build of {item.pin} sorts last on {index.url}"
            paste = advice.split_for_mac(item.tool, item.name, Version(f"{item.pin}+{label}"))
            yield Fault(place=item.place, what=what, fix=Fix(paste=paste))
            break


def arbitrary_equality(case: Case) -> Iterator[Fault]:
    """MW202: `===`, which Poetry skips with a warning."""
    for item in case.project.declared:
        if any(clause.operator == "===" for clause in item.specifier or ()):
            what = f"{item.text!r} uses ===, which Poetry leaves out of its lock with a warning"
            edit = Edit(item.place, "===", "==")
            safe = item.pin is not None and item.pin.local is not None  # `==` without a label takes labelled builds too
            yield Fault(
                place=item.place, what=what, fix=Fix(paste=item.text.replace("===", "=="), edits=(edit,), safe=safe)
            )


def ordered_label(case: Case) -> Iterator[Fault]:
    """MW203: an ordered comparison with a local version label (PEP 440, "Inclusive ordered comparison")."""
    for item in case.project.unread:
        match = _ORDERED.search(item.text)
        if match is not None:
            what = f"{item.text!r} compares by {match['operator']} with a label, which PEP 440 does not allow"
            fixed = item.text.replace(match[0], f"=={match['version']}")
            edits = (Edit(item.place, match[0], f"=={match['version']}"),)
            yield Fault(place=item.place, what=what, fix=Fix(paste=fixed, edits=edits))


def excluded_label(case: Case) -> Iterator[Fault]:
    """MW204: `!=X+label`, which has no effect in Poetry."""
    for item in case.project.declared:
        for clause in item.specifier or ():
            if clause.operator == "!=" and "+" in clause.version:
                what = f"{item.text!r} excludes one build by its label, which has no effect in Poetry"
                public = clause.version.partition("+")[0]
                fix = Fix(edits=(Edit(item.place, clause.version, public),))
                yield Fault(place=item.place, what=what, fix=fix)


def unparsable(case: Case) -> Iterator[Fault]:
    """MW205: a line that is no requirement (PEP 508): pip and uv refuse all, Poetry drops it silently."""
    for item in case.project.unread:
        if _ORDERED.search(item.text) is None:
            what = f"{item.text!r} is no requirement: {item.reason}"
            yield Fault(place=item.place, what=what, fix=Fix(paste=_repaired(item)))


def _repaired(item: Unread) -> str:
    """The name and version of a line that cannot be read; what else it says is for its writer."""
    match = re.match(r"\s*([A-Za-z0-9][\w.-]*(?:\[[\w., -]*\])?\s*(?:[=<>!~]{1,2}\s*[\w.+*-]+)?)", item.text)
    return f"{match[1].strip()}  # and a marker as in PEP 508" if match else "# remove the line"


def direct_url(case: Case) -> Iterator[Fault]:
    """MW206: a wheel by its address: every lock fetches it whole, and it is for one interpreter and platform."""
    sizes = {
        file.filename: file.size
        for lock in case.project.locks
        for package in lock.packages
        for file in package.files or ()
        if file.size is not None
    }
    for item in case.project.declared:
        remote = item.url is not None and item.url.startswith(("http://", "https://"))
        if not remote or not watched(item.name) or (item.tool == "pip" and item.hashed):
            continue
        name = file_name(item.url or "")
        recorded = [file.size for file in case.ledgers.by_filename.get(name, ()) if file.size is not None]
        size = sizes.get(name) or next(iter(recorded), None)
        cost = f"{size:,} bytes" if size is not None else "hundreds of megabytes or more"
        what = f"{name or item.name} is required by its address: a lock fetches it whole ({cost}) to read its metadata"
        yield Fault(place=item.place, what=what, fix=_pinned(item))


def _pinned(item: Declared) -> Fix:
    if item.pin is None:
        return Fix(paste=f"{item.name}  # a version, from an index")
    backend = backend_named(item.pin.local)
    line = advice.pins(item.tool, item.name, (f"=={item.pin}", item.marker), extras=item.extras)
    if backend is None or not companions_of_torch(item.name):
        return Fix(paste=line)
    line = line.replace(" }", ', source = "pytorch" }') if item.tool == "poetry" else line
    return Fix(paste=f"{line}\n\n{advice.index_table(item.tool, item.name, str(backend))}")


def extra_spelling(case: Case) -> Iterator[Fault]:
    """MW207: extras that are one after normalisation (PEP 685), but are spelled differently."""
    defined: dict[str, Extra] = {}
    for extra in case.project.extras:
        first = defined.setdefault(canonicalize_name(extra.name), extra)
        if first.name != extra.name:
            what = f"the extras {first.name!r} and {extra.name!r} are one and the same name to installers"
            yield Fault(place=extra.place, what=what, fix=Fix(paste=f"# merge them under {first.name!r}"))
    for extra in case.project.extras_named:
        meant = defined.get(canonicalize_name(extra.name))
        if meant is not None and meant.name != extra.name:
            yield _respelled(extra, meant.name)
    for item in case.project.declared:
        if wrapper_of(item.name) is not None:
            for name in item.extras:
                if canonicalize_name(name) != name:
                    yield _respelled(Extra(name=name, place=item.place), canonicalize_name(name))


def _respelled(extra: Extra, name: str) -> Fault:
    what = f"the extra {extra.name!r} is spelled {name!r} where it is defined"
    return Fault(place=extra.place, what=what, fix=Fix(edits=(Edit(extra.place, extra.name, name),), safe=True))


def uv_split(case: Case) -> Iterator[Fault]:
    """MW208: two wrappers for different platforms, which uv cannot lock without `tool.uv.environments`."""
    uses_uv = any(index.tool == "uv" for index in case.project.indexes) or any(
        lock.kind == "uv" for lock in case.project.locks
    )
    if not uses_uv or case.project.environments:
        return
    found: dict[tuple[str, str], Declared] = {}
    for item in case.project.declared:
        wrapper = wrapper_of(item.name)
        if wrapper is None or item.tool not in {"pep621", "uv"} or item.constraint:
            continue
        first = found.setdefault((wrapper[0], item.scope), item)
        if first.name != item.name and first.marker and item.marker:
            what = f"{first.name} and {item.name} are for different platforms, but uv forks on one name's versions only"
            lines = ", ".join(f'"{marker}"' for marker in (advice.single(first.marker), advice.single(item.marker)))
            yield Fault(place=item.place, what=what, fix=Fix(paste=f"[tool.uv]\nenvironments = [{lines}]"))


def windows_machine(case: Case) -> Iterator[Fault]:
    """MW209: a marker that holds on no Windows, where the machine is called AMD64, not x86_64."""
    lines = [(item.name, item.marker, item.place) for item in case.project.declared]
    sources = [(source.name, source.marker, source.place) for source in case.project.sources]
    for marked in (lines, sources):
        for name, marker, place in marked:
            windows = [target for target in case.targets if target.machine == "AMD64" and not target.fits(marker)]
            if not watched(name) or not any(replace(target, machine="x86_64").fits(marker) for target in windows):
                continue
            # Where one that names Windows holds there, this is what that leaves over, as in every split of a wrapper.
            named = [held for other, held, _ in marked if other == name and _WINDOWS.search(held or "")]
            if all(any(target.fits(held) for held in named) for target in windows):
                continue
            what = f"the marker of {name} does not hold on Windows, where platform_machine is AMD64"
            found = re.search(r"platform_machine\s*==\s*(['\"])x86_64\1", marker or "")
            yield Fault(place=place, what=what, fix=_naming_both(place, marker or "", found[0]) if found else Fix())


def _naming_both(place: Place, marker: str, old: str) -> Fix:
    new = f"({old} or {old.replace('x86_64', 'AMD64')})"
    return Fix(paste=marker.replace(old, new), edits=(Edit(place, old, new),))


def _by_name(case: Case) -> dict[tuple[NormalizedName, str], list[Declared]]:
    """The lines of each watched project in one file and scope."""
    found: dict[tuple[NormalizedName, str], list[Declared]] = defaultdict(list)
    for item in case.project.declared:
        if not item.constraint and watched(item.name):
            found[item.name, f"{item.place.path} {item.scope}"].append(item)
    return {(name, scope): lines for (name, scope), lines in found.items()}


def _split_by_platform(name: NormalizedName) -> bool:
    """Whether a project has builds for every platform: plugins and triton are for some only."""
    return companions_of_torch(name) or name in {"jax", "jaxlib"}
