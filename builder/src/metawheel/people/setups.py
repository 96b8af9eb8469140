"""The clients' set-ups that the front page shows, and what fills them in. Pure."""

from __future__ import annotations

import functools
import string
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from packaging.requirements import Requirement
from packaging.version import Version

from metawheel.coverage import platform_name
from metawheel.model import Platform, Wrapper

PLACEHOLDER = "https://index.example/"  # RFC 2606: an address that nobody can have
_SYSTEMS = {"darwin": "macos", "win32": "windows"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to paste: lines of a file, or commands."""

    title: str
    language: str
    text: str  # a string.Template, without the last line's end


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client and the steps of its one safe set-up."""

    key: str
    name: str
    why: str
    steps: tuple[Step, ...]


@functools.cache
def clients() -> tuple[Client, ...]:
    """The clients in the order that pages show them in."""
    text = (files("metawheel") / "templates" / "people" / "clients.toml").read_text(encoding="utf-8")
    return tuple(
        Client(
            key=facts["key"],
            name=facts["name"],
            why=facts["why"],
            steps=tuple(Step(**{**step, "text": step["text"].strip()}) for step in facts["step"]),
        )
        for facts in tomllib.loads(text)["client"]
    )


def fill(step: Step, values: dict[str, str]) -> str:
    """A step's text; raises KeyError on a name that has no value."""
    return string.Template(step.text).substitute(values)


def wrapper_values(wrapper: Wrapper) -> dict[str, str]:
    """What a version of a wrapper fills in."""
    return {
        "wrapper": wrapper.name,
        "version": wrapper.version,
        "name_and_extras": wrapper.name,
        "requirement": f"{wrapper.name}=={wrapper.version}",
        "view": "" if wrapper.view is None else f"{wrapper.view}/",
        "packages": ", ".join(f'"{name}"' for name in packages(wrapper)),
    }


def packages(wrapper: Wrapper) -> list[str]:
    """The projects that must come from the site: the wrapper, what its lines name and what its extras pin."""
    required = {Requirement(line).name for line in wrapper.requires}
    return [wrapper.name, *sorted((required | {file.project for file in wrapper.files}) - {wrapper.name})]


def python_values(python: str) -> dict[str, str]:
    """What an interpreter fills in; `python` as coverage maps have it, such as cp313t."""
    name = python_name(python)
    version = Version(name.removesuffix("t"))
    after = f"{version.major}.{version.minor + 1}" if version.minor else f"{version.major + 1}"
    return {"interpreter": name, "python": str(version), "requires_python": f">={version},<{after}"}


def python_name(python: str) -> str:
    """An interpreter as people say it: 3.13t for cp313t."""
    digits = python.lstrip("cpy")
    return f"{digits[0]}.{digits[1:]}" if len(digits.removesuffix("t")) > 1 else digits


def platform_values(platform: Platform) -> dict[str, str]:
    """What a platform fills in: the Python launcher, PDM's name for it, and a lock file's name."""
    system = _SYSTEMS.get(platform.sys_platform, platform.sys_platform)
    machine = platform.machine.lower()
    pdm = {
        ("linux", "x86_64"): "linux",
        ("windows", "amd64"): "windows",
    }.get((system, machine), f"manylinux_2_28_{machine}" if system == "linux" else f"{system}_{machine}")
    return {
        "platform": platform_name(platform),
        "launcher": "py -" if system == "windows" else "python",
        "pdm": pdm,
        "system": f"{system}_{machine}" if system != "linux" or machine != "x86_64" else "linux",
    }
