"""Families: what is wrapped, from where and under which names, read from packages/*/family.toml."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from metawheel.errors import FamilyError, UnknownName
from metawheel.model import UpstreamFile

FAMILY_FILE = "family.toml"
LEDGER_FILE = "ledger.jsonl"
HASHES_FILE = "hashes.csv"
# Names that no view may take.
SITE_FOLDERS = frozenset(
    {"simple", "files", "wrappers", "static", "index.html", "matrix.html", "changes.atom", "metawheel.json"}
)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


def _specifiers(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError(f"not a version specifier: {value!r}") from None
    return value


def _normalized(value: str) -> NormalizedName:
    name = canonicalize_name(value, validate=True)
    if name != value:
        raise ValueError(f"not a normalized project name; write {name!r}")
    return name


def _requirement(value: str) -> str:
    try:
        Requirement(value)
    except InvalidRequirement:
        raise ValueError(f"not a requirement: {value!r}") from None
    return value


def _fields(template: str) -> set[str]:
    """The fields of a template, with the format that one asks for: none may."""
    parts = string.Formatter().parse(template)
    return {f"{name}{conversion or ''}{form}" for _, name, form, conversion in parts if name is not None}


Project = Annotated[str, AfterValidator(_normalized)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Specifiers = Annotated[str, AfterValidator(_specifiers)]
Required = Annotated[str, AfterValidator(_requirement)]
SysPlatform = Literal["linux", "darwin", "win32"]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


class Source(_Table):
    """Where upstream lists files: a simple index, a flat page of links, a folder of wheels, or PyPI."""

    name: str
    kind: Literal["simple", "links", "folder", "pypi"]
    projects: Annotated[list[Project], Field(min_length=1)]
    url: str = ""  # `simple`: with {project}; `folder`: where the files of `path` are served
    path: str = ""  # `folder`: relative to the family's folder
    root: str = ""  # what a file's folder is counted from; else the page's own folder, without {project}
    same_as: list[str] = []  # other addresses of `root`: the same paths there are the same files
    folders: dict[str, str] = {}  # folder → backend of the plain builds in it; else the folder's own name

    @model_validator(mode="after")
    def _complete(self) -> Source:
        if any("@" in urlsplit(url).netloc for url in (self.url, self.root)):
            raise ValueError("the url holds a user or password, which would end in ledgers and sites; use ~/.netrc")
        if self.kind != "pypi" and not self.url:
            raise ValueError(f"a source of kind {self.kind!r} needs a url")
        if self.kind == "simple" and "{project}" not in self.url:
            raise ValueError("the url of a simple index needs {project}")
        if self.kind == "folder" and not self.path:
            raise ValueError("a source of kind 'folder' needs a path")
        return self

    @property
    def base(self) -> str:
        return self.root or self.url.partition("{project}")[0].rpartition("/")[0] + "/"

    def canonical(self, url: str) -> str:
        """The one address that a file is recorded under, whatever host its link took."""
        for other in self.same_as:
            if url.startswith(other):
                return self.base + url.removeprefix(other)
        return url

    def folder_backend(self, file: UpstreamFile) -> str:
        """The backend of a plain build, by the folder that it lies in."""
        folder = "" if file.url is None else unquote(file.url.removeprefix(self.base)).rpartition("/")[0]
        return self.folders.get(folder, folder)


class Plugin(_Table):
    """Projects that turn a plain build into another backend when installed beside it."""

    backend: str
    requires: Annotated[list[Required], Field(min_length=1)]  # project names, extras allowed
    systems: list[SysPlatform]


class Companion(_Table):
    """A project that is paired with the wrapped one by its own METADATA."""

    project: Project
    releases: Specifiers = ""  # those worth recording
    extra: str | None = None  # the wrapper's extra that installs it
    pairs_in_extra: str | None = None  # the companion's extra that names the wrapped project, if its base does not
    prefer_same_version: bool = False


class WrapperRule(_Table):
    """A rule that names wrappers after the backends that upstream has."""

    name: str  # {backend} or a named group of the pattern in braces
    summary: str
    backend: Pattern | None = None
    fallback: list[SysPlatform] = []  # where the plain build stands in for the backend
    adds: list[Project] = []  # companions that every wrapper of this rule requires
    narrows: str | None = None  # emit only where several backends share that rule's name
    newest_of: str | None = None  # depend on the newest wrapper of that rule
    view: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> WrapperRule:
        if (self.backend is None) == (self.newest_of is None):
            raise ValueError("a wrapper needs either backend or newest-of")
        known = {"backend", *re.compile(self.backend or "").groupindex}
        for key, template, more in (
            ("name", self.name, ()),
            ("view", self.view, ()),
            ("summary", self.summary, ("version",)),
        ):
            if unknown := _fields(template or "") - known - set(more):
                raise ValueError(f"{key} has {{{min(unknown)}}}, which is neither backend nor a group of its pattern")
        return self

    def filled(self, template: str, backend: str, **more: object) -> str:
        """A template with a backend and the groups of the pattern; "" for a group that takes no part in the match."""
        match = re.fullmatch(self.backend or "", backend)
        groups = match.groupdict("") if match is not None else {}
        return template.format(**{"backend": backend, **groups, **more})


class Family(_Table):
    """One folder under packages/, checked: every rule and source fits the others."""

    folder: Path
    project: Project
    summary: str
    headline: Project
    releases: Specifiers = ""
    prereleases: bool = False
    prefix: str = ""
    plain: str  # the backend that `==X` without a label may stand for
    source: Annotated[list[Source], Field(min_length=1)]
    wrapper: Annotated[list[WrapperRule], Field(min_length=1)]
    companion: list[Companion] = []
    plugin: list[Plugin] = []

    @model_validator(mode="after")
    def _consistent(self) -> Family:
        rules = {rule.name for rule in self.wrapper}
        companions = {companion.project for companion in self.companion}
        required = {canonicalize_name(Requirement(name).name) for plugin in self.plugin for name in plugin.requires}
        for project in sorted({self.project, *companions, *required} - self.listed):
            raise ValueError(f"no source lists the project {project!r}")
        if self.prefix and not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-?", self.prefix):
            raise ValueError(f"prefix {self.prefix!r} is not the beginning of a normalized project name")
        if len({source.name for source in self.source}) < len(self.source):
            raise ValueError("two sources have one name")
        for rule in self.wrapper:
            for other in (rule.newest_of, rule.narrows):
                if other is not None and other not in rules:
                    raise ValueError(f"wrapper {rule.name!r} refers to {other!r}, which no wrapper is named")
            for project in rule.adds:
                if project not in companions:
                    raise ValueError(f"wrapper {rule.name!r} adds {project!r}, which is no companion")
        return self

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def ledger_path(self) -> Path:
        return self.folder / LEDGER_FILE

    @property
    def listed(self) -> frozenset[str]:
        """The projects that its sources list."""
        return frozenset(project for source in self.source for project in source.projects)

    def may_emit(self, wrapper: str) -> bool:
        """Whether a wrapper's name fits one of the rules; which backends there are is the ledger's to say."""
        return any(
            re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(canonicalize_name(self.prefix + rule.name))), wrapper)
            for rule in self.wrapper
        )

    def source_named(self, name: str) -> Source:
        for source in self.source:
            if source.name == name:
                return source
        raise FamilyError(
            f"{self.folder / FAMILY_FILE}: source: the ledger has files of {name!r}; no source is named so"
        )

    def backend(self, file: UpstreamFile) -> str:
        """The backend of a build: its local version label, or for a plain build its folder."""
        return file.local if file.local is not None else self.source_named(file.source).folder_backend(file)

    def _specifiers_for(self, project: str) -> list[str]:
        if project == self.project:
            return [self.releases]
        return [companion.releases for companion in self.companion if companion.project == project]

    def wants(self, file: UpstreamFile, systems: Iterable[str]) -> bool:
        """Whether a file on a page, for the platforms with these sys_platform values, belongs in the ledger."""
        version = file.name.version
        if version.is_prerelease and not self.prereleases:
            return False
        for specifiers in self._specifiers_for(file.project):
            if not SpecifierSet(specifiers).contains(file.release, prereleases=self.prereleases):
                return False
        if file.project not in {self.project, *(c.project for c in self.companion if c.extra)}:
            return True  # plugins and pure companions: all of them
        backend = self.backend(file)
        for rule in self.wrapper:
            if rule.backend is not None and re.fullmatch(rule.backend, backend):
                return True
            if backend == self.plain and set(rule.fallback) & set(systems):
                return True
        return False


def load_family(folder: Path) -> Family:
    """Read folder/family.toml; raises FamilyError, which names the file and every wrong key."""
    path = folder / FAMILY_FILE
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FamilyError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise FamilyError(f"{path}: not TOML: {error}") from error
    try:
        return Family.model_validate({**data, "folder": folder})
    except ValidationError as error:
        raise FamilyError("\n".join(_explain(path, fault) for fault in error.errors())) from None


def _explain(path: Path, fault: Any) -> str:
    location = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{path}: unknown key {location!r}; see 'Add a family' in the README for the keys there are"
    if fault["type"] == "missing":
        return f"{path}: the key {location!r} is missing"
    where = f"{location!r}: " if location else ""
    return f"{path}: {where}{fault['msg'].removeprefix('Value error, ')}"


def find_packages(start: Path) -> Path:
    """The nearest packages/ folder with families in it, in `start` or above it."""
    for folder in (start, *start.parents):
        if any((folder / "packages").glob(f"*/{FAMILY_FILE}")):
            return folder / "packages"
    raise UnknownName(f"no packages/*/{FAMILY_FILE} in {start} or above it; name the folder with --packages")


def load_families(packages: Path, names: Iterable[str] = ()) -> tuple[Family, ...]:
    """All families under a folder, or those named; raises FamilyError, UnknownName."""
    folders = sorted(path.parent for path in packages.glob(f"*/{FAMILY_FILE}"))
    if not folders:
        raise UnknownName(f"{packages}: no family here (no */{FAMILY_FILE})")
    known = {folder.name: folder for folder in folders}
    wanted = sorted(set(names)) or sorted(known)
    for name in wanted:
        if name not in known:
            raise UnknownName(f"no family {name!r} in {packages}; there are {', '.join(sorted(known))}")
    return tuple(load_family(known[name]) for name in wanted)
