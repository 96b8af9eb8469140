"""Rewriting a plain build's wheel so that it carries a local version label.

The content stays; only the dist-info folder's name, METADATA's version and RECORD change. Entries are copied as they
are compressed, so the same wheel gives the same bytes everywhere.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from installer.exceptions import InstallerError
from installer.sources import WheelFile

from metawheel.errors import RelabelError
from metawheel.model import wheel_name

CHUNK = 1024 * 1024
_LOCAL_HEADER = struct.Struct("<26xHH")  # APPNOTE.TXT 4.3.7: the lengths of the name and of the extra field


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
        with zipfile.ZipFile(source) as wheel, source.open("rb") as raw, part.open("w+b") as out:
            metadata = _rewrite(wheel, raw, out, filename, label)
        verify(source, filename)
        verify(part, target.name)
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.replace(part, target)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RelabelError(f"{filename}: is not a wheel that can be relabelled: {error}") from error
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


def _rewrite(wheel: zipfile.ZipFile, raw: BinaryIO, out: BinaryIO, filename: str, label: str) -> bytes:
    name = wheel_name(filename)
    folders = {member.partition("/")[0] for member in wheel.namelist()}
    stems = [folder.removesuffix(".dist-info") for folder in folders if folder.endswith(".dist-info")]
    if len(stems) != 1:
        raise RelabelError(f"{filename}: has {len(stems)} dist-info folders, not one")
    stem = stems[0]
    old, new = f"Version: {name.version}\n".encode(), f"Version: {name.version}+{label}\n".encode()
    metadata = wheel.read(f"{stem}.dist-info/METADATA").replace(b"\r\n", b"\n")
    end = metadata.find(b"\n\n") + 1 or len(metadata)  # the headers, without what follows the first empty line
    head = metadata[:end]
    if head.count(b"\n" + old) != 1:
        raise RelabelError(f"{filename}: its METADATA does not state version {name.version} once")
    metadata = head.replace(b"\n" + old, b"\n" + new) + metadata[end:]
    record = _record(wheel.read(f"{stem}.dist-info/RECORD").decode(), stem, label, metadata)
    changed = {f"{stem}.dist-info/METADATA": metadata, f"{stem}.dist-info/RECORD": record}
    with zipfile.ZipFile(out, "w") as target:
        for item in wheel.infolist():
            entry = _entry(item, _renamed(item.filename, stem, label))
            if item.filename in changed:
                # Stored: what compression makes of it depends on the zlib at hand.
                target.writestr(entry, changed[item.filename], compress_type=zipfile.ZIP_STORED)
            else:
                entry.header_offset = out.tell()
                _copy_compressed(item, entry, raw, out)
                # zipfile can only compress; so its list is told of the entry by hand.
                target.filelist.append(entry)
                target.NameToInfo[entry.filename] = entry
                target.start_dir = out.tell()
    return metadata


def _renamed(path: str, stem: str, label: str) -> str:
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if folder == f"{stem}{ending}":
            return f"{stem}+{label}{ending}{slash}{rest}"
    return path


def _record(text: str, stem: str, label: str, metadata: bytes) -> bytes:
    """The RECORD of the relabelled wheel: the same lines, other paths, METADATA's hash and size anew."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for path, digest, size in csv.reader(io.StringIO(text)):
        if path == f"{stem}.dist-info/METADATA":
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(metadata).digest()).rstrip(b"=").decode()
            writer.writerow([_renamed(path, stem, label), f"sha256={sha256}", str(len(metadata))])
        else:
            writer.writerow([_renamed(path, stem, label), digest, size])
    return out.getvalue().encode()


def _entry(item: zipfile.ZipInfo, filename: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(filename, item.date_time)
    entry.compress_type = item.compress_type
    entry.external_attr = item.external_attr
    entry.create_system = item.create_system
    return entry


def _copy_compressed(item: zipfile.ZipInfo, entry: zipfile.ZipInfo, raw: BinaryIO, out: BinaryIO) -> None:
    """Copy an entry's bytes as they are compressed, behind a header of its own."""
    entry.CRC, entry.file_size, entry.compress_size = item.CRC, item.file_size, item.compress_size
    out.write(entry.FileHeader())
    out.writelines(_compressed(item, raw))


def _compressed(item: zipfile.ZipInfo, raw: BinaryIO) -> Iterator[bytes]:
    raw.seek(item.header_offset)
    name_length, extra_length = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    raw.seek(name_length + extra_length, os.SEEK_CUR)
    left = item.compress_size
    while left:
        chunk = raw.read(min(CHUNK, left))
        if not chunk:
            raise zipfile.BadZipFile(f"{item.filename} is cut off")
        left -= len(chunk)
        yield chunk
