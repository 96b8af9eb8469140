"""Finding the wheels on a page: PEP 503 HTML, PEP 691 JSON, or any flat page of links. Pure."""

from __future__ import annotations

import functools
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from bs4 import UnusualUsageWarning
from bs4.exceptions import ParserRejectedMarkup
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename
from pydantic import ValidationError
from pypi_simple import DistributionPackage, ProjectPage, RepositoryPage, UnsupportedRepoVersionError

from metawheel.errors import MALFORMED, Unparsable
from metawheel.model import Problem, UpstreamFile, wheel_name
from metawheel.upstream.http import Page

# Beautiful Soup's advice on odd pages; what they lack is told as a problem or an error of our own.
warnings.filterwarnings("ignore", category=UnusualUsageWarning)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"[A-Za-z0-9%:/?#@!$&()*+,;=._~-]+")  # RFC 3986 without brackets and quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What one page lists."""

    url: str
    files: tuple[UpstreamFile, ...]
    problems: tuple[Problem, ...]
    links: int  # links to wheels on the page: each one became a file or a problem


def parse_page(page: Page, source: str, *, sha256_from: str = "page", base: str | None = None) -> Listing:
    """Read a page; raises Unparsable if it is no list of wheels, or is cut off. Relative links resolve against `base`.

    Name and version come from the last segment of each URL, never from the link's text (PEP 503 allows any text).
    """
    base = base or page.moved or page.url
    files: list[UpstreamFile] = []
    problems: list[Problem] = []
    packages = list(_json_packages(page) if "json" in page.content_type.lower() else _html_packages(page, problems))
    links = len(packages) + len(problems)
    for package in packages:
        try:
            files.append(_file(package, base, source, sha256_from))
        except ValueError as error:
            problems.append(Problem(url=page.url, item=_item(package.url), reason=str(error)))
    if not links:
        raise Unparsable(page.url, "lists no wheel; is it an error page?")
    return Listing(url=page.url, files=tuple(files), problems=tuple(problems), links=links)


def _json_packages(page: Page) -> Iterator[DistributionPackage]:
    try:
        data = json.loads(page.content)
        for file in data["files"]:  # PEP 714: the first name of the key still counts
            file.setdefault("core-metadata", file.get("dist-info-metadata"))
        found = ProjectPage.from_json_data(data)
    except (*MALFORMED, ValidationError, UnsupportedRepoVersionError) as error:
        raise Unparsable(page.url, f"is not a JSON project page (PEP 691): {str(error).splitlines()[0]}") from error
    return (package for package in found.packages if _is_wheel(package.url) or _is_wheel(package.filename))


def _html_packages(page: Page, problems: list[Problem]) -> Iterator[DistributionPackage]:
    text = page.content.decode("utf-8", errors="replace")
    if "<" not in text:
        return  # nothing that could be a link
    lowered = text.lower()
    opened = ("<html" in lowered and "</html" not in lowered) or lowered.rfind("<a ") > lowered.rfind("</a")
    if opened or is_cut_off(text):
        raise Unparsable(page.url, "is cut off: its last element is not closed")
    try:
        found = RepositoryPage.from_html(text)
    except (UnsupportedRepoVersionError, ValueError, ParserRejectedMarkup) as error:
        raise Unparsable(page.url, f"is not an HTML project page (PEP 503): {str(error).splitlines()[0]}") from error
    for link in found.links:
        if _is_wheel(link.url) or _is_wheel(link.text):
            if "data-dist-info-metadata" in link.attrs:  # PEP 714: the first name of the attribute still counts
                link.attrs.setdefault("data-core-metadata", link.attrs["data-dist-info-metadata"])
            try:
                yield DistributionPackage.from_link(link)
            except ValueError as error:
                problems.append(Problem(url=page.url, item=_item(link.url), reason=str(error)))


def is_cut_off(text: str) -> bool:
    """Whether HTML's last tag or comment has no end: the parser's time grows with the square of what follows one."""
    return text.rfind("<") > text.rfind(">")


def _is_wheel(url: str) -> bool:
    return ".whl" in url.lower().partition("#")[0]


def _item(url: str) -> str:
    """What to call a link that cannot be used: the part of it that looks like a wheel's name."""
    segments = url.split("/")
    return next((segment for segment in segments if ".whl" in segment.lower()), segments[-1])


def _file(package: DistributionPackage, base: str, source: str, sha256_from: str) -> UpstreamFile:
    """Raises ValueError with the reason why a link cannot be used."""
    parts = urlsplit(urljoin(base, package.url))
    folder, _, segment = parts.path.rpartition("/")
    filename = unquote(segment)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("the link is not an http or https address")
    if not _URL.fullmatch(urlunsplit(parts._replace(fragment=""))) or ".." in unquote(folder).split("/"):
        raise ValueError("the address has characters or segments that no wheel's address has")
    if not filename.endswith(".whl"):
        raise ValueError("the link does not end in a wheel's file name (a broken anchor?)")
    if not re.fullmatch(r"[\w.+!-]+", filename, re.ASCII):
        raise ValueError("the file name has characters that no wheel's name has")
    try:
        wheel_name(filename)
    except InvalidWheelFilename as error:
        raise ValueError(str(error)) from None
    if package.size is not None and package.size < 0:
        raise ValueError(f"its size is no number of bytes: {package.size}")
    sha256 = package.digests.get("sha256")
    if sha256 is not None and not _SHA256.fullmatch(sha256.lower()):
        raise ValueError(f"its sha256 is not 64 hexadecimal digits: {sha256[:80]!r}")
    if package.requires_python is not None and not _is_specifier(package.requires_python):
        raise ValueError(f"its Requires-Python is not a specifier: {package.requires_python[:80]!r}")
    return UpstreamFile(
        filename=filename,
        source=source,
        # The same address whichever way it was written: `+` and `%2B`, no query, no fragment.
        url=urlunsplit((parts.scheme, parts.netloc, f"{folder}/{quote(filename)}", "", "")),
        sha256=sha256.lower() if sha256 else None,
        sha256_from=sha256_from if sha256 else None,
        size=package.size,
        metadata=_metadata(package),
        requires_python=package.requires_python,
        yanked=(package.yanked_reason or "") if package.is_yanked else None,
    )


@functools.cache
def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _metadata(package: DistributionPackage) -> str | None:
    if not package.has_metadata:
        return None
    digest = (package.metadata_digests or {}).get("sha256", "").lower()
    return digest if _SHA256.fullmatch(digest) else "true"
