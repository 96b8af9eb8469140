"""Replacing a folder in one step, so that whoever reads it meets the old state or the new, never a mixture."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from metawheel.errors import OutputError
from metawheel.files import cache_folder, has_content

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_SWAP = 2  # sys/stdio.h of macOS


class Stage:
    """The next state of a folder, being laid down beside it."""

    def __init__(self, folder: Path, current: Path) -> None:
        self.work = folder / ".work"  # for what is made on the way; gone when the state is complete
        self.work.mkdir()
        self.complete = False  # set when the state may take the folder's place
        self._folder = folder
        self._current = current

    def _place(self, path: str) -> Path:
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def keep(self, path: str, sha256: str) -> bool:
        """Take a file over from the current state, if it is there with this content."""
        current = self._current / path
        if not has_content(current, sha256):
            return False
        try:
            os.link(current, self._place(path))
        except OSError:  # a file system without hard links
            shutil.copy2(current, self._place(path))
        return True

    def move(self, path: str, source: Path) -> None:
        place = self._place(path)
        shutil.move(source, place)
        place.chmod(0o644)

    def write(self, path: str, content: bytes) -> None:
        place = self._place(path)
        place.write_bytes(content)
        place.chmod(0o644)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Lay down a folder's next state; if it is complete on leaving, it takes the folder's place.

    On an error nothing has changed. What a killed run left behind is removed by the next. Raises OutputError where the
    disk says no, or another run is at work on the folder.
    """
    folder = Path(os.path.realpath(folder))
    prefix = f".{folder.name}.new-"
    with _alone(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            for leftover in folder.parent.glob(f"{prefix}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            place = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror}") from error
        try:
            place.chmod(0o755)
            stage = Stage(place, folder)
            yield stage
            if stage.complete:
                shutil.rmtree(stage.work)
                _replace(place, folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror} ({error.filename})") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, kept apart from it; raises OutputError if another run has it."""
    locks = cache_folder() / "locks"
    lock = FileLock(locks / hashlib.sha256(os.fsencode(folder)).hexdigest())
    try:
        locks.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise OutputError(f"{folder}: another metawheel is writing it; try again when that has ended") from None
    except OSError as error:
        raise OutputError(f"{locks}: the cache cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _replace(new: Path, folder: Path) -> None:
    """Put `new` in the place of `folder`; the old state is then at `new`, or gone."""
    if not folder.exists():
        os.rename(new, folder)
    elif not _exchange(new, folder):
        old = new.with_name(f"{new.name}-old")
        os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; False where the system cannot."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        a, b = os.fsencode(one), os.fsencode(other)
        if sys.platform == "linux":
            return bool(libc.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE) == 0)
        if sys.platform == "darwin":
            return bool(libc.renamex_np(a, b, _RENAME_SWAP) == 0)
    except (OSError, AttributeError, TypeError):
        pass
    return False
