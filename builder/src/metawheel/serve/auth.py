"""Basic authentication by a token file: one `user:sha256` a line, the hexadecimal sha256 of a random token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from metawheel.errors import MetawheelError, OutputError

_LINE = re.compile(r"(?P<user>[^:\s]+):(?P<sha256>[0-9a-f]{64})")
_CHALLENGE = {"www-authenticate": 'Basic realm="metawheel", charset="UTF-8"'}
_log = logging.getLogger(__name__)


class Tokens:
    """A token file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the file cannot be used."""
        self._path = path
        self._key = self._stat()
        self._users = read_tokens(path)

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def allow(self, authorization: str) -> bool:
        """Whether an Authorization header holds a user and its token."""
        key = self._stat()
        if key != self._key:
            self._key = key
            try:
                self._users = read_tokens(self._path)
            except MetawheelError as error:  # nobody is let in by what may have been withdrawn
                _log.error("%s", error)
                self._users = {}
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, _, token = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        found = hashlib.sha256(token.encode()).hexdigest()
        # An unknown user's token is compared, too: the answer takes as long.
        return hmac.compare_digest(found, self._users.get(user, "-" * 64))


def read_tokens(path: Path) -> Mapping[str, str]:
    """The sha256 of each user's token; empty lines and `#` are left out. Raises OutputError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path}: the token file cannot be read: {error}") from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None or found["user"] in users:
            raise OutputError(f"{path}, line {number}: is not user:sha256, one line for each user")
        users[found["user"]] = found["sha256"]
    return users


class Guarded:
    """Lets in who has a token; `/-/health` is for all."""

    def __init__(self, app: ASGIApp, tokens: Tokens, free: frozenset[str]) -> None:
        self._app = app
        self._tokens = tokens
        self._free = free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._free:
            given = Headers(scope=scope).get("authorization", "")
            if not self._tokens.allow(given):
                answer = PlainTextResponse("a user and its token are needed\n", 401, headers=_CHALLENGE)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
