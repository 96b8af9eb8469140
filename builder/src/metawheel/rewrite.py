"""Rewriting a plain build's wheel so that it carries a local version label.

The content stays; only the dist-info folder's name, METADATA's version and RECORD change. Entries are copied as they
are compressed, so the same wheel gives the same bytes everywhere.
"""

from __future__ import annotations

import functools
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from installer.exceptions import InstallerError
from installer.sources import WheelFile

from metawheel.errors import OutputError, RelabelError
from metawheel.files import sha256_of
from metawheel.model import wheel_name
from metawheel.wheelcopy import DAMAGED, copy_wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """A wheel that was given a label."""

    path: Path
    sha256: str
    size: int  # bytes
    metadata: bytes


def relabelled_name(filename: str, label: str) -> str:
    """The file name of a plain build with a local version label; raises RelabelError if it has one already."""
    name = wheel_name(filename)
    if name.version.local is not None:
        raise RelabelError(f"{filename}: has the local version label {name.version.local} already")
    project, version, rest = filename.split("-", 2)
    return f"{project}-{version}+{label}-{rest}"


def relabel_wheel(source: Path, filename: str, label: str, folder: Path) -> Relabelled:
    """Write a plain build, whose bytes lie at `source`, as X+label into a folder.

    Both wheels' records are verified. Raises RelabelError, and then nothing was written.
    """
    target = folder / relabelled_name(filename, label)
    part = folder / f".{target.name}.part"
    try:
        with source.open("rb") as raw, part.open("w+b") as out:
            metadata = _rewrite(raw, out, filename, label)
        verify(source, filename)
        verify(part, target.name)
        digest = sha256_of(part)
        part.chmod(0o644)  # for a web server, whatever the umask
        os.replace(part, target)
    except DAMAGED as error:
        raise RelabelError(f"{filename}: is not a wheel that can be relabelled: {error}") from error
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return Relabelled(path=target, sha256=digest, size=target.stat().st_size, metadata=metadata)


def verify(path: Path, filename: str) -> None:
    """Check every file of a wheel against its RECORD; raises RelabelError."""
    with zipfile.ZipFile(path) as archive:
        archive.filename = filename  # the name it is known by, wherever its bytes lie
        try:
            WheelFile(archive).validate_record()
        except InstallerError as error:
            raise RelabelError(f"{filename}: does not match its RECORD: {error}") from error


def _rewrite(source: BinaryIO, target: BinaryIO, filename: str, label: str) -> bytes:
    name = wheel_name(filename)
    with zipfile.ZipFile(source) as wheel:
        folders = {member.partition("/")[0] for member in wheel.namelist()}
        stems = [folder.removesuffix(".dist-info") for folder in folders if folder.endswith(".dist-info")]
        if len(stems) != 1:
            raise RelabelError(f"{filename}: has {len(stems)} dist-info folders, not one")
        folder = f"{stems[0]}.dist-info"
        metadata = wheel.read(f"{folder}/METADATA").replace(b"\r\n", b"\n")
    old, new = f"Version: {name.version}\n".encode(), f"Version: {name.version}+{label}\n".encode()
    end = metadata.find(b"\n\n") + 1 or len(metadata)  # the headers, without what follows the first empty line
    head = metadata[:end]
    if head.count(b"\n" + old) != 1:
        raise RelabelError(f"{filename}: its METADATA does not state version {name.version} once")
    metadata = head.replace(b"\n" + old, b"\n" + new) + metadata[end:]
    copy_wheel(
        source,
        target,
        folder,
        {f"{folder}/METADATA": metadata},
        renamed=functools.partial(_renamed, stems[0], label),
        compression=zipfile.ZIP_STORED,  # what compression makes of it depends on the zlib at hand
    )
    return metadata


def _renamed(stem: str, label: str, path: str) -> str:
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if folder == f"{stem}{ending}":
            return f"{stem}+{label}{ending}{slash}{rest}"
    return path
