"""Fixes as patches, and their application: a backup beside each file, the file replaced in one step."""

from __future__ import annotations

import difflib
import os
import stat
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from metawheel.doctor.model import Edit, Finding
from metawheel.errors import OutputError, masked
from metawheel.files import write_atomic

_TOML = (".toml", "Pipfile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A file that was changed, and where its old content is."""

    path: str
    backup: str
    edits: int


def edited(text: str, edits: Iterable[Edit]) -> str | None:
    """A file's text with all edits; None where one does not fit: its text must stand in its line exactly once."""
    lines = text.split("\n")
    # From the last line up: an edit may add or remove lines.
    for edit in sorted(set(edits), key=lambda edit: (-edit.place.line, edit.old)):
        number = edit.place.line - 1
        if not 0 <= number < len(lines) or lines[number].count(edit.old) != 1:
            return None
        end = "\r" if lines[number].endswith("\r") else ""
        if edit.new is None:
            if lines[number].strip() != edit.old:
                return None
            del lines[number]
        else:
            lines[number] = lines[number].replace(edit.old, edit.new.replace("\n", f"{end}\n"))
    return "\n".join(lines)


def patch(text: str, path: str, edits: Iterable[Edit]) -> str | None:
    """A unified diff without context, to be shown; None where an edit does not fit."""
    new = edited(text, edits)
    if new is None:
        return None
    old_lines, new_lines = (content.replace("\r\n", "\n").splitlines() for content in (text, new))
    diff = difflib.unified_diff(old_lines, new_lines, f"a/{path}", f"b/{path}", n=0, lineterm="")
    return masked("\n".join(diff))


def read_raw(folder: Path, path: str) -> str | None:
    """A file's text as it is; None where it cannot be read, or does not lie in the project."""
    place = folder / path
    try:
        inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
        return place.read_bytes().decode() if inside else None
    except (OSError, UnicodeDecodeError):
        return None


def apply(folder: Path, findings: Sequence[Finding]) -> tuple[Applied, ...]:
    """Apply the safe fixes; raises OutputError, and then the file that it names is as it was."""
    wanted: dict[str, list[Edit]] = defaultdict(list)
    for finding in findings:
        if finding.fix.safe:
            for edit in finding.fix.edits:
                wanted[edit.place.path].append(edit)
    done = []
    for path, edits in sorted(wanted.items()):
        text = read_raw(folder, path)
        fitting = _fitting(text, edits) if text is not None else []
        new = edited(text, fitting) if text is not None else None
        if text is None or new is None or new == text or not _parses(path, new):
            continue
        place = Path(os.path.realpath(folder / path))
        mode = stat.S_IMODE(place.stat().st_mode)  # it may hold a password
        backup = _back_up(place, text.encode(), mode)
        write_atomic(place, new.encode(), mode=mode)
        done.append(Applied(path=path, backup=backup.name, edits=len(fitting)))
    return tuple(done)


def _fitting(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits that fit, without those that others rule out."""
    found: list[Edit] = []
    for edit in sorted(set(edits), key=lambda edit: (edit.place, edit.old, edit.new or "")):
        if edited(text, [*found, edit]) is not None:
            found.append(edit)
    return found


def _parses(path: str, text: str) -> bool:
    if not path.endswith(_TOML):
        return True
    try:
        tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _back_up(place: Path, content: bytes, mode: int) -> Path:
    """Write a copy beside a file, under the first free name."""
    number = 0
    while True:
        backup = place.with_name(f"{place.name}.bak{number or ''}")
        try:
            with os.fdopen(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise OutputError(f"{backup}: cannot be written: {error.strerror}") from error
        else:
            return backup
