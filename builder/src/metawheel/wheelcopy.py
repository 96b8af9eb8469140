"""Copying a wheel with some of its entries changed: the others are copied as they are compressed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from packaging.tags import parse_tag

CHUNK = 1024 * 1024
_LOCAL_HEADER = struct.Struct("<26xHH")  # APPNOTE.TXT 4.3.7: the lengths of the name and of the extra field

# What zipfile raises on content that is no archive, or is damaged, and where a member is missing.
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, StopIteration),
    *(NotImplementedError, RuntimeError, ValueError),
)

Renamed = Callable[[str], str]


def copy_wheel(
    source: BinaryIO,
    target: BinaryIO,
    folder: str,
    changed: Mapping[str, bytes],
    *,
    compression: int,
    renamed: Renamed = str,
) -> None:
    """Copy a wheel, some entries with other content, all under the names that `renamed` gives; RECORD follows.

    `folder` is its dist-info folder, `compression` that of what changes. Raises zipfile.BadZipFile, KeyError and
    ValueError where the source is no wheel.
    """
    with zipfile.ZipFile(source) as wheel, zipfile.ZipFile(target, "w") as out:
        record = f"{folder}/RECORD"
        changed = {**changed, record: _record(wheel.read(record).decode(), changed, renamed)}
        for item in wheel.infolist():
            entry = _entry(item, renamed(item.filename))
            if item.filename in changed:
                out.writestr(entry, changed[item.filename], compress_type=compression)
            else:
                entry.header_offset = target.tell()
                _copy_compressed(item, entry, source, target)
                # zipfile can only compress; so its list is told of the entry by hand.
                out.filelist.append(entry)
                out.NameToInfo[entry.filename] = entry
                out.start_dir = target.tell()


def retagged(wheel: bytes, tag: str) -> bytes:
    """A wheel that hatchling built, with another compressed tag set: the bytes that hatchling gives it then."""
    source, target = io.BytesIO(wheel), io.BytesIO()
    with zipfile.ZipFile(source) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        head = archive.read(name).decode().partition("Tag: ")[0]
    lines = "".join(f"Tag: {one}\n" for one in sorted(map(str, parse_tag(tag))))
    content = {name: f"{head}{lines}".encode()}
    copy_wheel(source, target, name.removesuffix("/WHEEL"), content, compression=zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _record(text: str, changed: Mapping[str, bytes], renamed: Renamed) -> bytes:
    """The copy's RECORD: the same lines, other paths, hash and size of what changes anew."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for path, digest, size in csv.reader(io.StringIO(text)):
        if path in changed:
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(changed[path]).digest()).rstrip(b"=").decode()
            writer.writerow([renamed(path), f"sha256={sha256}", str(len(changed[path]))])
        else:
            writer.writerow([renamed(path), digest, size])
    return out.getvalue().encode()


def _entry(item: zipfile.ZipInfo, filename: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(filename, item.date_time)
    entry.compress_type = item.compress_type
    entry.external_attr = item.external_attr
    entry.create_system = item.create_system
    return entry


def _copy_compressed(item: zipfile.ZipInfo, entry: zipfile.ZipInfo, source: BinaryIO, target: BinaryIO) -> None:
    """Copy an entry's bytes as they are compressed, behind a header of its own."""
    entry.CRC, entry.file_size, entry.compress_size = item.CRC, item.file_size, item.compress_size
    target.write(entry.FileHeader())
    target.writelines(_compressed(item, source))


def _compressed(item: zipfile.ZipInfo, source: BinaryIO) -> Iterator[bytes]:
    source.seek(item.header_offset)
    name_length, extra_length = _LOCAL_HEADER.unpack(source.read(_LOCAL_HEADER.size))
    source.seek(name_length + extra_length, os.SEEK_CUR)
    left = item.compress_size
    while left:
        chunk = source.read(min(CHUNK, left))
        if not chunk:
            raise zipfile.BadZipFile(f"{item.filename} is cut off")
        left -= len(chunk)
        yield chunk
