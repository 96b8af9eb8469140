"""A document in memory and the answers it gives: validators, 304, one range."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from starlette.responses import Response

ETAG_DIGITS = 32
Raw = tuple[tuple[bytes, bytes], ...]  # headers as they are sent
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def raw(headers: Mapping[str, str]) -> Raw:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items())


@dataclass(frozen=True, kw_only=True)
class Body:
    """The bytes of one representation."""

    content: bytes
    media_type: str
    etag: str  # a strong one, with its quotes

    @classmethod
    def of(cls, content: bytes, media_type: str) -> Self:
        digest = hashlib.sha256(media_type.encode() + b"\n" + content)
        return cls(content=content, media_type=media_type, etag=etag_of(digest.hexdigest()))

    @cached_property
    def validators(self) -> Raw:
        return raw({"etag": self.etag})

    @cached_property
    def headers(self) -> Raw:
        """Those of the whole."""
        return (*raw({"content-length": str(len(self.content)), "content-type": self.media_type}), *self.validators)


class Ready(Response):
    """An answer whose headers are ready: making them for each request takes as long as all the rest."""

    def __init__(self, status: int, content: bytes, headers: Raw) -> None:
        self.status_code = status
        self.body = content
        self.raw_headers = list(headers)
        self.background = None


def etag_of(sha256: str) -> str:
    return f'"{sha256[:ETAG_DIGITS]}"'


def is_current(headers: Mapping[str, str], etag: str) -> bool:
    """Whether a client says that it has this representation (RFC 9110, 13.1.2)."""
    known = headers.get("if-none-match")
    if known is None:
        return False
    return known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}


def respond(headers: Mapping[str, str], body: Body, extra: Raw) -> Response:
    """The answer to a GET or HEAD with these request headers."""
    if is_current(headers, body.etag):
        return Ready(304, b"", (*body.validators, *extra))
    asked = headers.get("range")
    span = None if asked is None or headers.get("if-range", body.etag) != body.etag else _span(asked, len(body.content))
    if span is None:
        return Ready(200, body.content, (*body.headers, *extra))
    first, last = span
    part = body.content[first : last + 1]
    where = f"{first}-{last}" if part else "*"
    said = {"content-length": str(len(part)), "content-range": f"bytes {where}/{len(body.content)}"}
    if part:
        said["content-type"] = body.media_type
    return Ready(206 if part else 416, part, (*raw(said), *body.validators, *extra))


def _span(asked: str, size: int) -> tuple[int, int] | None:
    """First and last byte of one range, the first past the end if there are none such; None for several, or no range.

    Those are answered with the whole (RFC 9110, 14.2).
    """
    found = _RANGE.fullmatch(asked.strip())
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        return max(size - int(found[2]), 0), size - 1
    first, last = int(found[1]), int(found[2] or size)
    return None if last < first else (first, min(last, size - 1))
