"""The text of machine-written TOML locks: what nobody asks about is skipped, so that large ones are read fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from metawheel.doctor.model import LockedFile, Place
from metawheel.doctor.toml_text import loads, parse

_HEADER = re.compile(r"^\[\[(packages?)\]\][ \t]*$", re.MULTILINE)
_NAME = re.compile(r'^name = "([^"\n]*)"', re.MULTILINE)
_FILES = re.compile(r"^(?:wheels|files) = \[\n(?:[ \t].*\n)*\]|^sdist = \{.*\}$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockText:
    """A lock's content; each package with its place."""

    path: str
    data: Mapping[str, Any]
    packages: tuple[tuple[Mapping[str, Any], Place], ...]
    unhashed: tuple[tuple[str, Place], ...]  # of the packages whose files were skipped


def read_lock_text(text: str, path: str, keep: Callable[[NormalizedName], bool]) -> LockText:
    """Parse a lock; the files of packages that `keep` does not ask for are left out. Raises ProjectError.

    What is skipped keeps its line ends, so that numbers of lines hold. Without multi-line strings a line can begin
    inside nothing but an array, so a header at its start is one; a lock that has them is read whole.
    """
    unhashed: list[tuple[str, int]] = []
    headers: list[int] = []
    if '"""' not in text and "'''" not in text:
        text, headers, unhashed = _skim(text, keep)
    data = loads(text, path)
    found = next((value for key in ("package", "packages") if isinstance(value := data.get(key), list)), [])
    tables = [(number, item) for number, item in enumerate(found) if isinstance(item, dict)]
    if len(headers) != len(found):
        scanned = parse(text, path)
        key = "package" if "package" in data else "packages"
        headers = [scanned.place(key, number).line for number in range(len(found))]
    return LockText(
        path=path,
        data=data,
        packages=tuple((item, Place(path, headers[number])) for number, item in tables),
        unhashed=tuple((name, Place(path, line)) for name, line in unhashed),
    )


def _skim(text: str, keep: Callable[[NormalizedName], bool]) -> tuple[str, list[int], list[tuple[str, int]]]:
    starts = [match.start() for match in _HEADER.finditer(text)]
    parts = [text[: starts[0]]] if starts else [text]
    line = parts[0].count("\n") + 1
    headers: list[int] = []
    unhashed: list[tuple[str, int]] = []
    for start, end in pairwise([*starts, len(text)]):
        block = text[start:end]
        name = _NAME.search(block)
        headers.append(line)
        line += block.count("\n")
        if name is not None and not keep(canonicalize_name(name[1])):
            skipped = _FILES.findall(block)
            if not _all_hashed("".join(skipped)):
                unhashed.append((name[1], headers[-1]))
            for files in skipped:
                block = block.replace(files, "\n" * files.count("\n"), 1)
        parts.append(block)
    return "".join(parts), headers, unhashed


def _all_hashed(array: str) -> bool:
    return array.count("{ url = ") + array.count("{file = ") <= array.count("hash = ") + array.count("hashes = ")


def tables(table: object, key: str) -> list[dict[str, Any]]:
    """An array of tables that may be absent, or something else."""
    found = table.get(key) if isinstance(table, Mapping) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def table(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, dict) else {}


def text(value: object, key: str) -> str | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None


def texts(value: object, key: str) -> list[str]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def version_of(value: str | None) -> Version | None:
    try:
        return Version(value) if value else None
    except InvalidVersion:
        return None


def file_name(where: str) -> str:
    """The file name in a URL, a path or a name."""
    try:
        return unquote(urlsplit(where).path.rpartition("/")[2])
    except ValueError:
        return ""


def locked_files(entries: Iterator[Mapping[str, Any]] | list[dict[str, Any]]) -> tuple[LockedFile, ...]:
    """The files in the tables of a lock, whichever keys it uses."""
    found = []
    for entry in entries:
        where = next((value for key in ("file", "filename", "name", "url", "path") if (value := text(entry, key))), "")
        sha256 = text(table(entry, "hashes"), "sha256")
        hashed = text(entry, "hash") or ""
        size = entry.get("size")
        found.append(
            LockedFile(
                filename=file_name(where),
                sha256=sha256 or (hashed.removeprefix("sha256:") if hashed else None),
                size=size if isinstance(size, int) else None,
            )
        )
    return tuple(file for file in found if file.filename)
