"""A project page on its way through the server: files with their addresses, and its forms, made when asked for."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

from simple_repository import model, serializer
from simple_repository.content_negotiation import Format

from metawheel.serve.body import Body

SHA256 = re.compile(r"[0-9a-f]{64}")
Rewrite = Callable[[str, model.File], model.File]  # (project, file) → the file as it is to be linked


@dataclass(frozen=True)
class Page(model.ProjectDetail):
    """A project's page."""

    built: Mapping[Format, Body] = field(default_factory=dict, compare=False, repr=False)  # as it lies in a site
    made: dict[Format, Body] = field(default_factory=dict, compare=False, repr=False)  # as it was asked for


class Versions(frozenset[str]):
    """A set that is listed in one order: the serializer writes a set as it comes."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))


def ready_form(page: Page, form: Format, rewrite: Rewrite | None) -> Body | None:
    """A form of a page that is there already: as it was built, unless its links are to be rewritten."""
    return page.built[form] if rewrite is None and form in page.built else page.made.get(form)


def make_form(page: Page, form: Format, rewrite: Rewrite | None) -> Body:
    """Make a form of a page, and keep it there. Takes milliseconds for a large page: not for the event loop."""
    files = page.files if rewrite is None else tuple(rewrite(page.name, file) for file in page.files)
    if form is not Format.JSON_V1:
        files = tuple(_escaped(file) for file in files)
    shown = model.ProjectDetail(page.meta, page.name, files, page.versions)
    media_type = f"{form.value}; charset=utf-8" if form is Format.HTML_LEGACY else form.value
    body = Body.of(serializer.serialize(shown, form).encode(), media_type)
    page.made[form] = body
    return body


def _escaped(file: model.File) -> model.File:
    """A file whose texts can stand in HTML: of these the serializer escapes none."""
    yanked = html.escape(file.yanked) if isinstance(file.yanked, str) else file.yanked
    return replace(file, filename=html.escape(file.filename), url=html.escape(file.url), yanked=yanked)


def is_remote(file: model.File) -> bool:
    """Whether a link leads to another server, over HTTP."""
    return urlsplit(file.url).scheme in ("http", "https")


def cached_link(project: str, file: model.File) -> model.File:
    """The file as a link to this server's own cache, from a page two folders below it; only what has a sha256.

    Every wheel then has its METADATA beside it: no client has to read it out of gigabytes.
    """
    sha256 = file.hashes.get("sha256", "")
    if not is_remote(file) or not SHA256.fullmatch(sha256):
        return file
    metadata = file.dist_info_metadata or (True if file.filename.endswith(".whl") else None)
    return replace(file, url=f"../../cache/{project}/{sha256}/{quote(file.filename)}", dist_info_metadata=metadata)
