"""Reading a project: every file that says something about what is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from metawheel.doctor.declared_lock import DeclaredLock, requirements_unhashed
from metawheel.doctor.known import of_interest
from metawheel.doctor.lock_marked import pdm_lock, pipfile_lock, pylock
from metawheel.doctor.lock_poetry import poetry_lock
from metawheel.doctor.lock_text import table, texts
from metawheel.doctor.lock_uv import uv_lock
from metawheel.doctor.model import Lock, NoProject, Project, ProjectError, Source
from metawheel.doctor.pipfile import read_pipfile
from metawheel.doctor.pyproject import local_path, read_pyproject, uv_indexes, uv_settings
from metawheel.doctor.requirements_files import read_requirements, requirements_files
from metawheel.doctor.toml_text import Toml, parse, read_text

Read = TypeVar("Read")

_LOCKS: dict[str, Callable[[str, str, Project], Lock]] = {
    "uv.lock": lambda text, name, project: uv_lock(text, name, of_interest),
    "poetry.lock": lambda text, name, project: poetry_lock(text, name, of_interest, project),
    "pdm*.lock": lambda text, name, project: pdm_lock(text, name, of_interest, project),
    "Pipfile.lock": lambda text, name, project: pipfile_lock(text, name),
    "pylock.toml": lambda text, name, project: pylock(text, name, of_interest),
    "pylock.*.toml": lambda text, name, project: pylock(text, name, of_interest),
}


class _Faults:
    """What could not be read, to be told all at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def read(self, reader: Callable[[], Read]) -> Read | None:
        try:
            return reader()
        except ProjectError as error:
            self.messages.append(str(error))
            return None


def read_project(folder: Path) -> Project:
    """Read a project's files; raises ProjectError, which names every file that cannot be read."""
    if not folder.is_dir():
        raise ProjectError(f"{folder}: is not a folder")
    faults = _Faults()
    parts = [part for read in _READERS if (part := faults.read(partial(read, folder))) is not None]
    project = _merged(parts)
    own_files = set(project.files)
    locks = [lock for read in _lock_readers(folder, project) if (lock := faults.read(read)) is not None]
    if not locks and project.declared:
        locks.append(
            DeclaredLock(
                path=min(own_files), declared=project.declared, python=project.python, environments=project.environments
            )
        )
    for name in requirements_files(folder):
        found = faults.read(partial(read_requirements, folder, name))
        if found is None:
            continue
        lines = tuple(found.declared)
        project = replace(
            project,
            files=tuple(dict.fromkeys((*project.files, *found.files))),
            declared=tuple(dict.fromkeys((*project.declared, *lines))),
            unread=tuple(dict.fromkeys((*project.unread, *found.unread))),
            indexes=tuple(dict.fromkeys((*project.indexes, *found.indexes))),
            compiled=(*project.compiled, *found.compiled),
            together=(*project.together, tuple(found.files)),
        )
        locks.append(
            DeclaredLock(path=name, declared=lines, python=project.python, unhashed=requirements_unhashed(lines))
        )
    if faults.messages:
        raise ProjectError("\n".join(faults.messages))
    if not project.files and not locks:
        raise NoProject(
            f"{folder}: no project here: no pyproject.toml, Pipfile, requirements file or lock; name its folder"
        )
    names = tuple(dict.fromkeys((*project.files, *(lock.path for lock in locks))))
    return replace(project, files=names, locks=tuple(locks))


def _pyproject(folder: Path) -> Project | None:
    path = folder / "pyproject.toml"
    if not path.exists():
        return None
    toml = parse(read_text(path, path.name), path.name)
    return replace(read_pyproject(toml), members=tuple(_members(folder, toml)))


def _members(folder: Path, toml: Toml) -> Iterator[Project]:
    """The projects of a uv workspace; raises ProjectError."""
    workspace = table(table(table(toml.data, "tool"), "uv"), "workspace")
    excluded = set(_globbed(folder, texts(workspace, "exclude")))
    for path in sorted({*_globbed(folder, texts(workspace, "members"))} - excluded):
        if (path / "pyproject.toml").is_file():
            name = (path / "pyproject.toml").relative_to(folder).as_posix()
            yield read_pyproject(parse(read_text(folder / name, name), name))


def _globbed(folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        try:
            yield from folder.glob(pattern)
        except (ValueError, NotImplementedError):
            continue  # not a pattern of paths in a folder


def _uv_toml(folder: Path) -> Project | None:
    path = folder / "uv.toml"
    if not path.exists():
        return None
    toml = parse(read_text(path, path.name), path.name)
    return Project(files=(path.name,), indexes=tuple(uv_indexes(toml, ())), settings=uv_settings(toml, ()))


def _pipfile(folder: Path) -> Project | None:
    path = folder / "Pipfile"
    return read_pipfile(parse(read_text(path, path.name), path.name)) if path.exists() else None


_READERS: tuple[Callable[[Path], Project | None], ...] = (_pyproject, _uv_toml, _pipfile)


def _merged(parts: Iterable[Project]) -> Project:
    """The files of one project together; what can be said once, the first says."""
    whole = Project()
    for part in parts:
        whole = replace(
            whole,
            files=whole.files + part.files,
            declared=whole.declared + part.declared,
            unread=whole.unread + part.unread,
            indexes=whole.indexes + part.indexes,
            sources=whole.sources + part.sources,
            extras=whole.extras + part.extras,
            extras_named=whole.extras_named + part.extras_named,
            settings=whole.settings + part.settings,
            name=whole.name or part.name,
            python=whole.python or part.python,
            environments=whole.environments or part.environments,
            optional_groups=whole.optional_groups + part.optional_groups,
            required=whole.required or part.required,
            targets=whole.targets or part.targets,
            pythons=whole.pythons or part.pythons,
            ignore=whole.ignore or part.ignore,
            members=whole.members + part.members,
            built_with=whole.built_with + part.built_with,
            dynamic=whole.dynamic or part.dynamic,
        )
    return whole


def _lock_readers(folder: Path, project: Project) -> Iterator[Callable[[], Lock]]:
    for pattern, reader in _LOCKS.items():
        for path in sorted(folder.glob(pattern)):
            yield partial(_read_lock, path, reader, project)


def _read_lock(path: Path, reader: Callable[[str, str, Project], Lock], project: Project) -> Lock:
    return reader(read_text(path, path.name), path.name, project)


def dependency_sources(folder: Path, source: Source) -> tuple[Project, str] | None:
    """What a dependency in a folder beside the project says, and its name for messages; None if it cannot be read."""
    where = local_path(source)
    path = folder / where / "pyproject.toml" if where else None
    if path is None or not path.is_file():
        return None
    try:
        return read_pyproject(parse(read_text(path, str(path)), f"{where}/pyproject.toml")), f"{where}/pyproject.toml"
    except ProjectError:
        return None
