"""Downloading files of any size: resumable, never two files' parts in one."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests

from metawheel.errors import OutputError, Unreachable
from metawheel.files import alone
from metawheel.upstream.http import CHUNK, Fetcher, reason
from metawheel.upstream.mirrors import mirrored

Progress = Callable[[int, "int | None"], None]  # bytes so far, the whole number of bytes where known


@contextmanager
def downloaded(fetcher: Fetcher, url: str, progress: Progress) -> Iterator[Path]:
    """A file, downloaded into the cache for as long as it is used; goes on where an earlier run stopped.

    Raises Unreachable; OutputError also where another run downloads it: two would write into one part.
    """
    with alone(fetcher.cache / "partial" / hashlib.sha256(url.encode()).hexdigest()):
        part = _download(fetcher, url, progress)
        try:
            yield part
        finally:
            discard(part)


def _download(fetcher: Fetcher, url: str, progress: Progress) -> Path:
    folder = fetcher.cache / "partial"
    part = folder / hashlib.sha256(url.encode()).hexdigest()
    address = mirrored(url, fetcher.mirrors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if urlsplit(address).scheme == "file":
            shutil.copyfile(url2pathname(urlsplit(address).path), part)
        else:
            _fetch(fetcher, url, address, part, progress)
    except requests.RequestException as error:
        raise Unreachable(url, f"download broke off: {reason(error)}; run it again to go on") from error
    except ValueError as error:  # a redirect to what is no address, which requests follows
        raise Unreachable(url, f"gave an answer that cannot be read: {error}") from error
    except FileNotFoundError as error:
        raise Unreachable(url, f"no file at {error.filename}") from error
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror or error}") from error
    return part


def discard(part: Path) -> None:
    """Remove a download and what is noted of it."""
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _validator(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _fetch(fetcher: Fetcher, url: str, address: str, part: Path, progress: Progress) -> None:
    headers = {"Accept-Encoding": "identity"}
    done, asked = 0, False
    if part.exists() and _validator(part).exists():
        done, asked = part.stat().st_size, True
        # If-Range: the rest only of the same file, else the whole of the new one (RFC 9110, section 13.1.5).
        headers |= {"Range": f"bytes={done}-", "If-Range": _validator(part).read_text(encoding="ascii")}
    with fetcher.plain_session.get(address, headers=headers, timeout=fetcher.timeout, stream=True) as response:
        if asked and not _goes_on(response, part, done):  # nothing is left, or it is another file
            discard(part)
            return _fetch(fetcher, url, address, part, progress)
        if response.status_code not in ((200, 206) if asked else (200,)):
            raise Unreachable(url, f"answered {response.status_code} {response.reason}")
        done = done if response.status_code == 206 else 0
        total = _size(response)
        if not done:
            discard(part)
            if validator := _strong_validator(response):
                _validator(part).write_text(validator, encoding="ascii")
        with part.open("ab" if done else "wb") as file:
            for chunk in response.iter_content(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
            os.fsync(file.fileno())
        if response.status_code == 206 and done != total:
            raise Unreachable(url, f"download broke off after {done} bytes; run it again to go on")
    return None


def _goes_on(response: requests.Response, part: Path, done: int) -> bool:
    """Whether an answer to a request for the rest can be used: parts of two files are not put together.

    Servers that do not know If-Range send the rest of whatever they have (RFC 9110, section 15.3.7.3).
    """
    if response.status_code != 206:
        return response.status_code != 416
    same = _strong_validator(response) in (None, _validator(part).read_text(encoding="ascii"))
    return same and re.fullmatch(rf"bytes {done}-\d+/\d+", response.headers.get("Content-Range", "")) is not None


def _size(response: requests.Response) -> int | None:
    """The whole file's number of bytes, where an answer says it."""
    header, pattern = (
        ("Content-Range", r"bytes \d+-\d+/(\d+)") if response.status_code == 206 else ("Content-Length", r"(\d+)")
    )
    found = re.fullmatch(pattern, response.headers.get(header, ""))
    return int(found[1]) if found is not None else None


def _strong_validator(response: requests.Response) -> str | None:
    etag: str | None = response.headers.get("ETag")
    if etag is not None and not etag.startswith("W/") and etag.isascii():
        return etag
    modified: str | None = response.headers.get("Last-Modified")
    return modified if modified is not None and modified.isascii() else None
