"""Replacing a folder in one step, so that whoever reads it meets the old state or the new, never a mixture."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metawheel.errors import OutputError
from metawheel.files import alone, has_content, make_folder, write_new

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_SWAP = 2  # sys/stdio.h of macOS
_OLD = "-old"


class Stage:
    """The next state of a folder, being laid down beside it; paths are relative, with slashes."""

    def __init__(self, folder: Path, current: Path) -> None:
        self.work = folder / ".work"  # for what is made on the way; gone when the state is complete
        self.work.mkdir()
        self.complete = False  # set when the state may take the folder's place
        self._folder = folder
        self._current = current
        self._made = {""}

    def _place(self, path: str) -> str:
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            place = self._place(folder)
            os.mkdir(place)
            Path(place).chmod(0o755)  # readable for a web server, whatever the umask
            self._made.add(folder)
        return f"{self._folder}/{path}"

    def folder(self, path: str) -> Path:
        """A folder to lay files down in."""
        return Path(self._place(f"{path}/"))

    def keep(self, path: str, sha256: str) -> bool:
        """Take a file over from the current state, if it is there with this content."""
        if not has_content(f"{self._current}/{path}", sha256):
            return False
        self.link(path)
        return True

    def link(self, path: str) -> None:
        """Take a file over from the current state."""
        current, place = f"{self._current}/{path}", self._place(path)
        try:
            os.link(current, place)
        except OSError:  # a file system without hard links
            shutil.copy2(current, place)

    def write(self, path: str, content: bytes) -> None:
        write_new(self._place(path), content)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Lay down a folder's next state; if it is complete on leaving, it takes the folder's place.

    On an error nothing has changed. What a killed run left behind is removed by the next. Raises OutputError where the
    disk says no, or another run is at work on the folder.
    """
    folder = Path(os.path.realpath(folder))
    if _is_inside(folder):
        raise OutputError(f"{folder}: you are in it, and it would be replaced; go elsewhere first")
    with alone(folder):
        try:
            make_folder(folder.parent)
            _clear(folder)
            place = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
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


def _is_inside(folder: Path) -> bool:
    """Whether one is in a folder or below it: it would go away under whoever is there."""
    try:
        return Path.cwd().is_relative_to(folder)
    except FileNotFoundError:  # what one was in has gone already
        return False


def tidy(folder: Path) -> None:
    """Clear away what a killed run left beside a folder; not while another run is at work on it.

    For whoever looks at the folder's state before it lays down the next.
    """
    folder = Path(os.path.realpath(folder))
    if _leftovers(folder):
        with suppress(OutputError), alone(folder):
            _clear(folder)


def _leftovers(folder: Path) -> list[Path]:
    return list(folder.parent.glob(f".{glob.escape(folder.name)}.new-*"))


def _clear(folder: Path) -> None:
    for leftover in _leftovers(folder):
        # Killed where folders cannot be exchanged, between the two steps that do it there.
        if leftover.name.endswith(_OLD) and not folder.exists():
            os.rename(leftover, folder)
        else:
            shutil.rmtree(leftover, ignore_errors=True)


def _replace(new: Path, folder: Path) -> None:
    """Put `new` in the place of `folder`; the old state is then at `new`, or gone."""
    if not folder.exists():
        os.rename(new, folder)
    elif not _exchange(new, folder):
        old = new.with_name(f"{new.name}{_OLD}")
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
