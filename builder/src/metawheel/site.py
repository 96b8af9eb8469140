"""The site: which pages a plan gives, and writing them as one state that replaces the last."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metawheel.errors import MALFORMED, OutputError, UpstreamAlarm
from metawheel.model import Artifact, Statement, UpstreamFile, Wrapper
from metawheel.render import Link, project_pages, root_pages
from metawheel.swap import Stage
from metawheel.upstream.mirrors import Mirror, mirrored, without_user

MANIFEST = "metawheel.json"
FILES = "files"  # the folder of the wheels and their METADATA
FORMAT = 2


def _items(value: Any) -> list[Any]:
    """A list out of JSON; raises TypeError where it is none."""
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _texts(value: Any) -> list[str]:
    """A list of texts out of JSON; raises TypeError where it is none."""
    if not all(isinstance(text, str) for text in _items(value)):
        raise TypeError("not texts")
    return _items(value)


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass as JSON has it."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _artifact(facts: dict[str, Any]) -> Artifact:
    _texts([text for key, text in facts.items() if key != "size"])
    if not isinstance(facts["size"], int):
        raise TypeError("not a number of bytes")
    return Artifact(**facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteWrapper(Statement):
    """One version of a wrapper as a site has it."""

    family: str
    wheels: tuple[str, ...]
    yanked: str | None

    @classmethod
    def of(cls, wrapper: Wrapper) -> SiteWrapper:
        return cls(**wrapper.facts(), family=wrapper.family, wheels=wrapper.wheels, yanked=wrapper.yanked)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> SiteWrapper:
        """Read what `of` wrote; raises what MALFORMED lists where others did."""
        extras = tuple((extra, tuple(_texts(lines))) for extra, lines in _items(facts.pop("extras")))
        requires, wheels = (tuple(_texts(facts.pop(key))) for key in ("requires", "wheels"))
        optional = ("view", "reissued", "yanked")
        _texts([text for key, text in facts.items() if text is not None or key not in optional])
        _texts([extra for extra, _ in extras])
        return cls(extras=extras, requires=requires, wheels=wheels, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a site says of itself: enough to tell it is ours, what it was made from and what it holds."""

    inputs: str  # sha256 over all that the site was made from
    ledgers: Mapping[str, str] = field(default_factory=dict)  # family → sha256 of its ledger
    wrappers: Sequence[SiteWrapper] = ()
    wheels: Mapping[str, Artifact] = field(default_factory=dict)
    projects: Mapping[str, str] = field(default_factory=dict)  # wheel → sha256 of the project it was built from
    pages: Mapping[str, str] = field(default_factory=dict)  # path → sha256
    hosted: Mapping[str, str] = field(default_factory=dict)  # PyPI-hosted file → URL
    incomplete: Sequence[str] = ()  # projects of which files that PyPI hosts are on no page

    def dump(self) -> bytes:
        return json.dumps({"site": FORMAT, **_fields(self)}, default=_fields, sort_keys=True).encode() + b"\n"

    @classmethod
    def load(cls, site: Path) -> Manifest | None:
        """The manifest of a site; None where there is no site yet. Raises OutputError on a folder that is not ours."""
        path = site / MANIFEST
        try:
            return cls.parse(path.read_bytes(), f"{path}", f"remove {site} and build again")
        except (FileNotFoundError, NotADirectoryError):
            if (site.is_dir() and not any(site.iterdir())) or not os.path.lexists(site):
                return None
            raise OutputError(f"{site}: is there, but is not a site of metawheel; name another") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be read: {error.strerror}") from error

    @classmethod
    def of(cls, site: Path) -> Manifest:
        """The manifest of a site that has to be there; raises OutputError."""
        if (found := cls.load(site)) is None:
            raise OutputError(f"{site}: is not a site of metawheel; `metawheel build -o {site}` makes one")
        return found

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of every file of the site, the manifest apart, by path."""
        wheels = {f"{FILES}/{name}": item.sha256 for name, item in self.wheels.items()}
        return {**self.pages, **wheels, **{f"{FILES}/{n}.metadata": w.metadata_sha256 for n, w in self.wheels.items()}}

    @classmethod
    def parse(cls, content: bytes, where: str, advice: str) -> Manifest:
        """A manifest's content; `where` and `advice` are for the OutputError that it raises."""
        try:
            data: dict[str, Any] = json.loads(content)
            if data.pop("site") != FORMAT:
                raise OutputError(f"{where}: was written by another version of metawheel; {advice}")
            data["wrappers"] = [SiteWrapper.from_json(facts) for facts in _items(data["wrappers"])]
            data["wheels"] = {name: _artifact(facts) for name, facts in data["wheels"].items()}
            for key in ("ledgers", "projects", "pages", "hosted"):
                _texts(list(data[key].values()))
            _texts([data["inputs"], *_texts(data["incomplete"])])
            return cls(**data)
        except MALFORMED:
            raise OutputError(f"{where}: cannot be read; {advice}") from None

    def is_whole(self, site: Path) -> bool:
        """Whether every file is there with its size; contents are `metawheel check`'s business."""
        try:
            return (
                all(os.stat(f"{site}/{FILES}/{name}").st_size == item.size for name, item in self.wheels.items())
                and all(os.path.isfile(f"{site}/{FILES}/{name}.metadata") for name in self.wheels)
                and all(os.path.isfile(f"{site}/{page}") for page in self.pages)
            )
        except OSError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedFiles:
    """Where PyPI has the files that ledgers keep without host."""

    urls: Mapping[str, str]  # file name → URL
    missing: frozenset[str] = frozenset()  # file names


def site_pages(
    wrappers: Iterable[Wrapper], wheels: Mapping[str, Artifact], hosted: HostedFiles, mirrors: Sequence[Mirror] = ()
) -> tuple[dict[str, bytes], list[str]]:
    """Every page of a site by its path, and the projects of which files are on none. Pure."""
    wrappers = tuple(wrappers)
    views: dict[str, list[Wrapper]] = defaultdict(list)
    for wrapper in wrappers:
        if wrapper.view is not None:
            views[wrapper.view].append(wrapper)
    pages: dict[str, bytes] = {}
    incomplete: set[str] = set()
    known: dict[str, Link] = {}

    def linked(file: UpstreamFile) -> Link:
        if file.filename not in known:
            known[file.filename] = _upstream_link(file, hosted, mirrors)
        return known[file.filename]

    for folder, members in [("simple", list(wrappers)), *((f"{view}/simple", found) for view, found in views.items())]:
        up = "../" * (folder.count("/") + 2)
        links: dict[str, list[Link]] = defaultdict(list)
        for wrapper in members:
            links[wrapper.name] += [_wrapper_link(wrapper, wheels[name], up) for name in wrapper.wheels]
        for project, files in _upstream_files(members).items():
            found = [linked(file) for file in files if file.filename not in hosted.missing]
            if len(found) < len(files):
                incomplete.add(project)
            # A page without any file is left out: a client then asks its next index, PyPI.
            if found:
                links[project] = found
        for project, found in links.items():
            pages |= {f"{folder}/{project}/{name}": page for name, page in project_pages(project, found).items()}
        pages |= {f"{folder}/{name}": page for name, page in root_pages(links).items()}
    return pages, sorted(incomplete)


def _upstream_files(wrappers: Iterable[Wrapper]) -> dict[str, list[UpstreamFile]]:
    """The upstream wheels that wrappers pin, by project; one for each file name."""
    found: dict[str, dict[str, UpstreamFile]] = defaultdict(dict)
    for wrapper in wrappers:
        for file in wrapper.files:
            other = found[file.project].setdefault(file.filename, file)
            if other.sha256 != file.sha256:
                raise UpstreamAlarm(
                    file.url or file.filename,
                    f"two ledgers disagree on {file.filename}: {other.sha256} and {file.sha256}; sync both",
                )
    return {project: list(files.values()) for project, files in found.items()}


def _wrapper_link(wrapper: Wrapper, wheel: Artifact, up: str) -> Link:
    return Link(
        filename=wheel.filename,
        url=f"{up}{FILES}/{wheel.filename}",
        sha256=wheel.sha256,
        size=wheel.size,
        requires_python=wrapper.requires_python,
        yanked=wrapper.yanked,
        metadata=wheel.metadata_sha256,
    )


def _upstream_link(file: UpstreamFile, hosted: HostedFiles, mirrors: Sequence[Mirror]) -> Link:
    url = file.url if file.url is not None else hosted.urls[file.filename]
    return Link(
        filename=file.filename,
        url=without_user(mirrored(url, mirrors)),
        sha256=file.sha256,
        size=file.size,
        requires_python=file.requires_python,
        yanked=file.yanked,
        metadata=file.metadata,  # only where upstream serves it
    )


def lay_down(stage: Stage, old: Manifest | None, new: Manifest, pages: Mapping[str, bytes]) -> tuple[str, ...]:
    """Lay down a site's next state; returns the paths that differ.

    New wheels lie in the stage's folder `files` already, the others are the current state's. What did not change is the
    same file as before (a hard link): its time and its ETag stay.
    """
    made = set(os.listdir(stage.folder(FILES)))
    changed: list[str] = []
    for path in sorted(new.files.keys() - new.pages.keys()):
        if path.removeprefix(f"{FILES}/") in made:
            changed.append(path)
        else:
            stage.link(path)
    for path, content in sorted(pages.items()):
        if not stage.keep(path, new.pages[path]):
            changed.append(path)
            stage.write(path, content)
    stage.write(MANIFEST, new.dump())
    return (*changed, *sorted(set() if old is None else old.files.keys() - new.files.keys()))


def page_digests(pages: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in sorted(pages.items())}
