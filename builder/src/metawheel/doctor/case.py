"""The case that the rules judge: a project, its targets, and what would be installed on each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from packaging.utils import NormalizedName
from packaging.version import Version

from metawheel.doctor.known import (
    Backend,
    backend_named,
    known,
    of_interest,
    plain_backend,
    plugin_backend,
    watched,
    wrapper_of,
)
from metawheel.doctor.ledgers import Ledgers
from metawheel.doctor.model import Choice, Declared, Index, Lock, Locked, Project, Source
from metawheel.doctor.targets import Target

TORCH = NormalizedName("torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one lock installs on one target, of the projects that rules ask about."""

    lock: Lock
    target: Target
    selection: str
    active: Mapping[NormalizedName, tuple[Locked, ...]]

    @property
    def locked(self) -> bool:
        """Whether files were chosen (by a lock or an installer), not only required."""
        return self.lock.kind != "requirements"

    @property
    def by_pip(self) -> bool:
        """Whether it is of a requirements file: the tables of other tools say nothing of it."""
        return self.lock.kind == "requirements" and self.lock.path.endswith((".txt", ".in"))

    def one(self, name: str) -> Locked | None:
        """A project's one version here; None where it is absent, or there are several."""
        found = self.active.get(NormalizedName(name), ())
        return found[0] if len(found) == 1 else None

    def items(self) -> Iterator[Locked]:
        for found in self.active.values():
            yield from found


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that rules may ask about."""

    project: Project
    targets: tuple[Target, ...]
    ledgers: Ledgers = field(default_factory=Ledgers)
    backend: Backend | None = None  # what the user says the machines have
    uv_torch_backend: str | None = None  # the environment variable UV_TORCH_BACKEND
    dependencies: tuple[tuple[Source, Project], ...] = ()  # those in folders beside the project

    @cached_property
    def views(self) -> tuple[View, ...]:
        """Every lock on every target it is made for; a selection only where it adds or changes something."""
        found: list[View] = []
        for lock in self.project.locks:
            for target in self.targets:
                if not lock.covers(target):
                    continue
                plain: Mapping[NormalizedName, tuple[Locked, ...]] | None = None
                for selection in lock.selections:
                    active = _of_interest(lock.active(target, selection))
                    if selection == "" or active != plain:
                        found.append(View(lock=lock, target=target, selection=selection, active=active))
                    plain = active if selection == "" else plain
        return tuple(found)

    @cached_property
    def real_locks(self) -> tuple[Lock, ...]:
        return tuple(lock for lock in self.project.locks if lock.kind not in {"requirements", "environment"})

    def index(self, source: Source) -> Index | None:
        """The index that a source names."""
        return next(
            (index for index in self.project.indexes if index.tool == source.tool and index.name == source.index), None
        )

    def declared(self, name: str) -> tuple[Declared, ...]:
        return tuple(item for item in self.project.declared if item.name == name and not item.constraint)

    def tool(self, name: str, lock: Lock | None = None) -> str:
        """The form of requirements in which a project is to be written: as it is, or as a lock's tool has it."""
        by = [item.tool for item in self.declared(name)] + [item.tool for item in self.project.declared]
        if lock is not None and lock.kind in {"poetry", "pipenv"}:
            return next((tool for tool in by if tool in {"pep621", lock.kind}), lock.kind)
        return by[0] if by else "pip"

    def sources(self, name: str) -> tuple[Source, ...]:
        return tuple(source for source in self.project.sources if source.name == name)

    def indexes_of(self, item: Declared) -> tuple[Index, ...]:
        """The indexes that the tool of a requirement looks at for it."""
        by = {"pip": set(), "pipenv": {"pipenv"}}.get(item.tool, {"uv", "poetry"})
        sources = (source for source in self.sources(item.name) if source.tool in by)
        named = [index for source in sources if (index := self.index(source)) is not None]
        if named:
            return tuple(named)
        return tuple(index for index in self.project.indexes if index.role != "explicit" and self.in_reach(index, item))

    def in_reach(self, index: Index, item: Declared) -> bool:
        """Whether the tool that reads a requirement reads of the index too."""
        if item.tool == "pip":
            live = index.tool == "pip" and index.dropped is None
            return live and self.project.read_together(index.place, item.place)
        return index.tool == item.tool if item.tool == "pipenv" else index.tool in {"uv", "poetry", "pdm"}

    def wanted(self, view: View) -> tuple[Backend, str] | None:
        """The backend that torch is meant to have in a view, and who says so; None where nobody does."""
        if view.target.mac:
            return None
        if self.backend is not None:
            return self.backend, "--backend"
        if view.lock.kind in {"environment", "requirements"}:
            return None
        for source in self.sources(TORCH):
            if view.target.fits(source.marker) and source.scope in {"", view.selection}:
                index = self.index(source)
                if index is not None and (backend := backend_named(index.backend)) is not None:
                    return backend, str(source.place)
        for item in self.project.declared:
            if item.tool == "pip" or item.scope not in {"", view.selection}:
                continue
            if item.constraint or not view.target.fits(item.marker):
                continue
            wrapper = wrapper_of(item.name)
            if wrapper is not None and wrapper[0] == TORCH and wrapper[1].kind != "select":
                return wrapper[1], str(item.place)
            if item.name == TORCH and item.pin is not None and (backend := backend_named(item.pin.local)) is not None:
                return backend, str(item.place)
        return None

    def build(self, view: View, item: Locked) -> Backend | None:
        """The backend of what is locked; None where the lock does not say."""
        if not watched(item.name):
            return None
        if item.version is not None and item.version.local is not None:
            return backend_named(item.version.local)
        if item.name == "jax":
            return None  # pure Python: jaxlib and plugins are the builds
        if (plugin := plugin_backend(item.name)) is not None:
            return plugin
        if view.target.mac:
            return Backend("cpu")
        if item.name == "jaxlib":
            return next((found for name in view.active if (found := plugin_backend(name)) is not None), Backend("cpu"))
        if item.source is not None:
            by_folder = Index(url=item.source, place=item.place, tool="").backend
            if (backend := backend_named(by_folder)) is not None:
                return backend
        if not view.locked and self._labelled_in_reach(view, item):
            return self._declared_backend(view, item)
        return plain_backend(item.name, item.version, view.target)

    def _labelled_in_reach(self, view: View, item: Locked) -> bool:
        """Whether an index besides PyPI may answer for a requirement without a label."""
        return any(
            self.in_reach(index, line)
            for line in self.project.declared
            if line.name == item.name and line.place == item.place
            for index in self.project.indexes
            if index.role != "explicit" or self._named_index(view, item) is not None
        )

    def _declared_backend(self, view: View, item: Locked) -> Backend | None:
        """The backend of the one index that a requirement is looked up in, where that is certain."""
        named = self._named_index(view, item)
        if named is not None:
            return backend_named(named.backend)
        reach = [
            index
            for line in self.project.declared
            if line.name == item.name and line.place == item.place
            for index in self.indexes_of(line)
        ]
        if len(reach) == 1 and reach[0].tool == "pip" and reach[0].role == "primary":
            return backend_named(reach[0].backend)
        return None

    def source_here(self, view: View, name: str) -> Source | None:
        """The source that holds for a project in a view."""
        for source in () if view.by_pip else self.sources(name):
            if view.target.fits(source.marker) and source.scope in {"", view.selection}:
                return source
        return None

    def _named_index(self, view: View, item: Locked) -> Index | None:
        """The index that a source names for a project in a view."""
        source = self.source_here(view, item.name)
        return self.index(source) if source is not None else None

    def wheel(self, view: View, item: Locked) -> tuple[bool | None, str | None]:
        """Whether there is a wheel (or an sdist) for a view's target, and its name; None: nobody knows."""
        names = [file.filename for file in item.files] if item.files is not None else self._named(item)
        if view.lock.kind == "environment":
            return True, None
        if names is not None and names:
            fitting = next((name for name in names if view.target.takes(name)), None)
            if fitting is not None or all(name.endswith(".whl") for name in names):
                return fitting is not None, fitting
            return None, None
        if item.version is None:
            return None, None
        known_files = self.ledgers.wheels(item.name, item.version)
        if known_files:
            file = self.ledgers.wheel_for(item.name, item.version, view.target)
            # Plain builds lie on PyPI too, which the ledgers of torch do not record.
            whole = item.version.local is not None or all(file.url is None for file in known_files)
            if file is not None or whole:
                return file is not None, file.filename if file is not None else None
        return None, None

    def _named(self, item: Locked) -> list[str] | None:
        """The names of files that a lock gives by hash alone, where the ledgers know them all."""
        found = [self.ledgers.by_sha256.get(sha256) for sha256 in item.hashes]
        files = [file for file in found if file is not None]
        return [file.filename for file in files] if files and len(files) == len(found) else None

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Which build of each project each target gets, by each lock."""
        found: list[Choice] = []
        for view in self.views:
            for item in view.items():
                if not watched(item.name) or item.name in _HELPERS:
                    continue
                wheel, filename = self.wheel(view, item)
                backend = self.build(view, item)
                found.append(
                    Choice(
                        project=item.name,
                        target=view.target,
                        by=view.lock.path,
                        selection=view.selection,
                        version=str(item.version) if item.version is not None else None,
                        wanted=item.wanted,
                        backend=str(backend) if backend is not None else None,
                        filename=filename,
                        wheel=wheel,
                    )
                )
        return tuple(found)


_HELPERS = frozenset({"triton", "pytorch-triton", "triton-rocm", "triton-xpu", "torchdata"})


def _of_interest(packages: tuple[Locked, ...]) -> Mapping[NormalizedName, tuple[Locked, ...]]:
    found: dict[NormalizedName, tuple[Locked, ...]] = {}
    for package in sorted(packages, key=lambda item: (item.name, item.version or Version("0"), item.place)):
        if of_interest(package.name):
            found[package.name] = (*found.get(package.name, ()), package)
    return found


def companions() -> tuple[NormalizedName, ...]:
    return tuple(NormalizedName(name) for name in known()["companions"])
