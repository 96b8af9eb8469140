"""Rendering the simple repository API: project pages and root pages, as HTML and JSON. Pure."""

from __future__ import annotations

import html
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from packaging.version import Version

from metawheel.model import wheel_name


@dataclass(frozen=True, kw_only=True)
class Link:
    """One file on a project page; written once, however many pages list it."""

    filename: str
    url: str  # absolute, or relative to the page
    sha256: str | None
    size: int | None = None  # bytes
    requires_python: str | None = None
    yanked: str | None = None
    metadata: str | None = None  # sha256 of the METADATA that is served beside it, or "true"

    @cached_property
    def html(self) -> str:
        """The link as PEP 503 and its followers have it."""
        attributes: dict[str, str] = {}
        if self.requires_python is not None:
            attributes["data-requires-python"] = self.requires_python
        if self.yanked is not None:  # PEP 592
            attributes["data-yanked"] = self.yanked
        if self.metadata is not None:  # PEP 714: the new name and, for old clients, the first one
            value = self.metadata if self.metadata == "true" else f"sha256={self.metadata}"
            attributes |= {"data-core-metadata": value, "data-dist-info-metadata": value}
        fragment = f"#sha256={self.sha256}" if self.sha256 else ""
        return _anchor(self.url + fragment, self.filename, attributes)

    @cached_property
    def json(self) -> str:
        """The link as PEP 691 and its followers have it."""
        file: dict[str, Any] = {
            "filename": self.filename,
            "url": self.url,
            "hashes": {"sha256": self.sha256} if self.sha256 else {},
        }
        if self.size is not None:
            file["size"] = self.size
        if self.requires_python is not None:
            file["requires-python"] = self.requires_python
        file["yanked"] = (self.yanked or True) if self.yanked is not None else False
        if self.metadata is not None:
            value = True if self.metadata == "true" else {"sha256": self.metadata}
            file |= {"core-metadata": value, "dist-info-metadata": value}
        return _json(file)


def project_pages(project: str, links: Iterable[Link]) -> dict[str, bytes]:
    """A project's page in both forms: index.html (PEP 503) and index.json (PEP 691)."""
    by_version: dict[Version, list[Link]] = defaultdict(list)
    for link in links:
        by_version[wheel_name(link.filename).version].append(link)
    versions = sorted(by_version)
    order = [link for version in versions for link in sorted(by_version[version], key=lambda link: link.filename)]
    # PEP 700 makes the size of every file mandatory from API version 1.1 on.
    api = "1.1" if all(link.size is not None for link in order) else "1.0"
    head = {
        "meta": {"api-version": api},
        "name": project,
        "versions": [str(version) for version in versions],  # PEP 700
    }
    files = ",".join(link.json for link in order)
    return {
        "index.html": _html(f"Links for {project}", [link.html for link in order], api),
        "index.json": f'{_json(head)[:-1]},"files":[{files}]}}\n'.encode(),
    }


def root_pages(projects: Iterable[str]) -> dict[str, bytes]:
    """The page that lists the projects, in both forms."""
    names = sorted(projects)
    anchors = [_anchor(f"{name}/", name, {}) for name in names]
    data = {"meta": {"api-version": "1.1"}, "projects": [{"name": name} for name in names]}
    return {"index.html": _html("Simple index", anchors, "1.1"), "index.json": f"{_json(data)}\n".encode()}


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


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)
