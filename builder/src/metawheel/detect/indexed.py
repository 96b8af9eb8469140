"""Reading what an index has to choose from: a site by its manifest, any other simple index by its pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from email import message_from_string
from urllib.parse import urlsplit, urlunsplit

from bs4.exceptions import ParserRejectedMarkup
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import Version
from pydantic import ValidationError
from pypi_simple import IndexPage, RepositoryPage, UnsupportedRepoVersionError

from metawheel.detect.facts import drivers
from metawheel.detect.interpreter import Interpreter
from metawheel.detect.offers import Catalog, Offer, names_of
from metawheel.errors import MALFORMED, Unparsable, Unreachable
from metawheel.model import wheel_name
from metawheel.publish.simple import listed
from metawheel.site import FORMAT, MANIFEST, SiteWrapper
from metawheel.upstream.http import Fetcher
from metawheel.upstream.pages import is_cut_off

_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(r"[\w.+!-]+\.whl", re.ASCII)  # nothing that means something in an address or a requirement line
# A wrapper by its name, where an index says no more: torch-cu128, acme-torch-cpu, jaxlib-cuda12.
_NAMED = re.compile(r"(?:.*-)?(?:torch|jax|jaxlib)-(?P<backend>cpu|xpu|cu\d+|cuda\d+|rocm\d+(?:-\d+)*)")
_EXTRA = re.compile(r"""extra == ["']([^"']*)["']""")
_NAMES_EXTRA = re.compile(rf"""\s+and\s+{_EXTRA.pattern}|{_EXTRA.pattern}(?:\s+and\s+)?""")
# What an index's root is refused with.
_UNREADABLE = (*MALFORMED, ValidationError, UnsupportedRepoVersionError, ParserRejectedMarkup)


def from_index(url: str, fetcher: Fetcher, interpreter: Interpreter) -> Catalog:
    """The offers of an index; raises Unreachable, Unparsable."""
    base = f"{url.rstrip('/')}/"
    for candidate in _roots(base):
        try:
            content = fetcher.page(f"{candidate}{MANIFEST}").content
        except Unreachable as error:
            if "answered 404" not in error.reason:
                raise
        else:
            return _from_manifest(candidate, content)
    return _from_pages(base, fetcher, interpreter)


def _roots(base: str) -> list[str]:
    """Where a site may begin whose index, or index of one backend, has this URL."""
    parts = urlsplit(base)
    found = [base]
    if parts.path.endswith("/simple/"):
        folder = parts.path.removesuffix("simple/")
        folders = [folder, f"{folder.rstrip('/').rpartition('/')[0]}/"]
        found = [urlunsplit(parts._replace(path=path)) for path in dict.fromkeys(folders)] + found
    return found


def _from_manifest(root: str, content: bytes) -> Catalog:
    url = f"{root}{MANIFEST}"
    try:
        data = json.loads(content)
        if data["site"] != FORMAT:
            raise Unparsable(url, "the site was built by another version of metawheel")
        wrappers = [SiteWrapper.from_json(facts) for facts in data["wrappers"]]
        sums = {name: facts["sha256"] for name, facts in data["wheels"].items()}
        offers = tuple(
            _checked(
                Offer.of(
                    item,
                    item.view,
                    {name: sums[name] for name in item.wheels},
                    urls={name: f"{root}files/{name}" for name in item.wheels},
                    yanked=item.yanked,
                )
            )
            for item in wrappers
            if item.view is not None
        )
        names = names_of((item.name, item.requires) for item in wrappers)
    except MALFORMED as error:
        raise Unparsable(url, f"is not a site's manifest: {error!r}") from None
    return Catalog(offers=offers, names=names, index=f"{root}simple/", views=True)


def _checked(offer: Offer) -> Offer:
    """An offer from elsewhere, if all of it can be what it says; raises ValueError."""
    if canonicalize_name(offer.wrapper, validate=True) != offer.wrapper:
        raise ValueError(f"{offer.wrapper!r} is not a normalized project name")
    if not re.fullmatch(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", offer.backend):
        raise ValueError(f"{offer.backend!r} is not a backend")
    Version(offer.release)
    for name, sha256 in offer.wheels.items():
        parsed = wheel_name(name)
        if parsed.project != offer.wrapper or parsed.version != Version(offer.version) or not _WHEEL.fullmatch(name):
            raise ValueError(f"{name!r} is not a wheel of {offer.wrapper} {offer.version}")
        if sha256 is not None and not _SHA256.fullmatch(sha256):
            raise ValueError(f"{name}: {sha256!r} is not a sha256")
    for url in offer.urls.values():
        if re.search(r"\s", url):
            raise ValueError(f"{url!r} is not an address")
    for line in (*offer.requires, *(line for lines in offer.extras.values() for line in lines)):
        Requirement(line)
    return offer


def _from_pages(index: str, fetcher: Fetcher, interpreter: Interpreter) -> Catalog:
    """The newest version of each wrapper that an interpreter can install, by its METADATA."""
    page = fetcher.page(index)
    try:
        if "json" in page.content_type:
            projects = IndexPage.from_json_data(json.loads(page.content)).projects
        else:
            text = page.content.decode("utf-8", "replace")
            if is_cut_off(text):
                raise ValueError("its last tag or comment has no end")
            links = RepositoryPage.from_html(text, base_url=index).links
            projects = [link.text for link in links]
    except _UNREADABLE as error:
        raise Unparsable(index, f"is not the root of a simple index: {str(error).splitlines()[0]}") from None
    names = sorted({canonicalize_name(name) for name in projects})
    offers = [
        _newest(index, name, m["backend"], fetcher, interpreter) for name in names if (m := _NAMED.fullmatch(name))
    ]
    found = tuple(offer for offer in offers if offer is not None)
    required = names_of((offer.wrapper, offer.requires) for offer in found)
    catalog = Catalog(offers=found, names=required, index=index, views=index.endswith("/simple/"))
    if found and catalog.views:
        try:  # `metawheel serve` has them
            fetcher.page(catalog.view(found[0].backend) or index)
        except Unreachable:
            return replace(catalog, views=False)
    return catalog


def _newest(index: str, name: str, backend: str, fetcher: Fetcher, interpreter: Interpreter) -> Offer | None:
    page = fetcher.page(f"{index}{name}/")
    try:
        files = listed(page.content, page.content_type, page.url, name)
        wheels = {item.filename: item for item in files if item.filename.endswith(".whl")}
        versions = {wheel_name(filename).version for filename in wheels}
        for version in sorted(versions, reverse=True):
            found = {filename: item for filename, item in wheels.items() if wheel_name(filename).version == version}
            if any(interpreter.rank(wheel_name(filename).tags) is not None for filename in found):
                first = found[min(found)]
                content = fetcher.page(f"{first.url.partition('#')[0]}.metadata").content
                metadata = message_from_string(content.decode("utf-8", "replace"))
                lines = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
                return _checked(
                    Offer(
                        wrapper=name,
                        version=str(version),
                        release=version.base_version,
                        # `rocm6-2` is how a project name spells rocm6.2.
                        backend=backend.replace("-", ".") if backend not in drivers() else backend,
                        requires=tuple(str(line) for line in lines if "extra ==" not in str(line.marker)),
                        extras=_extras(metadata.get_all("Provides-Extra", []), lines),
                        wheels={filename: item.sha256 for filename, item in found.items()},
                        urls={filename: item.url.partition("#")[0] for filename, item in found.items()},
                    )
                )
    except (ValueError, InvalidRequirement, InvalidWheelFilename, RecursionError) as error:
        raise Unparsable(page.url, str(error)) from None
    return None


def _extras(extras: Iterable[str], lines: Iterable[Requirement]) -> dict[str, tuple[str, ...]]:
    """The lines of each extra, without the part of their markers that names it."""
    found = [(line, set(_EXTRA.findall(str(line.marker)))) for line in lines]
    return {
        extra: tuple(_NAMES_EXTRA.sub("", str(line)).rstrip(" ;") for line, named in found if extra in named)
        for extra in extras
    }
