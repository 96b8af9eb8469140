"""A page of a simple index, as whoever uploads to it has to read it: sdists too, and what has no sha256. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from bs4 import BeautifulSoup
from bs4.exceptions import ParserRejectedMarkup
from pydantic import ValidationError
from pypi_simple import ProjectPage, RepositoryPage, UnsupportedRepoVersionError

from metawheel.errors import MALFORMED
from metawheel.upstream.pages import is_cut_off

_NAME = re.compile(r"[A-Za-z0-9_.+!-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file that a page of the index lists."""

    filename: str
    url: str
    sha256: str | None  # None: the page does not say


def listed(content: bytes, kind: str, url: str, project: str) -> tuple[RemoteFile, ...]:
    """The files on a page of a simple index, PEP 691 JSON or PEP 503 HTML. Raises ValueError on any other page."""
    kind = kind.lower()
    found = _json_files(content) if "json" in kind else _html_files(content, kind, url, project)
    files = []
    for name, link, sha256 in found:
        address = urljoin(url, link)
        if urlsplit(address).scheme not in ("http", "https"):
            raise ValueError("lists a file whose address is not an http or https one")
        if not _NAME.fullmatch(name):
            raise ValueError(f"lists a file whose name has characters that no file's name has: {name!r}")
        given = (sha256 or "").lower()
        files.append(RemoteFile(filename=name, url=address, sha256=given if _SHA256.fullmatch(given) else None))
    return tuple(files)


def _json_files(content: bytes) -> Iterator[tuple[str, str, str | None]]:
    try:
        page = ProjectPage.from_json_data(json.loads(content))
    except (*MALFORMED, ValidationError, UnsupportedRepoVersionError) as error:
        raise ValueError(f"is not a JSON project page (PEP 691): {str(error).splitlines()[0]}") from error
    return ((file.filename, file.url, file.digests.get("sha256")) for file in page.packages)


def _html_files(content: bytes, kind: str, url: str, project: str) -> Sequence[tuple[str, str, str | None]]:
    text = content.decode("utf-8", "replace")
    lowered = text.lower()
    if "html" not in kind or ("<html" in lowered and "</html" not in lowered) or is_cut_off(text):
        raise ValueError("is not a whole page of a simple index (PEP 503)")
    try:
        page = RepositoryPage.from_html(text, base_url=url)
    except (UnsupportedRepoVersionError, ParserRejectedMarkup) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    found = []
    for link in page.links:
        # The name is the URL's last segment; PEP 503 lets the text be anything.
        parts = urlsplit(link.url)
        name = unquote(parts.path.rpartition("/")[2])
        if name.endswith((".whl", ".tar.gz", ".zip")):
            algorithm, _, digest = parts.fragment.partition("=")
            found.append((name, link.url, digest if algorithm == "sha256" else None))
    if not found and page.repository_version is None and project not in _title(text):
        raise ValueError("is not a page of a simple index: it lists no file. Is it a page to log in on?")
    return found


def _title(text: str) -> str:
    soup = BeautifulSoup(text, "html.parser")
    return " ".join(tag.get_text(" ") for tag in soup.find_all(["title", "h1"]))
