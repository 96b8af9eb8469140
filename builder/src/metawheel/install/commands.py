"""`metawheel install`: which wrappers a wish needs, and the commands that install them. Pure, but for the last step.

Nothing is looked up by a wrapper's name: a stranger may have registered it on PyPI. The wrapper is named by its
address and its sha256, as the index gives them; what it pins carries a local version label, which PyPI refuses, or is
the upstream project itself. All other names go where the installer's own settings send them.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from metawheel.detect.choose import Choice, NoBuild
from metawheel.detect.interpreter import Interpreter
from metawheel.detect.offers import Catalog, Offer
from metawheel.detect.probe import Machine
from metawheel.errors import MetawheelError, OutputError, UnknownName
from metawheel.files import write_atomic
from metawheel.install.wish import Wish, choices_for, constraint_lines, pinned


class InstallFailed(MetawheelError):
    """An installer that ended with an error; what it said is above."""

    exit_code = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """What installs: `python -m pip`, or uv from outside of the environment."""

    words: tuple[str, ...]
    is_uv: bool

    def command(self, verb: str, interpreter: Interpreter, *arguments: str) -> tuple[str, ...]:
        target = ("--python", interpreter.executable) if self.is_uv else ()
        confirmed = ("-y",) if verb == "uninstall" and not self.is_uv else ()
        return (*self.words, verb, *target, *confirmed, *arguments)


def installer_of(interpreter: Interpreter, uv: str | None) -> Installer:
    """The installer that an environment has: its own pip, else uv if the machine has it; raises UnknownName."""
    if interpreter.has_pip:
        return Installer(words=(interpreter.executable, "-m", "pip"), is_uv=False)
    if uv is not None:
        return Installer(words=(uv, "pip"), is_uv=True)
    raise UnknownName(f"{interpreter.executable}: has no pip, and there is no uv on the PATH; install one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be done: files to write and commands to run, in this order."""

    choices: tuple[Choice, ...]
    constraints: tuple[str, ...]  # lines
    constraints_path: Path
    commands: tuple[tuple[str, ...], ...]


def plan(
    wish: Wish, catalog: Catalog, machine: Machine, interpreter: Interpreter, installer: Installer, cache: Path
) -> Plan:
    """All that will be done; raises UnknownName, NoBuild."""
    choices, extras, others = choices_for(wish, catalog, machine, interpreter)
    constraints = constraint_lines(choices, interpreter)
    path = cache / "constraints" / f"{hashlib.sha256(_text(constraints)).hexdigest()[:16]}.txt"
    option = "--index" if installer.is_uv else "--extra-index-url"
    views = dict.fromkeys(catalog.view(choice.offer.backend) for choice in choices)
    indexes = [word for url in views if url for word in (option, url)]
    wrappers = [_reference(c.offer, extras[c.offer.wrapper], interpreter) for c in choices if c.offer.wrapper in extras]
    direct = [line for c in choices for line in _direct(c.offer, extras.get(c.offer.wrapper, ()), interpreter)]
    words = (*indexes, "-c", str(path), *wrappers, *direct, *others, *wish.arguments)
    commands = [installer.command("install", interpreter, *words)]
    if before := _in_the_way(choices, interpreter):
        commands.insert(0, installer.command("uninstall", interpreter, *before))
    if after := _left_over(choices, catalog, interpreter):
        commands.append(installer.command("uninstall", interpreter, *after))
    return Plan(choices=choices, constraints=constraints, constraints_path=path, commands=tuple(commands))


def _text(constraints: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in constraints).encode()


def _reference(offer: Offer, extras: Sequence[str], interpreter: Interpreter) -> str:
    """A wrapper by its address and its sha256: no index is asked for its name."""
    wheel = offer.wheel(interpreter) or ""
    sha256 = offer.wheels.get(wheel)
    if wheel not in offer.urls or sha256 is None:
        raise NoBuild(f"{wheel}: the index gives no sha256 for it, and without one it might be a stranger's")
    names = f"[{','.join(extras)}]" if extras else ""
    return f"{offer.wrapper}{names} @ {offer.urls[wheel]}#sha256={sha256}"


def _direct(offer: Offer, extras: Sequence[str], interpreter: Interpreter) -> list[str]:
    """The direct references of a wrapper: uv takes them only if they are asked for too."""
    wanted = {*offer.base, *(name for name, extra in offer.companions.items() if extra in extras)}
    pins = offer.pins(interpreter)
    return [str(pins[name]) for name in sorted(wanted & pins.keys()) if pins[name].url is not None]


def _in_the_way(choices: Iterable[Choice], interpreter: Interpreter) -> tuple[str, ...]:
    """What satisfies a pin although it is another build: `==X` is satisfied by X+anything (PEP 440)."""
    found = set()
    for choice in choices:
        for name, requirement in choice.offer.pins(interpreter).items():
            pin, there = pinned(requirement), interpreter.installed.get(canonicalize_name(name))
            if pin is not None and there is not None:
                have = Version(there)
                if have.local is not None and Version(pin).local is None and Version(have.public) == Version(pin):
                    found.add(str(name))
    return tuple(sorted(found))


def _left_over(choices: Iterable[Choice], catalog: Catalog, interpreter: Interpreter) -> tuple[str, ...]:
    """Wrappers of other backends, and what only these install (jax-cuda12-plugin beside the CPU's jaxlib)."""
    chosen = tuple(choice.offer for choice in choices)
    kept = {name for offer in chosen for name in (offer.wrapper, *offer.base, *offer.companions)}
    gone: set[str] = set()
    for offer in catalog.offers:
        if any(offer.base & mine.base and offer.backend != mine.backend for mine in chosen):
            gone |= {offer.wrapper, *offer.base} - kept
    # torch-cuda requires torch-cu130: without the one the other is no more than a broken requirement.
    gone |= {name for name, requires in catalog.names.items() if requires & gone and name not in kept}
    return tuple(sorted(gone & set(interpreter.installed)))


def write_constraints(planned: Plan) -> None:
    """Write the constraints where the command looks for them; raises OutputError."""
    try:
        planned.constraints_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{planned.constraints_path.parent}: cannot be made: {error.strerror}") from error
    write_atomic(planned.constraints_path, _text(planned.constraints))


def run(planned: Plan, *, stdout_is_taken: bool = False) -> None:
    """Run the commands one after the other; raises InstallFailed at the first that fails."""
    for command in planned.commands:
        try:
            done = subprocess.run(command, stdout=sys.stderr if stdout_is_taken else None, check=False)
        except OSError as error:
            raise InstallFailed(f"{command[0]}: cannot be run: {error.strerror}") from error
        if done.returncode:
            raise InstallFailed(f"{' '.join(command[:4])} … ended with {done.returncode}; nothing after it was run")
