"""The coverage map of a wrapper: which build each interpreter gets on each platform. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metawheel.model import Cell, Platform, Wrapper
from metawheel.tags import PythonTag

_SYSTEM_NAMES = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A table: a row for each platform, a column for each interpreter, the build or None in between."""

    interpreters: tuple[str, ...]
    rows: tuple[tuple[Platform, tuple[str | None, ...]], ...]


def coverage(wrapper: Wrapper) -> Coverage:
    """The coverage map of a wrapper's cells."""
    interpreters = _interpreters(wrapper.cells)
    platforms = sorted({cell.platform for cell in wrapper.cells})
    builds = {(cell.platform, cell.python): cell.build for cell in wrapper.cells}
    return Coverage(
        interpreters=interpreters,
        rows=tuple(
            (platform, tuple(builds.get((platform, python)) for python in interpreters)) for platform in platforms
        ),
    )


def _interpreters(cells: Sequence[Cell]) -> tuple[str, ...]:
    order = {cell.python: (PythonTag(cell.interpreter, cell.abi).version, cell.python) for cell in cells}
    return tuple(sorted(order, key=lambda python: order[python]))


def platform_name(platform: Platform) -> str:
    """A platform as people say it."""
    return f"{_SYSTEM_NAMES.get(platform.sys_platform, platform.sys_platform)} {platform.machine}"


def table(found: Coverage) -> list[list[str]]:
    """The map as rows of text, the header first."""
    header = ["platform", *found.interpreters]
    return [header, *([platform_name(platform), *(build or "–" for build in row)] for platform, row in found.rows)]


def markdown(found: Coverage) -> str:
    """The map as a Markdown table."""
    header, *rows = table(found)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
