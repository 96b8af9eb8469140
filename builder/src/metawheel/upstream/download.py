"""Downloading files of any size: resumable, never two files' parts in one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import requests

from metawheel.errors import OutputError, Unreachable
from metawheel.upstream.http import CHUNK, Fetcher, reason
from metawheel.upstream.mirrors import mirrored

Progress = Callable[[int, "int | None"], None]  # bytes so far, the whole number of bytes where known


def hash_file(fetcher: Fetcher, url: str, progress: Progress) -> tuple[str, int]:
    """Download a file to find its sha256 and size in bytes; nothing is kept of it. Raises Unreachable, OutputError."""
    path = download(fetcher, url, progress)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    discard(path)
    return sha256, size


def download(fetcher: Fetcher, url: str, progress: Progress) -> Path:
    """Download a file into the cache; goes on where an earlier run stopped. Raises Unreachable, OutputError.

    The caller takes the file away, or discards it.
    """
    folder = fetcher.cache / "partial"
    part = folder / hashlib.sha256(url.encode()).hexdigest()
    address = mirrored(url, fetcher.mirrors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if urlsplit(address).scheme == "file":
            part.write_bytes(Path(unquote(urlsplit(address).path)).read_bytes())
        else:
            _fetch(fetcher, url, address, part, progress)
    except requests.RequestException as error:
        raise Unreachable(url, f"download broke off: {reason(error)}; run it again to go on") from error
    except FileNotFoundError as error:
        raise Unreachable(url, f"no file at {error.filename}") from error
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}") from error
    return part


def discard(part: Path) -> None:
    """Remove a download and what is noted of it."""
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _validator(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _fetch(fetcher: Fetcher, url: str, address: str, part: Path, progress: Progress) -> None:
    headers = {"Accept-Encoding": "identity"}
    done = 0
    if part.exists() and _validator(part).exists():
        done = part.stat().st_size
        # If-Range: the rest only of the same file, else the whole of the new one (RFC 9110, section 13.1.5).
        headers |= {"Range": f"bytes={done}-", "If-Range": _validator(part).read_text(encoding="ascii")}
    with fetcher.plain_session.get(address, headers=headers, timeout=fetcher.timeout, stream=True) as response:
        if response.status_code == 416 and done:  # nothing is left, or it is another file
            discard(part)
            return _fetch(fetcher, url, address, part, progress)
        if response.status_code not in (200, 206):
            raise Unreachable(url, f"answered {response.status_code} {response.reason}")
        done = done if response.status_code == 206 else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
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
    return None


def _strong_validator(response: requests.Response) -> str | None:
    etag: str | None = response.headers.get("ETag")
    if etag is not None and not etag.startswith("W/") and etag.isascii():
        return etag
    return response.headers.get("Last-Modified")
