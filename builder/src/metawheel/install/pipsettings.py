"""The settings that make plain pip and uv take the right build: what they have to say, and putting that in. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from configparser import RawConfigParser
from contextlib import suppress
from dataclasses import dataclass

from metawheel.detect.choose import NoBuild
from metawheel.detect.interpreter import Interpreter
from metawheel.detect.offers import Catalog, Offer
from metawheel.detect.probe import Machine
from metawheel.errors import UnknownName
from metawheel.install.wish import Wish, choices_for, constraint_lines

# A setting of these sections comes before the same one under [global] (pip's "Configuration", "Precedence").
SECTIONS = ("install", "download", "wheel", "lock")
_BEGIN = "# metawheel: put in by `metawheel pip insert`; `metawheel pip remove` takes it out\n"
_END = "# metawheel: end\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an installer's own settings need to say for plain commands to take the right build."""

    index: str
    backend: str
    constraints: tuple[str, ...]  # lines
    narrow: bool  # whether the index has the builds of one backend only


PYTHONS = range(8, 20)  # minor versions that settings for all Pythons of a user look at


def settings_for(
    wish: Wish, catalog: Catalog, machine: Machine, interpreter: Interpreter, *, all_pythons: bool
) -> Settings:
    """The settings for one environment, or for all Pythons of a user; raises UnknownName, NoBuild."""
    (choices, _, others) = choices_for(wish, catalog, machine, interpreter)
    if others:
        raise UnknownName(f"{', '.join(others)}: no wrapper of the index installs it")
    for choice in choices:
        _refuse_plugins(choice.offer, catalog)
    found = [(interpreter, choices)]
    if all_pythons:
        found = []
        for minor in PYTHONS:
            other = interpreter.with_minor(minor)
            with suppress(NoBuild):
                found.append((other, choices_for(wish, catalog, machine, other)[0]))
    backends = {choice.offer.backend for _, chosen in found for choice in chosen}
    one = backends.pop() if len(backends) == 1 else None
    index = catalog.view(one) if one is not None else catalog.index
    if index is None:
        raise NoBuild("there is no index to put into the settings")
    pythons: dict[str, list[str]] = {}
    for python, chosen in found:
        for line in constraint_lines(chosen, python):
            pythons.setdefault(line, []).append(python.environment["python_version"])
    lines = [
        line if len(where) == len(found) else f"{line} ; {_any_of(where)}" for line, where in sorted(pythons.items())
    ]
    backend = one or ", ".join(sorted({choice.offer.backend for choice in choices}))
    narrow = index != catalog.index or len({offer.backend for offer in catalog.offers}) == 1
    return Settings(index=index, backend=backend, constraints=tuple(lines), narrow=narrow)


def _any_of(pythons: Iterable[str]) -> str:
    return " or ".join(f'python_version == "{version}"' for version in pythons)


def _refuse_plugins(offer: Offer, catalog: Catalog) -> None:
    """A backend that is a plugin beside a plain build needs a name that `pip install jax` does not say."""
    plain = [other for other in catalog.offers if other.kind == offer.kind and other.backend == "cpu"]
    if plugins := offer.base - frozenset().union(*(other.base for other in plain)) if plain else frozenset():
        raise UnknownName(
            f"{offer.wrapper}: needs {', '.join(sorted(plugins))} besides, which a plain command does not name; "
            f"use `metawheel install`"
        )


def pip_lines(
    text: str, settings: Mapping[str, str], together: Mapping[tuple[str, str], str]
) -> tuple[str, tuple[str, ...]]:
    """A pip.conf with values added to its list settings, and the runs of lines that were put in. Pure.

    `together` is what all files say: a setting here hides the same one of a file that comes before, so its values
    are said again. Raises ValueError where the text is not such a file.
    """
    old = _values(text)
    put: list[str] = []
    for section in ("global", *SECTIONS):
        new: dict[str, list[str]] = {}
        for name, value in settings.items():
            if (section, name) in old:
                text, run = _append(text, section, name, value)
                put.append(run)
            elif section == "global" or (section, name) in together:
                new[name] = [*together.get((section, name), "").split(), value]
        if new:
            text, run = _add(text, section, new)
            put.append(run)
    now = _values(text)
    for key, value in old.items():
        if now[key] != value and not set(value.split()) < set(now[key].split()):
            raise ValueError(f"[{key[0]}] {key[1]} would change")
    return text, tuple(put)


def _values(text: str) -> dict[tuple[str, str], str]:
    """(section, setting) → value, with the setting's name as pip reads it."""
    parser = RawConfigParser()
    parser.read_string(text)
    return {(s, _setting(name)): value for s in parser.sections() for name, value in parser.items(s)}


def _setting(name: str) -> str:
    return name.strip().lower().removeprefix("--").replace("_", "-")


def _lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _header(lines: Sequence[str], section: str) -> int | None:
    """The line of a section's header, as configparser finds it: what follows the bracket is no part of the name."""
    matches = ((number, RawConfigParser.SECTCRE.match(line.strip())) for number, line in enumerate(lines))
    return next((number for number, match in matches if match and match["header"] == section), None)


def _append(text: str, section: str, name: str, value: str) -> tuple[str, str]:
    """Add a value to a setting that is there, as a line of its own below its first, indented further than that."""
    lines = _lines(text)
    start = _header(lines, section) or 0
    at = next(n for n in range(start + 1, len(lines)) if _setting(re.split("[=:]", lines[n], maxsplit=1)[0]) == name)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    run = f"{indent}    {value}\n"
    return "".join([*lines[: at + 1], run, *lines[at + 1 :]]), run


def _add(text: str, section: str, settings: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Add settings under a section's header, or with a section at the end."""
    lines = _lines(text)
    start = _header(lines, section)
    below = lines[start + 1 :] if start is not None else []
    # What is indented further than the setting above it would belong to that.
    first = next((line for line in below if line.strip() and line.strip()[0] not in "#;"), "")
    indent = first[: len(first) - len(first.lstrip())]
    said = ""
    for name, values in settings.items():
        said += f"{indent}{name} =\n" + "".join(f"{indent}    {value}\n" for value in values)
    if start is None:
        said = f"[{section}]\n{said}"
        return "".join([*lines, said]), said
    return "".join([*lines[: start + 1], said, *lines[start + 1 :]]), said


def uv_lines(text: str, index: str) -> tuple[str, tuple[str, ...]]:
    """A uv.toml with our index before all others, and the run of lines that was put in. Pure.

    Raises ValueError where the text is not TOML, or lists its indexes in a way that lines cannot be put before.
    """
    before = tomllib.loads(text)
    run = f'{_BEGIN}[[index]]\nname = "metawheel"\nurl = {json.dumps(index)}\n{_END}'
    lines = _lines(text)
    at = next((n for n, line in enumerate(lines) if re.match(r"\s*\[\[\s*index\s*\]\]", line)), len(lines))
    result = "".join([*lines[:at], run, *lines[at:]])
    try:
        after = tomllib.loads(result)
    except tomllib.TOMLDecodeError:
        raise ValueError("writes its indexes as `index = […]`; write them as [[index]] tables") from None
    ours = {"name": "metawheel", "url": index}
    if after != {**before, "index": [ours, *before.get("index", [])]}:
        raise ValueError("cannot take an index before its own")
    return result, (run,)
