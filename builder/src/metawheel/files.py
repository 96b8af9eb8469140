"""Files: the cache's place, and writing so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

from metawheel.errors import OutputError


def cache_folder() -> Path:
    """Where fetched pages, half-finished downloads and locks are kept: METAWHEEL_CACHE, or the user's cache."""
    return Path(os.environ.get("METAWHEEL_CACHE") or platformdirs.user_cache_dir("metawheel"))


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file in one step; raises OutputError, and then the old file is as it was."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        os.unlink(name)
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    except BaseException:  # Ctrl-C: leave nothing behind
        os.unlink(name)
        raise


def has_content(path: Path, sha256: str) -> bool:
    """Whether a file is there with the content that has this sha256."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def write_if_changed(path: Path, content: bytes, *, write: bool = True) -> bool:
    """Whether a file differs from what it should hold; brings it up to date if asked to."""
    if path.exists() and path.read_bytes() == content:
        return False
    if write:
        write_atomic(path, content)
    return True
