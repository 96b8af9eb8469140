"""Rules about lock files and installed environments as such."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from metawheel.doctor import advice
from metawheel.doctor.case import Case
from metawheel.doctor.known import watched, wrapper_of
from metawheel.doctor.model import Fault, Fix, Lock, Locked

_TOOLS = {
    "uv": {"pep621", "uv"},
    "poetry": {"pep621", "poetry"},
    "pdm": {"pep621", "pdm"},
    "pylock": {"pep621"},
    "pipenv": {"pipenv"},
}


def missing_hashes(case: Case) -> Iterator[Fault]:
    """MW401: a lock that does not say what it takes."""
    for lock in case.project.locks:
        if not lock.unhashed:
            continue
        names = sorted({name for name, _ in lock.unhashed})
        first, place = lock.unhashed[0]
        several = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
        what = f"{several} {'have' if len(names) > 1 else 'has'} no hash"
        if lock.kind == "requirements":
            what += " though other lines have, and pip then refuses them all"
        yield Fault(place=place, what=what, fix=Fix(paste=advice.relock(lock.kind, first)))


def stale_lock(case: Case) -> Iterator[Fault]:
    """MW402: a lock that does not answer what the project now asks for."""
    for lock in case.real_locks:
        locked: dict[str, list[Locked]] = {}
        for package in lock.packages:
            locked.setdefault(package.name, []).append(package)
        overridden = {item.name for item in case.project.declared if item.override and lock.kind == "uv"}
        for item in case.project.declared:
            if item.name in overridden:
                continue
            of_lock = item.tool in _TOOLS.get(lock.kind, set()) and not item.constraint and not item.url
            if lock.kind in {"pdm", "pylock"} and item.scope:
                continue  # such a lock may be for some of the extras and groups only
            if (
                not of_lock
                or not (watched(item.name) or wrapper_of(item.name))
                or not _anywhere(case, lock, item.marker)
            ):
                continue
            found = locked.get(item.name, [])
            fitting = [
                package
                for package in found
                if package.version is None
                or item.specifier is None
                or item.specifier.contains(package.version, prereleases=True)
            ]
            if not fitting:
                has = f"has {' and '.join(sorted({str(p.version) for p in found}))}" if found else "does not have it"
                what = f"{item.text!r} is asked for, but {lock.path} {has}"
                yield Fault(place=item.place, what=what, fix=Fix(paste=advice.relock(lock.kind, item.name)))


def _anywhere(case: Case, lock: Lock, marker: str | None) -> bool:
    return any(lock.covers(target) and target.fits(marker) for target in case.targets)


def other_hash(case: Case) -> Iterator[Fault]:
    """MW403: a file whose hash is none of those that the ledgers record for its name."""
    for lock, package in _locked(case):
        for file in package.files or ():
            recorded = case.ledgers.by_filename.get(file.filename, ())
            known = {item.sha256 for item in recorded}
            if file.sha256 is None or not known or {None, file.sha256} & known:
                continue
            if not _elsewhere(package, file.filename, case):
                what = f"{file.filename} is locked with sha256 {file.sha256[:12]}…, which upstream's file has not"
                yield Fault(place=package.place, what=what, fix=Fix(paste=advice.relock(lock.kind, package.name)))
                break


def _elsewhere(package: Locked, filename: str, case: Case) -> bool:
    """Whether the file may be another host's of the same name: plain builds lie on PyPI and upstream's host."""
    plain = package.version is None or package.version.local is None
    hosts = {item.url.split("/")[2] for item in case.ledgers.by_filename[filename] if item.url}
    return plain and not any(host in (package.source or "") for host in hosts)


def yanked(case: Case) -> Iterator[Fault]:
    """MW404: a build that upstream has withdrawn (PEP 592)."""
    for _, package in _locked(case):
        files = case.ledgers.wheels(package.name, package.version) if package.version is not None else ()
        reasons = [file.yanked for file in files]
        if files and None not in reasons:
            why = next((f": {reason}" for reason in reasons if reason), "")
            what = f"{package.name} {package.version} was yanked upstream{why}"
            yield Fault(place=package.place, what=what, fix=Fix(paste=f"{package.name}!={package.version}"))


def _locked(case: Case) -> Iterator[tuple[Lock, Locked]]:
    for lock in case.project.locks:
        if lock.kind != "environment":
            yield from ((lock, package) for package in lock.packages if watched(package.name))


def unmet(case: Case) -> Iterator[Fault]:
    """MW501: an installed package whose requirement is not met."""
    for view in case.views:
        if view.lock.kind != "environment":
            continue
        installed = {item.name: item for item in view.lock.packages}
        for item in view.lock.packages:
            for line in item.requires:
                try:
                    wanted = Requirement(line)
                except InvalidRequirement:
                    continue
                name = canonicalize_name(wanted.name)
                asked = watched(name) or wrapper_of(name) is not None
                if not asked or not view.target.fits(str(wanted.marker) if wanted.marker else None):
                    continue
                there = installed.get(name)
                if (
                    there is None
                    or there.version is None
                    or not wanted.specifier.contains(there.version, prereleases=True)
                ):
                    has = f"{name} {there.version} is installed" if there is not None else f"{name} is not installed"
                    what = f"{item.name} {item.version} requires {line.partition(';')[0].strip()!r}, but {has}"
                    fix = Fix(paste=f'pip install --force-reinstall "{item.name}=={item.version}"')
                    yield Fault(place=item.place, what=what, fix=fix)
