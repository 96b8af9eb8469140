"""Files: the cache's place, and writing so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metawheel.errors import OutputError

PATIENCE = 10  # seconds to wait for another run that is writing the same file


def cache_folder() -> Path:
    """Where fetched pages, half-finished downloads and locks are kept: METAWHEEL_CACHE, or the user's cache."""
    if named := os.environ.get("METAWHEEL_CACHE"):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("metawheel"))


@contextmanager
def alone(path: Path, *, patience: float = 0) -> Iterator[None]:
    """Hold the lock of a file or folder, kept apart from it; raises OutputError if another run has it."""
    from filelock import FileLock, Timeout

    locks = cache_folder() / "locks"
    lock = FileLock(locks / hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest())
    try:
        locks.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience)
    except Timeout:
        raise OutputError(f"{path}: another metawheel is writing it; try again when that has ended") from None
    except OSError as error:
        advice = "name another folder in METAWHEEL_CACHE"
        raise OutputError(f"{locks}: the cache cannot be written: {error.strerror}; {advice}") from error
    try:
        yield
    finally:
        lock.release()


def write_atomic(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace a file in one step; raises OutputError, and then the old file is as it was.

    What a killed run left behind is removed by the next that writes the file.
    """
    with alone(path, patience=PATIENCE):
        name = ""
        try:
            for leftover in _leftovers(path):
                leftover.unlink(missing_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, path)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
        finally:  # on Ctrl-C, too, nothing is left behind
            if name and os.path.exists(name):
                os.unlink(name)


def _leftovers(path: Path) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*.new"))


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content; of no content where there is no such file. Raises OutputError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return hashlib.sha256().hexdigest()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def has_content(path: str | Path, sha256: str) -> bool:
    """Whether a file is there with the content that has this sha256."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == sha256
    except OSError:
        return False


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; everyone may read them, whatever the umask.

    Raises OutputError.
    """
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in missing:
            place.chmod(0o755)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}") from error


def write_new(path: str | Path, content: bytes) -> None:
    """Write a file of a state that nobody reads yet; everyone may read it, whatever the umask."""
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o644)


def write_if_changed(path: Path, content: bytes, *, write: bool = True) -> bool:
    """Whether a file differs from what it should hold; brings it up to date if asked to."""
    differs = not path.exists() or path.read_bytes() != content
    if write and (differs or _leftovers(path)):
        write_atomic(path, content)
    return differs
