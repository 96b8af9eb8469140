"""The values of the doctor: what project and lock files say, and what is found wrong with it. All frozen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName
from packaging.version import Version

from metawheel.doctor.targets import Target
from metawheel.errors import MetawheelError


class ProjectError(MetawheelError):
    """A project, lock or requirements file, or an environment, that cannot be read."""

    exit_code: ClassVar[int] = 16


class NoProject(ProjectError):
    """A folder without any file that says something about what is installed."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file; the path is relative to the project, with forward slashes."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A requirement as a project declares it."""

    name: NormalizedName
    place: Place
    text: str  # as written
    tool: str  # whose form it has: "pep621", "uv", "poetry", "pdm", "pipenv" or "pip"
    specifier: SpecifierSet | None = None  # None: not a PEP 440 specifier (`===` of anything, a Git reference)
    marker: str | None = None
    extras: tuple[str, ...] = ()  # as written
    url: str | None = None  # a direct reference (PEP 508), or Poetry's and Pipenv's keys for it
    scope: str = ""  # "": the project itself; "extra:NAME" or "group:NAME"
    hashed: bool = False
    override: bool = False  # takes the place of what is asked for (`tool.uv.override-dependencies`)
    constraint: bool = False  # from a constraints file: bounds a project, but does not ask for it

    @property
    def pin(self) -> Version | None:
        """The version that the requirement is pinned to (PEP 440, "Version matching"), if it is."""
        for clause in self.specifier or ():
            if clause.operator in {"==", "==="} and not clause.version.endswith(".*"):
                return Version(clause.version)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A requirement line that is not one (PEP 508)."""

    place: Place
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index, or a page of links, that a project file names."""

    url: str
    place: Place
    tool: str
    name: str | None = None
    role: str = "ordinary"  # "primary", "extra", "explicit" or "links" where its tool makes it one of these
    only: tuple[str, ...] = ()  # the projects that alone are looked up there, as patterns
    flat: bool = False  # its tool reads it as a page of links, whatever its role
    dropped: Place | None = None  # the line because of which pip forgets it: a later one, or its own

    @property
    def backend(self) -> str | None:
        """The backend whose folder of PyTorch's index, or view of a metawheel site, it is."""
        path = self.url.split("#")[0].rstrip("/")
        match = re.search(r"/(cpu|xpu|cu\d{2,3}|rocm[\d.]+|cuda\d+)(?:/simple|/torch_stable\.html)?$", path)
        return match[1] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a tool is told to take a project from (`tool.uv.sources`, Poetry's and Pipenv's keys)."""

    name: NormalizedName
    place: Place
    tool: str
    index: str | None = None  # the name of an index
    kind: str = "index"  # "index", "git", "url", "path" or "workspace"
    value: str = ""  # the address, for the other kinds
    marker: str | None = None
    scope: str = ""  # the extra or group that it is for; "": all


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra that a project declares, or a place that names one of its own."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """A file that a lock names."""

    filename: str
    sha256: str | None = None
    size: int | None = None  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One version of a project in a lock or an environment."""

    name: NormalizedName
    version: Version | None
    place: Place
    wanted: str = ""  # the specifier, where only requirements say what is installed
    files: tuple[LockedFile, ...] | None = None  # None: the lock's form names no files
    hashes: tuple[str, ...] = ()  # sha256 values whose files are not named
    source: str | None = None  # the index or URL that the lock says it comes from
    registry: bool = True  # from an index, not from Git, a folder or the project itself
    requires: tuple[str, ...] = ()  # requirement lines, of what is installed


class Lock(Protocol):
    """What is locked (or installed), as any of the forms has it."""

    @property
    def path(self) -> str: ...

    @property
    def kind(self) -> str:
        """ "uv", "poetry", "pdm", "pipenv", "pylock", "requirements" or "environment"."""
        ...

    @property
    def packages(self) -> tuple[Locked, ...]: ...

    @property
    def unhashed(self) -> tuple[tuple[str, Place], ...]:
        """Of what needs a hash, what has none."""
        ...

    @property
    def selections(self) -> tuple[str, ...]:
        """ "": the project itself; the extras and groups that can be added to it."""
        ...

    def covers(self, target: Target) -> bool:
        """Whether the lock is made for the target."""
        ...

    def active(self, target: Target, selection: str = "") -> tuple[Locked, ...]:
        """What would be installed on the target."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """All that the files of a project say."""

    files: tuple[str, ...] = ()
    declared: tuple[Declared, ...] = ()
    unread: tuple[Unread, ...] = ()
    indexes: tuple[Index, ...] = ()
    compiled: tuple[str, ...] = ()  # requirements files that a resolver wrote: nothing else is installed
    together: tuple[tuple[str, ...], ...] = ()  # each requirements file with those that it includes
    sources: tuple[Source, ...] = ()
    extras: tuple[Extra, ...] = ()
    extras_named: tuple[Extra, ...] = ()
    name: str | None = None
    python: str | None = None  # requires-python
    environments: tuple[str, ...] = ()  # markers of the platforms that it is for; empty: all
    optional_groups: tuple[str, ...] = ()  # groups of Poetry that are installed only when they are asked for
    required: tuple[str, ...] = ()  # markers of the platforms that it must work on (`tool.uv.required-environments`)
    settings: tuple[tuple[str, str, Place], ...] = ()  # such as ("uv.index-strategy", "unsafe-best-match", …)
    targets: tuple[str, ...] = ()  # [tool.metawheel.doctor]
    pythons: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    locks: tuple[Lock, ...] = ()
    members: tuple[Project, ...] = ()  # of its uv workspace
    built_with: tuple[NormalizedName, ...] = ()  # what its build backend, or those of its dependencies, need
    dynamic: bool = False  # whether its requirements stand elsewhere than in pyproject.toml

    def read_together(self, one: Place, other: Place) -> bool:
        """Whether two lines of requirements files are read by one run of pip."""
        return any(one.path in files and other.path in files for files in self.together)

    def setting(self, name: str) -> tuple[str, Place] | None:
        return next(((value, place) for key, value, place in self.settings if key == name), None)


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of a text that stands once in a line; None for the new text removes the line."""

    place: Place
    old: str
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """The shortest way out: edits, or lines to paste."""

    paste: str = ""
    edits: tuple[Edit, ...] = ()
    safe: bool = False  # the edits change nothing but what is wrong: `--fix` may apply them


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a rule reports; its targets are merged with those of an equal fault."""

    place: Place
    what: str  # one sentence without its end
    fix: Fix
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault with its code."""

    code: str
    title: str
    severity: str  # "error" or "warning"
    place: Place
    message: str
    fix: Fix
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check: its code never changes its meaning, and is never used again."""

    code: str
    title: str
    severity: str
    check: Callable[[Any], Iterable[Fault]] = field(repr=False)  # takes the Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What would be installed of a project on a target, by a lock or, without one, by the requirements."""

    project: NormalizedName
    target: Target
    by: str  # the file
    selection: str
    version: str | None
    wanted: str  # the specifier, where no version is chosen
    backend: str | None
    filename: str | None
    wheel: bool | None  # whether there is a wheel for the target; None: not known
