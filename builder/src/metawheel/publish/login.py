"""What twine's settings say of an index: its upload URL, user name and password; and sessions with a time limit."""

from __future__ import annotations

import argparse
import base64
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from twine.exceptions import NonInteractive, TwineException
from twine.repository import Repository
from twine.settings import Settings
from twine.utils import make_requests_session
from urllib3 import Retry

from metawheel.errors import PublishError, masked
from metawheel.upstream.http import TIMEOUT
from metawheel.upstream.mirrors import without_user

SOURCES = (
    "Check the user name, the password and what they allow: twine takes them from TWINE_USERNAME and TWINE_PASSWORD,"
    " from ~/.pypirc or from the keyring"
)
NONE_GIVEN = (
    "no user name and password: set TWINE_USERNAME and TWINE_PASSWORD, or give them in ~/.pypirc or in the keyring, as"
    " twine has them (for an index that asks for none, set both to nothing)"
)

# What it says while it uploads is said better here.
logging.getLogger("twine").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The index to publish to, as `twine upload` is told it; what is None comes from twine's environment variables."""

    repository: str | None = None  # a section of the configuration file
    repository_url: str | None = None
    config_file: str | None = None
    server: str | None = None  # the kind of server, where neither URL nor greeting tells it
    index_url: str | None = None  # its simple index, where that does not lie where the kind of server has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An index, and who we are there."""

    url: str  # what is uploaded to, without user and password
    repository: Repository  # its session has the credentials
    anonymous: requests.Session
    secrets: tuple[str, ...] = field(repr=False)  # what no message may hold
    timeout: tuple[float, float]  # seconds to connect, and between two bytes
    warnings: tuple[str, ...] = ()


def log_in(destination: Destination) -> Login:
    """Find user name and password where twine does; nothing is sent to the index yet. Raises PublishError."""
    timeout = _timeout()
    notes = _Notes(logging.WARNING)
    logger = logging.getLogger("twine")
    logger.addHandler(notes)
    try:
        with twine_errors():
            settings = _settings(destination)
            address = settings.repository_config["repository"] or ""
            settings.check_repository_url()
            try:
                repository = settings.create_repository()
            except NonInteractive as error:
                raise PublishError(f"{without_user(address)}: {NONE_GIVEN}") from error
    finally:
        logger.removeHandler(notes)
    user, password = settings.username or "", settings.password or ""
    if max(user + password, default="") > "\xff":  # requests takes text for Latin-1; RFC 7617 has UTF-8
        repository.session.auth = HTTPBasicAuth(user.encode(), password.encode())
    anonymous = make_requests_session()
    anonymous.verify = repository.session.verify
    for session in (repository.session, anonymous):
        session.stream = True  # so that limits hold for an upload's answer too
        for scheme in ("http://", "https://"):
            session.mount(scheme, _adapter(timeout))
    return Login(
        url=without_user(address),
        repository=repository,
        anonymous=anonymous,
        secrets=(*_secrets(user, password), *_secrets("", urlsplit(address).password)),
        timeout=timeout,
        warnings=tuple(notes.lines),
    )


@contextmanager
def twine_errors() -> Iterator[None]:
    """Make twine's failures ours."""
    try:
        yield
    except (TwineException, requests.RequestException) as error:
        raise PublishError(masked(" ".join(str(error).split()))) from error


class _Notes(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(masked(record.getMessage()))


class _Adapter(HTTPAdapter):
    """Gives every request the time limit that twine does not set."""

    def __init__(self, timeout: tuple[float, float], **options: Any) -> None:
        super().__init__(**options)
        self._timeout = timeout

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        options["timeout"] = options.get("timeout") or self._timeout
        return super().send(request, *args, **options)


def _adapter(timeout: tuple[float, float]) -> HTTPAdapter:
    # An upload is sent again only where no connection came about, so that nothing can have been stored.
    retry = Retry(
        total=2,
        allowed_methods=["GET"],
        status_forcelist=(429, 502, 503, 504),
        backoff_factor=0.3,
        raise_on_status=False,
        retry_after_max=20,
    )
    return _Adapter(timeout, max_retries=retry)


def _timeout() -> tuple[float, float]:
    """Seconds to connect, and between two bytes: from the environment variable METAWHEEL_TIMEOUT, or the usual."""
    text = os.environ.get("METAWHEEL_TIMEOUT")
    if not text:
        return TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise PublishError(f"METAWHEEL_TIMEOUT is {text!r}: it has to be a number of seconds above 0")
    return (min(seconds, TIMEOUT[0]), seconds)


def _settings(destination: Destination) -> Settings:
    """twine's settings, through the options of its own command: they read its environment variables."""
    parser = argparse.ArgumentParser()
    Settings.register_argparse_arguments(parser)
    chosen = parser.parse_args(["--non-interactive", "--disable-progress-bar"])
    for name in ("repository", "repository_url", "config_file"):
        if (value := getattr(destination, name)) is not None:
            setattr(chosen, name, value)
    return Settings.from_argparse(chosen)


def _secrets(username: str | None, password: str | None) -> list[str]:
    """A password in the forms in which a server may repeat it."""
    if not password:
        return []
    pair = f"{username or ''}:{password}"
    basic = {base64.b64encode(pair.encode(code, "replace")).decode() for code in ("latin-1", "utf-8")}
    return sorted({password, quote(password, safe=""), unquote(password), *basic}, key=len, reverse=True)
