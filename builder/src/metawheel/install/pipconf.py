"""`metawheel pip`: settings of pip and uv that make plain commands take the right build, put in and taken out.

Only lines are put in, none is changed: what was there stands as it stood. A record beside the settings keeps the file
as it was, byte for byte, and the lines; `remove` puts the file back, or, if it was edited since, takes the lines out.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from configparser import Error as ConfigError
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs

from metawheel.detect.interpreter import Interpreter
from metawheel.errors import OutputError, UnknownName
from metawheel.files import write_atomic
from metawheel.install.pipsettings import SECTIONS, pip_lines, uv_lines

Scope = Literal["user", "venv"]
Tool = Literal["pip", "uv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where settings go: the tool's file, and our folder beside it."""

    tool: Tool
    scope: Scope
    config: Path
    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / f"{self.tool}.json"

    @property
    def constraints(self) -> Path:
        return self.folder / "constraints.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was put in, and what the file was before."""

    config: str
    before: str | None  # base64; None: there was no file
    after: str  # sha256 of the file with our lines
    lines: tuple[str, ...]  # each a run of whole lines that was put in
    index: str
    backend: str
    constraints: tuple[str, ...] = ()

    @classmethod
    def load(cls, place: Place) -> Record | None:
        try:
            data: dict[str, Any] = json.loads(place.record.read_text(encoding="utf-8"))
            return cls(**{**data, "lines": tuple(data["lines"]), "constraints": tuple(data["constraints"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise OutputError(f"{place.record}: cannot be read; mend or remove it, and our lines by hand") from None


def place_of(tool: Tool, scope: Scope, interpreter: Interpreter, environ: Mapping[str, str]) -> Place:
    """Where a tool reads its settings for a scope; raises UnknownName where there is no such place."""
    if scope == "user":
        return Place(tool=tool, scope=scope, config=_user_file(tool, environ), folder=_user_folder())
    if not interpreter.is_venv:
        raise UnknownName(f"{interpreter.executable}: is not in a virtual environment; use --scope user")
    prefix = Path(interpreter.prefix)
    name = "pip.ini" if os.name == "nt" else "pip.conf"
    # uv has no settings of an environment; it reads those of the folder that it is called in, and above.
    config = prefix / name if tool == "pip" else prefix.parent / "uv.toml"
    return Place(tool=tool, scope=scope, config=config, folder=prefix / ".metawheel")


def _user_folder() -> Path:
    return Path(platformdirs.user_config_dir("metawheel"))


def _user_file(tool: Tool, environ: Mapping[str, str]) -> Path:
    """pip's "Configuration files", "Location"; uv's "Configuration files"."""
    if os.name == "nt":
        return Path(environ["APPDATA"]) / tool / ("pip.ini" if tool == "pip" else "uv.toml")
    xdg = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if tool == "uv":
        return xdg / "uv" / "uv.toml"
    mac = Path.home() / "Library" / "Application Support" / "pip"
    return (mac if sys.platform == "darwin" and mac.is_dir() else xdg / "pip") / "pip.conf"


def effective(interpreter: Interpreter) -> dict[tuple[str, str], str]:
    """What pip's files say together, (section, setting) → value, in pip's own words; raises OutputError."""
    command = [interpreter.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise OutputError(
            f"pip cannot read its settings: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    found = {}
    for line in done.stdout.splitlines():
        key, separator, value = line.partition("=")
        section, dot, setting = key.partition(".")
        if separator and dot and section != ":env:":
            found[section, setting] = str(ast.literal_eval(value))
    return found


def insert(place: Place, *, index: str, backend: str, constraints: Sequence[str], interpreter: Interpreter) -> Record:
    """Put settings in; what an earlier insert put in is taken out first. Raises OutputError."""
    if Record.load(place) is not None:
        remove(place)
    before = _read(place.config)
    try:
        text = (before or b"").decode("utf-8")
        if place.tool == "pip":
            # pip splits its lists at spaces: a path with one can only be a URL.
            path = str(place.constraints)
            constraint = path if not re.search(r"\s", path) else place.constraints.absolute().as_uri()
            settings = {"extra-index-url": index, "constraint": constraint}
            after, lines = pip_lines(text, settings, effective(interpreter))
        else:
            _refuse_hiding(place)
            after, lines = uv_lines(text, index)
    except (ValueError, ConfigError) as error:
        raise OutputError(f"{place.config}: {str(error).splitlines()[0]}; nothing was changed") from None
    content = after.encode()
    record = Record(
        config=str(place.config),
        before=None if before is None else base64.b64encode(before).decode(),
        after=hashlib.sha256(content).hexdigest(),
        lines=lines,
        index=index,
        backend=backend,
        constraints=tuple(constraints) if place.tool == "pip" else (),
    )
    # The record first: whatever stops us after it, `remove` knows the file as it was.
    _write(place.record, json.dumps(asdict(record), indent=1, sort_keys=True).encode() + b"\n", private=True)
    if place.tool == "pip":
        _write(place.constraints, "".join(f"{line}\n" for line in constraints).encode())
    _write(place.config, content, private="@" in index)
    return record


def remove(place: Place) -> bool:
    """Take settings out again; False where there are none of ours. Raises OutputError."""
    record = Record.load(place)
    if record is None:
        return False
    before = None if record.before is None else base64.b64decode(record.before)
    now = _read(place.config)
    if now is not None and hashlib.sha256(now).hexdigest() == record.after:
        _put(place, before)
    elif now != before and now is not None:
        _put(place, _without(place.config, now, record))
    if place.tool == "pip":
        place.constraints.unlink(missing_ok=True)
    place.record.unlink(missing_ok=True)
    if place.folder.is_dir() and not any(place.folder.iterdir()):
        place.folder.rmdir()
    return True


def hidden(place: Place, record: Record, interpreter: Interpreter, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What keeps our settings from being heeded: variables, or files that come later."""
    names = ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT") if place.tool == "pip" else ("UV_NO_CONFIG", "UV_CONFIG_FILE")
    found = [f"the variable {name}" for name in names if environ.get(name)]
    if place.tool == "pip":
        together = effective(interpreter)
        for section in ("global", *SECTIONS):
            value = together.get((section, "extra-index-url"))
            if record.index not in (value or "").split() and (section == "global" or value is not None):
                found.append(f"[{section}] extra-index-url of another file")
    return tuple(found)


def _without(path: Path, now: bytes, record: Record) -> bytes | None:
    """A file that was edited since, without our lines; None where nothing else is in it."""
    text = now.decode("utf-8", "surrogateescape")
    for run in sorted(set(record.lines), key=len, reverse=True):  # a short one may stand in a long one
        if text.count(run) != record.lines.count(run):
            raise OutputError(
                f"{path}: was edited, and {run.strip()!r} is not in it as it was put in; take it out by hand, then "
                "remove the folder of the record"
            )
        text = text.replace(run, "")
    return text.encode("utf-8", "surrogateescape") if text.strip() or record.before is not None else None


def _refuse_hiding(place: Place) -> None:
    """uv reads no [tool.uv] of a folder that has a uv.toml: then the project's own settings would be lost."""
    project = place.config.with_name("pyproject.toml")
    if place.scope != "venv" or place.config.exists() or not project.is_file():
        return
    try:
        has_settings = "uv" in tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        has_settings = True
    if has_settings:
        raise ValueError(f"would hide [tool.uv] of {project}; add the index there, or use --scope user")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def _put(place: Place, content: bytes | None) -> None:
    if content is not None:
        _write(place.config, content)
        return
    place.config.unlink(missing_ok=True)
    if place.scope == "user" and not any(place.config.parent.iterdir()):
        place.config.parent.rmdir()


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file in one step; its mode stays (passwords), and a link to it stays a link. Raises OutputError."""
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600 if private else 0o644
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    write_atomic(path, content, mode=mode)
