"""What one platform gets of a release: its wheels, the cells that they give, the lines that require them. Pure."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from metawheel.model import Cell, Platform, UpstreamFile
from metawheel.tags import PythonTag, cell_key, marker, platforms, system_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What one platform gets."""

    own: bool  # the backend itself, not the plain build that stands in for it
    pin: str
    files: tuple[UpstreamFile, ...]
    cells: tuple[Cell, ...]
    beside: tuple[str, ...] = ()  # what is required with it: plugins
    direct: tuple[str, ...] = ()  # the direct flavour's lines


class Unusable(Exception):
    """Upstream has wheels, but none that may be pinned; the message is the reason."""


@functools.cache
def project_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def file_platforms(file: UpstreamFile) -> frozenset[Platform]:
    return _platforms(file.name.tags)


@functools.cache
def _platforms(tags: frozenset[Tag]) -> frozenset[Platform]:
    return frozenset(platform for tag in tags for platform in platforms(tag.platform))


def cells_of(files: Iterable[UpstreamFile], platform: Platform, build: str) -> tuple[Cell, ...]:
    """The cells of wheels on one platform, whose build is known under that name."""
    found = {
        Cell(interpreter=tag.interpreter, abi=tag.abi, platform_tag=tag.platform, platform=platform, build=build)
        for file in files
        for tag in file.name.tags
        if platform in platforms(tag.platform)
    }
    return tuple(sorted(found, key=cell_key))


def requires_python_of(files: Iterable[UpstreamFile], cells: Sequence[Cell]) -> str:
    """Upstream's lower bound, the highest of the projects; where upstream states none, that of the interpreters.

    Never an upper bound: it would keep Poetry from locking.
    """
    oldest = min(PythonTag(cell.interpreter, cell.abi).version for cell in cells)
    lowest = ".".join(map(str, oldest))
    bounds: dict[str, list[str]] = defaultdict(list)
    for project, stated in {(file.project, file.requires_python or "") for file in files}:
        bounds[project].append(_lower_bound(stated) or lowest)
    return f">={max((min(found, key=Version) for found in bounds.values()), key=Version)}"


@functools.cache
def _lower_bound(requires_python: str) -> str | None:
    found = (s.version.removesuffix(".*") for s in SpecifierSet(requires_python) if s.operator in (">=", "~=", "=="))
    return max(found, key=Version, default=None)


def directly(branch: Branch, platform: Platform, omitted: list[tuple[str, str]]) -> Branch:
    """Replace a branch's pin by one line for each cell; what PyPI hosts stays a pin, PyPI serves it."""
    project = project_of(branch.pin)
    own = [file for file in branch.files if file.project == project]
    where = marker([platform])
    if any(file.url is None for file in own):
        lines = tuple(f"{pin} ; {where}" for pin in (branch.pin, *branch.beside))
        return replace(branch, cells=_left_to_pypi(branch, own, platform, omitted), direct=lines)
    best = _best(own, platform, omitted)
    lines = tuple(
        f"{project} @ {file.url}{f'#sha256={file.sha256}' if file.sha256 else ''} ; {condition} and {where}"
        for condition, (file, _) in sorted(best.items(), key=lambda item: cell_key(item[1][1]))
    )
    chosen = {(cell.interpreter, cell.abi, cell.platform_tag) for _, cell in best.values()}
    cells = tuple(cell for cell in branch.cells if (cell.interpreter, cell.abi, cell.platform_tag) in chosen)
    return replace(branch, cells=cells, direct=(*lines, *(f"{requirement} ; {where}" for requirement in branch.beside)))


def _left_to_pypi(
    branch: Branch, own: Sequence[UpstreamFile], platform: Platform, omitted: list[tuple[str, str]]
) -> tuple[Cell, ...]:
    """The cells of a branch whose pin PyPI serves: where it hosts only some of the wheels, those of these."""
    hosted = [file for file in own if file.url is None]
    if len(hosted) == len(own):
        return branch.cells
    names = [file.filename for file in own if file.url is not None]
    omitted += [(f"{platform}: {name}", "PyPI hosts others of this build, and not this one") for name in names]
    there = {(cell.interpreter, cell.abi) for cell in cells_of(hosted, platform, "")}
    cells = tuple(cell for cell in branch.cells if (cell.interpreter, cell.abi) in there)
    if not cells:
        raise Unusable("PyPI hosts no wheel of it that fits")
    return cells


def _best(
    own: Iterable[UpstreamFile], platform: Platform, omitted: list[tuple[str, str]]
) -> dict[str, tuple[UpstreamFile, Cell]]:
    """The wheel for each condition on the interpreter; no two of the conditions hold at once."""
    best: dict[str, tuple[tuple[object, ...], UpstreamFile, Cell]] = {}
    # Of two builds of one wheel the greater build tag is the newer (binary distribution format, "Build tag").
    for file in sorted(own, key=lambda file: file.name.build, reverse=True):
        for cell in cells_of([file], platform, ""):
            condition = PythonTag(cell.interpreter, cell.abi).marker
            if condition is None:
                omitted.append((f"{platform} {cell.python}", "environment markers cannot tell this interpreter"))
                continue
            # Of two wheels for one cell the one that runs on more systems; manylinux before linux, that before musl.
            tag = cell.platform_tag
            rank = (tag.startswith("musllinux_"), tag.startswith("linux_"), system_version(tag))
            if condition not in best or rank < best[condition][0]:
                best[condition] = (rank, file, cell)
    found = {condition: (file, cell) for condition, (_, file, cell) in best.items()}
    if not found:
        raise Unusable("no interpreter that environment markers can tell")
    exact = {condition: item for condition, item in found.items() if "==" in condition}
    if not exact:  # the lowest bound holds wherever another one does
        lowest = min(found, key=lambda condition: PythonTag(found[condition][1].interpreter, "").version)
        return {lowest: found[lowest]}
    omitted += [
        (f"{platform} {cell.interpreter}-{cell.abi}", "its line would hold beside that of an exact interpreter")
        for _, cell in (found[condition] for condition in sorted(found.keys() - exact.keys()))
    ]
    return exact
