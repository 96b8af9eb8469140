"""An index that takes uploads: its pages, its files, and what it answers."""

from __future__ import annotations

import contextlib
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from bs4 import BeautifulSoup
from bs4.exceptions import ParserRejectedMarkup
from pypi_simple import ACCEPT_ANY
from twine.package import PackageFile

from metawheel.errors import PublishError, masked
from metawheel.publish.login import SOURCES, Login, twine_errors
from metawheel.publish.simple import RemoteFile, listed
from metawheel.upstream.http import BODY_LIMIT, read_body, reason

REDIRECTS = 5  # within the index
SAID = 300  # characters of a server's answer that a message repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a request."""

    status: int | None  # None: nothing that could be read
    text: str  # for people: one line, without any password

    @property
    def good(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Remote:
    """A connection to an index. Credentials go to the upload URL's host, and to that of an index named by the user."""

    def __init__(self, login: Login) -> None:
        self.url = login.url
        self._login = login
        self._trusted = {_origin(login.url)}

    def close(self) -> None:
        self._login.repository.close()
        self._login.anonymous.close()

    def trust(self, url: str) -> None:
        """Send the credentials there too: the user named it."""
        self._trusted.add(_origin(url))

    def greeting(self) -> Answer:
        """What a GET of the upload URL answers: where that is a success, its content as it came."""
        with self._get(self.url, "application/json, text/html;q=0.5") as response:
            good = response.status_code == 200
            text = self._content(response).decode("utf-8", "replace") if good else self.explained(response)
            return Answer(status=response.status_code, text=text)

    def is_there(self, url: str) -> bool:
        """Whether there is a page at an address. Raises PublishError where that cannot be told."""
        with self._get(url, ACCEPT_ANY) as response:
            if response.status_code not in (200, 404, 410):
                raise PublishError(f"{masked(url)}: {self.explained(response)}")
            return response.status_code == 200

    def page(self, index: str, project: str, *, forwards: bool) -> tuple[RemoteFile, ...] | None:
        """The files that a project's page lists; None: the index does not have the project. Raises PublishError.

        `forwards`: a redirect to another host is how the index says that it does not have a project.
        """
        url = urljoin(index, f"{project}/")
        with self._get(url, ACCEPT_ANY) as response:
            if response.is_redirect:
                if forwards:
                    return None
                target = self.clean(response.headers["Location"])
                raise PublishError(
                    f"{masked(url)}: refers to {target}; if that is this index, name it with --index-url; if the index"
                    " sends clients there for what it has not, say which server it is with --server"
                )
            if response.status_code in (404, 410):
                return None
            if response.status_code != 200:
                raise PublishError(f"{masked(url)}: {self.explained(response)}")
            content = self._content(response)
            kind = response.headers.get("Content-Type", "")
        try:
            return listed(content, kind, response.url, project)
        except ValueError as error:
            raise PublishError(f"{masked(url)}: {self.clean(str(error))}") from error

    def sha256(self, file: RemoteFile) -> str:
        """Download a file to find its sha256. Raises PublishError."""
        with self._get(file.url, "*/*", follow=True) as response:
            if response.status_code != 200:
                raise PublishError(f"{masked(file.url)}: {self.explained(response)}")
            return hashlib.sha256(self._content(response)).hexdigest()

    def upload(self, wheel: Path) -> Answer:
        """Upload a wheel, once; what twine itself refuses raises PublishError."""
        with twine_errors():
            package = PackageFile.from_filename(str(wheel), None)
        try:
            # One attempt: twine's own retries after a 5xx do not look whether the file was stored.
            with contextlib.redirect_stdout(io.StringIO()):
                response = self._login.repository.upload(package, max_redirects=1)
            with response:
                return Answer(status=response.status_code, text=self.explained(response))
        except requests.RequestException as error:
            return Answer(status=None, text=self._failed(error))
        except ValueError as error:
            return Answer(status=None, text=self._odd(error))

    def explained(self, response: requests.Response) -> str:
        """An answer other than a success, for people."""
        said = f"answered {response.status_code} {response.reason or ''}".rstrip()
        if response.is_redirect:
            return self.clean(f"{said}: it refers to {response.headers['Location']}; name that, if you trust it")
        try:
            text = _readable(self._content(response, limit=64 * 1024), response.headers.get("Content-Type", ""))
        except PublishError:
            text = ""
        if text and text not in said:
            said = f"{said}: {text}"
        hint = f". {SOURCES}" if response.status_code in (401, 403) else ""
        return self.clean(said)[:SAID] + hint

    def clean(self, text: str) -> str:
        """A server's text without passwords and without characters that a terminal would act on."""
        for secret in self._login.secrets:
            text = text.replace(secret, "***")
        text = " ".join(masked(text).split())
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

    def _get(self, url: str, accept: str, *, follow: bool = False) -> requests.Response:
        # no-cache: whatever lies between must ask the index itself (RFC 9111, section 5.2.1.4).
        headers = {"Accept": accept, "Cache-Control": "no-cache"}
        asked = url
        for _ in range(REDIRECTS):
            session = self._login.repository.session if _origin(url) in self._trusted else self._login.anonymous
            try:
                response = session.get(url, headers=headers, allow_redirects=follow)
            except requests.RequestException as error:
                raise PublishError(f"{masked(asked)}: {self._failed(error)}") from error
            except ValueError as error:  # a redirect to what is no address, which requests lets through
                raise PublishError(f"{masked(asked)}: {self._odd(error)}") from error
            target = urljoin(url, response.headers.get("Location", ""))
            if not response.is_redirect or _origin(target) != _origin(url):
                return response
            response.close()
            url = target
        raise PublishError(f"{masked(asked)}: refers from one address to the next without end")

    def _content(self, response: requests.Response, limit: int = BODY_LIMIT) -> bytes:
        try:
            content = read_body(response, limit)
        except requests.RequestException as error:
            raise PublishError(f"{masked(response.url)}: {self._failed(error)}") from error
        if len(content) > limit:
            raise PublishError(f"{masked(response.url)}: the answer is larger than {limit} bytes")
        return content

    def _odd(self, error: ValueError) -> str:
        return self.clean(f"gave an answer that cannot be read: {error}")

    def _failed(self, error: requests.RequestException) -> str:
        if isinstance(error, requests.ConnectTimeout):
            return f"no connection within {self._login.timeout[0]:g} s"
        if isinstance(error, requests.Timeout) or "timed out" in reason(error):
            return f"no answer within {self._login.timeout[1]:g} s (METAWHEEL_TIMEOUT sets how many)"
        return self.clean(f"no complete answer: {reason(error)}")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return (parts.scheme, parts.hostname, _port(parts) or {"http": 80, "https": 443}.get(parts.scheme))


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:  # no number
        return None


def _readable(content: bytes, kind: str) -> str:
    text = content.decode("utf-8", "replace")
    if "html" not in kind.lower():
        return text
    try:
        soup = BeautifulSoup(text, "html.parser")
    except ParserRejectedMarkup:
        return text
    return (soup.body or soup).get_text(" ", strip=True)
