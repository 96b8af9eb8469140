"""Rendering the simple repository API: project pages and root pages, as HTML and JSON. Pure."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metawheel.model import wheel_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One file on a project page."""

    filename: str
    url: str  # absolute, or relative to the page
    sha256: str | None
    size: int | None = None  # bytes
    requires_python: str | None = None
    yanked: str | None = None
    metadata: str | None = None  # sha256 of the METADATA that is served beside it, or "true"


def project_pages(project: str, links: Iterable[Link]) -> dict[str, bytes]:
    """A project's page in both forms: index.html (PEP 503) and index.json (PEP 691)."""
    order = sorted(links, key=lambda link: (wheel_name(link.filename).version, link.filename))
    # PEP 700 makes the size of every file mandatory from API version 1.1 on.
    api = "1.1" if all(link.size is not None for link in order) else "1.0"
    return {"index.html": _project_html(project, order, api), "index.json": _project_json(project, order, api)}


def root_pages(projects: Iterable[str]) -> dict[str, bytes]:
    """The page that lists the projects, in both forms."""
    names = sorted(projects)
    anchors = [_anchor(f"{name}/", name, {}) for name in names]
    data = {"meta": {"api-version": "1.1"}, "projects": [{"name": name} for name in names]}
    return {"index.html": _html("Simple index", anchors, "1.1"), "index.json": _json(data)}


def _project_html(project: str, links: Sequence[Link], api: str) -> bytes:
    anchors = []
    for link in links:
        attributes: dict[str, str] = {}
        if link.requires_python is not None:
            attributes["data-requires-python"] = link.requires_python
        if link.yanked is not None:  # PEP 592
            attributes["data-yanked"] = link.yanked
        if link.metadata is not None:  # PEP 714: the new name and, for old clients, the first one
            value = link.metadata if link.metadata == "true" else f"sha256={link.metadata}"
            attributes |= {"data-core-metadata": value, "data-dist-info-metadata": value}
        fragment = f"#sha256={link.sha256}" if link.sha256 else ""
        anchors.append(_anchor(link.url + fragment, link.filename, attributes))
    return _html(f"Links for {project}", anchors, api)


def _project_json(project: str, links: Sequence[Link], api: str) -> bytes:
    versions = sorted({wheel_name(link.filename).version for link in links})
    return _json(
        {
            "meta": {"api-version": api},
            "name": project,
            "versions": [str(version) for version in versions],  # PEP 700
            "files": [_file(link) for link in links],
        }
    )


def _file(link: Link) -> dict[str, Any]:
    file: dict[str, Any] = {
        "filename": link.filename,
        "url": link.url,
        "hashes": {"sha256": link.sha256} if link.sha256 else {},
    }
    if link.size is not None:
        file["size"] = link.size
    if link.requires_python is not None:
        file["requires-python"] = link.requires_python
    file["yanked"] = (link.yanked or True) if link.yanked is not None else False
    if link.metadata is not None:
        value = True if link.metadata == "true" else {"sha256": link.metadata}
        file |= {"core-metadata": value, "dist-info-metadata": value}
    return file


def _anchor(url: str, text: str, attributes: Mapping[str, str]) -> str:
    pairs = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    return f'    <a href="{html.escape(url)}"{pairs}>{html.escape(text)}</a><br>'


def _html(title: str, anchors: Sequence[str], api: str) -> bytes:
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "  <head>",
        '    <meta charset="utf-8">',
        f'    <meta name="pypi:repository-version" content="{api}">',  # PEP 629
        f"    <title>{html.escape(title)}</title>",
        "  </head>",
        "  <body>",
        f"    <h1>{html.escape(title)}</h1>",
        *anchors,
        "  </body>",
        "</html>",
    ]
    return "\n".join(lines).encode() + b"\n"


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
