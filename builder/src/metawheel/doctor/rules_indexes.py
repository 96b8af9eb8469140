"""Rules about indexes and sources: where a tool looks for a project, and where it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from metawheel.doctor import advice
from metawheel.doctor.case import TORCH, Case
from metawheel.doctor.known import backend_named, companions_of_torch, index_url, known, watched, wrapper_of
from metawheel.doctor.model import Declared, Edit, Fault, Fix, Index, Place, Source

_SOURCES_OF_TOOL = {
    "uv": '[tool.uv.sources]\n{name} = {{ index = "{index}" }}',
    "poetry": '[tool.poetry.dependencies]\n{name} = {{ version = "*", source = "{index}" }}',
    "pipenv": '[packages]\n{name} = {{ version = "*", index = "{index}" }}',
}
_OF_ROLE = {"primary": "--index-url", "extra": "--extra-index-url", "links": "--find-links"}
_JAX_PAGE = "https://storage.googleapis.com/jax-releases/jax_cuda_releases.html"


def explicit_source(case: Case) -> Iterator[Fault]:
    """MW301: what a project from an explicit index requires in turn is not looked up there."""
    seen: set[tuple[str, str]] = set()
    for source in case.project.sources:
        index = case.index(source)
        needed = _requires(source)
        if index is None or needed is None or index.role not in {"explicit", "restricted"}:
            continue
        if any(other.index == source.index for other in case.sources(needed)) or (source.name, needed) in seen:
            continue
        if wrapper_of(source.name) is None and (backend_named(index.backend) is None or case.sources(needed)):
            continue
        seen.add((source.name, needed))
        what = (
            f"{source.name} comes from {source.index!r}, which is asked for nothing else, so {needed}, "
            "which it requires, is looked for elsewhere"
        )
        yield Fault(place=source.place, what=what, fix=_opened(source, index, needed))


def _requires(source: Source) -> str | None:
    """The project of builds that a project requires."""
    wrapper = wrapper_of(source.name)
    if wrapper is not None:
        return wrapper[0]
    return TORCH if companions_of_torch(source.name) and source.name != TORCH else None


def _opened(source: Source, index: Index, needed: str) -> Fix:
    if wrapper_of(source.name) is not None and index.role == "explicit" and index.tool == "uv":
        return Fix(edits=(Edit(index.place, "explicit = true", "explicit = false"),))
    if wrapper_of(source.name) is not None and index.role == "explicit" and index.tool == "poetry":
        return Fix(edits=(Edit(index.place, "explicit", "supplemental"),))
    paste = _SOURCES_OF_TOOL[source.tool].format(name=needed, index=source.index)
    direct = f'[project]\ndependencies = ["{needed}"]\n\n' if source.tool == "uv" else ""
    return Fix(paste=direct + paste)


def unused_source(case: Case) -> Iterator[Fault]:
    """MW302: uv applies `tool.uv.sources` to the project's own requirements only."""
    projects = (case.project, *case.project.members)
    if any(project.dynamic for project in projects):
        return  # what is required stands elsewhere
    direct = {item.name for project in projects for item in project.declared if item.tool not in {"pip", "pipenv"}}
    direct |= {name for project in projects for name in project.built_with}
    for source in case.project.sources:
        if source.tool == "uv" and source.kind == "index" and watched(source.name) and source.name not in direct:
            what = f"{source.name} is no direct dependency, so uv ignores its source {source.index!r} without a word"
            yield Fault(place=source.place, what=what, fix=Fix(paste=f'[project]\ndependencies = ["{source.name}"]'))


def label_without_index(case: Case) -> Iterator[Fault]:
    """MW303: a labelled build, which PyPI cannot have, and no index that may."""
    for item in _labelled(case):
        if case.indexes_of(item):
            continue
        backend = str(backend_named(item.pin.local if item.pin else None))
        what = f"{item.text!r} asks for a build that PyPI cannot hold (it refuses labels), and no index is named"
        line = (
            f"--find-links {_JAX_PAGE}" if item.name == "jaxlib" else advice.index_lines(item.tool, item.name, backend)
        )
        yield Fault(place=item.place, what=what, fix=Fix(paste=line))


def label_of_other_index(case: Case) -> Iterator[Fault]:
    """MW304: a label that the index named for it does not have."""
    for item in _labelled(case):
        label = item.pin.local if item.pin else None
        indexes = case.indexes_of(item)
        folders = [index.backend for index in indexes]
        if not indexes or None in folders or label in folders or not companions_of_torch(item.name):
            continue
        index = indexes[0]
        what = f"{item.text!r} asks for a {label} build, but {index.url} holds those of {index.backend}"
        edits = (Edit(index.place, f"/{index.backend}", f"/{label}"),)
        yield Fault(place=item.place, what=what, fix=Fix(paste=index_url(str(label)), edits=edits))


def _labelled(case: Case) -> Iterator[Declared]:
    for item in case.project.declared:
        if item.pin is not None and item.url is None and watched(item.name) and backend_named(item.pin.local):
            yield item


def public_in_front(case: Case) -> Iterator[Fault]:
    """MW305: names that nobody registered on a public index, looked up there before or beside ours."""
    for item in case.project.declared:
        wrapper = wrapper_of(item.name)
        if wrapper is None or item.url is not None or item.constraint:
            continue
        indexes = [index for index in case.project.indexes if case.in_reach(index, item)]
        yield from _by_tool(case, item, indexes)


def _by_tool(case: Case, item: Declared, indexes: list[Index]) -> Iterator[Fault]:
    name = item.name
    if item.tool == "pip" and not item.hashed:
        for index in indexes:
            if index.role == "extra":
                what = (
                    f"pip takes the highest {name} of all indexes, so a stranger's on PyPI would win over {index.url}"
                )
                yield Fault(place=index.place, what=what, fix=Fix(paste=advice.relock("requirements", name)))
        return
    strategy = case.project.setting("uv.index-strategy")
    if strategy is not None and strategy[0].startswith("unsafe") and any(index.tool == "uv" for index in indexes):
        what = f"with {strategy[0]!r} uv takes the highest {name} of all indexes, so a stranger's on PyPI would win"
        fix = Fix(edits=(Edit(strategy[1], strategy[0], "first-index"),))
        yield Fault(place=strategy[1], what=what, fix=fix)
    for tool, hint in (("poetry", "source"), ("pdm", "include_packages")):
        ours = [index for index in indexes if index.tool == tool]
        primary = any(index.role == "primary" for index in ours)
        named = any(source.tool == tool for source in case.sources(name))
        kept = any(_matches(name, pattern) for index in ours for pattern in index.only)
        if ours and not primary and not named and not kept:
            index = ours[0]
            what = f"{name} is looked for on PyPI too, where a stranger may register it: nothing ties it to {index.url}"
            paste = (
                _SOURCES_OF_TOOL["poetry"].format(name=name, index=index.name)
                if hint == "source"
                else f'include_packages = ["{name}", "torch", "torchvision", "torchaudio"]'
            )
            yield Fault(place=item.place, what=what, fix=Fix(paste=paste))


def _matches(name: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None


def frozen_page(case: Case) -> Iterator[Fault]:
    """MW306: a page that upstream writes no more, for a release that came after."""
    for index in case.project.indexes:
        row = next((row for row in known()["frozen"] if index.url.split("#")[0].endswith(row["url"])), None)
        for item in case.project.declared if row is not None else ():
            last = row["versions"].get(item.name) if row is not None else None
            if last is None or not case.in_reach(index, item) or not _beyond(item, Version(last)):
                continue
            backend = backend_named(item.pin.local) if item.pin is not None else None
            what = f"{index.url} ends at {item.name} {last}, so {item.text!r} is not found there"
            url = index_url(str(backend or index.backend or "cpu"))
            jax = item.name.startswith("jax")
            paste = "jax[cuda12]  # its builds are plugins on PyPI now" if jax else f"--extra-index-url {url}"
            yield Fault(place=index.place, what=what, fix=Fix(paste=paste))


def _beyond(item: Declared, last: Version) -> bool:
    """Whether no release up to the last one meets a requirement."""
    if item.pin is not None:
        return Version(item.pin.public) > last
    return any(
        clause.operator in {">=", "~=", ">"} and Version(clause.version) > last for clause in item.specifier or ()
    )


def page_and_index(case: Case) -> Iterator[Fault]:
    """MW307: an index given as a page of links, or the reverse: nothing is found, and nothing is said."""
    for index in case.project.indexes:
        page = index.url.split("#")[0].endswith((".html", ".htm"))
        upstream = index.url.startswith(index_url("").rstrip("/"))
        if index.role == "links" and upstream and not page:
            what = f"{index.url} is an index, not a page of links: as a page of links it holds no file"
            new = "--extra-index-url"
        elif index.role != "links" and page and not index.flat:
            what = f"{index.url} is a page of links, not an index: as an index it holds no project"
            new = "--find-links"
        else:
            continue
        old = {"links": ("--find-links", "-f"), "extra": ("--extra-index-url",), "primary": ("--index-url", "-i")}
        if index.tool == "pip" and index.role in old:
            edits = tuple(Edit(index.place, option, new) for option in old[index.role][:1])
            yield Fault(place=index.place, what=what, fix=Fix(paste=f"{new} {index.url}", edits=edits))
        else:
            yield Fault(place=index.place, what=what, fix=Fix(paste=f"{new} {index.url}"))


def backend_overridden(case: Case) -> Iterator[Fault]:
    """MW308: uv's torch-backend, which a source of the project overrides."""
    setting = case.project.setting("uv.torch-backend")
    for source in case.project.sources:
        index = case.index(source)
        if source.name != TORCH or source.tool != "uv" or index is None:
            continue
        if setting is not None:
            what = f"torch-backend = {setting[0]!r} has no effect: torch comes from {source.index!r} by {source.place}"
            edits = (Edit(setting[1], f'torch-backend = "{setting[0]}"', None),)
            yield Fault(place=setting[1], what=what, fix=Fix(edits=edits))
        elif case.uv_torch_backend:
            what = (
                f"UV_TORCH_BACKEND={case.uv_torch_backend} has no effect: this line takes torch from {source.index!r}"
            )
            yield Fault(place=source.place, what=what, fix=Fix(paste="uv pip install --no-sources-package torch torch"))
        return


def index_of_dependency(case: Case) -> Iterator[Fault]:
    """MW309: torch comes from an index that a dependency names, not the project."""
    projects = (case.project, *case.project.members)
    own = {index.url.rstrip("/") for project in projects for index in project.indexes}
    if case.sources(TORCH) and any(item.name == TORCH and item.constraint for item in case.project.declared):
        return  # the project overrides what its dependencies say
    told: set[str] = set()
    for source, project in case.dependencies:
        for theirs in project.sources:
            index = next((i for i in project.indexes if i.tool == theirs.tool and i.name == theirs.index), None)
            if theirs.name == TORCH and index is not None and index.url.rstrip("/") not in own:
                told.add(index.url.rstrip("/"))
                yield _imposed(case, source.place, index.url, f"{source.name} ({theirs.place})")
    for lock in case.real_locks if case.project.declared else ():
        for item in lock.packages:
            url = (item.source or "").rstrip("/")
            foreign = Index(url=url, place=item.place, tool="").backend is not None and item.registry
            if item.name == TORCH and lock.kind == "uv" and foreign and url not in own | told:
                told.add(url)
                others = [
                    p.name
                    for p in lock.packages
                    if not p.registry and p.version is not None and p.name != case.project.name
                ]
                by = " or ".join(sorted(others)[:3]) or "a dependency"
                yield _imposed(case, item.place, url, by)


def dropped(case: Case) -> Iterator[Fault]:
    """MW310: an index that pip forgets: before a later `--index-url`, or on the line of a requirement."""
    live = {index.url for index in case.project.indexes if index.tool == "pip" and index.dropped is None}
    asked = [item for item in case.project.declared if watched(item.name) or wrapper_of(item.name)]
    for index in case.project.indexes:
        by = index.dropped
        if by is None or index.url in live:
            continue
        if not any(case.project.read_together(index.place, item.place) for item in asked):
            continue
        if by == index.place:
            what = f"pip ignores {index.url}: an index stands on a line of its own, not on that of a requirement"
            paste = f"{_OF_ROLE[index.role]} {index.url}"
        else:
            what = f"pip drops {index.url}: the --index-url of {by} takes the place of all indexes before it"
            paste = f"# after {by}\n--extra-index-url {index.url}"
        yield Fault(place=index.place, what=what, fix=Fix(paste=paste))


def _imposed(case: Case, place: Place, url: str, by: str) -> Fault:
    ignored = f", and UV_TORCH_BACKEND={case.uv_torch_backend} has no effect" if case.uv_torch_backend else ""
    what = f"torch is taken from {url}, which the project does not name: {by} does{ignored}"
    wanted = case.uv_torch_backend if backend_named(case.uv_torch_backend) else url.rstrip("/").rpartition("/")[2]
    # Measured with uv 0.13: a source of the project's own conflicts with the dependency's, unless torch is overridden.
    paste = f'[tool.uv]\noverride-dependencies = ["torch"]\n\n{advice.index_lines("uv", "torch", str(wanted))}'
    return Fault(place=place, what=what, fix=Fix(paste=paste))
