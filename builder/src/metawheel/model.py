"""The values that the stages hand on; all frozen."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.tags import Tag
from packaging.utils import BuildTag, NormalizedName, parse_wheel_filename
from packaging.version import Version


@dataclass(frozen=True, slots=True)
class WheelName:
    """What a wheel's file name says (binary distribution format, "File name convention")."""

    project: NormalizedName
    version: Version
    release: Version  # without the local version label (PEP 440, "Local version identifiers")
    local: str | None  # that label
    build: BuildTag
    tags: frozenset[Tag]


@functools.cache
def wheel_name(filename: str) -> WheelName:
    """Parse a wheel's file name.

    Raises packaging.utils.InvalidWheelFilename, also where the version is not a PEP 440 version.
    """
    try:
        project, version, rest = filename.split("-", 2)
        return WheelName(_project(project), *_version(version), *_ending(rest))
    except ValueError:
        parse_wheel_filename(filename)  # says what is wrong, of the whole name
        raise


# Thousands of names share some hundred parts, and the library takes its time for each.
@functools.cache
def _project(name: str) -> NormalizedName:
    return parse_wheel_filename(f"{name}-0-py3-none-any.whl")[0]


@functools.cache
def _version(text: str) -> tuple[Version, Version, str | None]:
    version = Version(text)
    return version, Version(version.public), version.local


@functools.cache
def _ending(rest: str) -> tuple[BuildTag, frozenset[Tag]]:
    _, _, build, tags = parse_wheel_filename(f"name-0-{rest}")
    return build, tags


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFile:
    """One upstream wheel as a ledger records it."""

    filename: str
    source: str  # the family's name for where it is listed
    url: str | None  # canonical, without fragment; None: hosted by PyPI, whose pages give the URL
    sha256: str | None = None
    sha256_from: str | None = None  # "page", "pypi", "recorded" or "computed"
    upstream_sha256: str | None = None  # of the plain build that this relabelled one was made from
    size: int | None = None  # bytes
    metadata: str | None = None  # PEP 658 / 714: sha256 of the served METADATA; "true": served, hash unknown
    requires_python: str | None = None  # PEP 503 data-requires-python
    yanked: str | None = None  # PEP 592; the reason, "" where upstream gives none
    requires: tuple[str, ...] | None = None  # its requirement lines on the wrapped project; None: not known
    first_seen: str = ""  # ISO date
    gone: str | None = None  # ISO date since which upstream no longer lists it

    @property
    def name(self) -> WheelName:
        return wheel_name(self.filename)

    @property
    def project(self) -> NormalizedName:
        return self.name.project

    @property
    def release(self) -> Version:
        return self.name.release

    @property
    def local(self) -> str | None:
        return self.name.local

    @property
    def sort_key(self) -> tuple[str, Version, str, str, str]:
        return (self.project, self.name.version, self.filename, self.source, self.url or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something a source listed that could not be read: reported, never dropped in silence."""

    url: str
    item: str
    reason: str


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """A platform as environment markers see it (PEP 508: sys_platform, platform_machine)."""

    sys_platform: str
    machine: str

    def __str__(self) -> str:
        return f"{self.sys_platform} {self.machine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One interpreter on one platform for which upstream has a wheel."""

    interpreter: str  # Python tag, such as cp311
    abi: str  # ABI tag, such as cp313t, abi3 or none
    platform_tag: str
    platform: Platform
    build: str  # the version that is installed there, with its local version label

    @property
    def python(self) -> str:
        """The interpreter as people say it: cp313t for the free-threaded build."""
        free_threaded = self.abi.startswith("cp") and self.abi.endswith("t")
        return f"{self.interpreter}t" if free_threaded else self.interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Something upstream has that a wrapper leaves out, and why."""

    wrapper: str
    version: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one version of a meta-package says, whether it is planned, on a site, or on record as published."""

    name: str
    version: str  # upstream's, or that with `.postN` where what was published says something else
    release: str  # upstream's version
    flavour: str
    view: str | None  # the backend whose view of the site lists it
    summary: str
    requires: tuple[str, ...]  # Requires-Dist lines
    extras: tuple[tuple[str, tuple[str, ...]], ...]  # extra → its Requires-Dist lines
    requires_python: str
    reissued: str | None = None  # why it has a version of its own

    @property
    def key(self) -> str:
        return f"{self.name}=={self.version}"

    def facts(self) -> dict[str, Any]:
        """The same for another kind of statement."""
        return {name: getattr(self, name) for name in Statement.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper(Statement):
    """One version of a meta-package as it is planned: all that its wheels say."""

    family: str
    tags: tuple[str, ...]  # one compressed tag set for each wheel: the guards
    cells: tuple[Cell, ...]
    files: tuple[UpstreamFile, ...] = field(repr=False)  # the upstream wheels that its lines pin
    yanked: str | None = None
    readme: str | None = None  # as it was published; None: written from the cells

    @property
    def distribution(self) -> str:
        """The name as it stands in file names (binary distribution format, "Escaping and Unicode")."""
        return self.name.replace("-", "_")

    @property
    def wheels(self) -> tuple[str, ...]:
        return tuple(f"{self.distribution}-{self.version}-{tag}.whl" for tag in self.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Statement):
    """A wrapper as it was published: all that is needed to build it again, and the wheels that came of it."""

    readme: str
    wheels: Mapping[str, str]  # file name → sha256

    @property
    def tags(self) -> tuple[str, ...]:
        """One compressed tag set for each wheel, as a planned wrapper has them."""
        return tuple(sorted(name.removesuffix(".whl").split("-", 2)[2] for name in self.wheels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A built wrapper wheel."""

    filename: str
    sha256: str
    size: int  # bytes
    metadata_sha256: str
