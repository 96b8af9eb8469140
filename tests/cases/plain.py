"""Plain builds as upstream makes them, with all that makes rewriting a wheel hard."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

PLAIN = "torch-2.9.1-py3-none-any.whl"
LABELLED = "torch-2.9.1+cpu-py3-none-any.whl"
STEM = "torch-2.9.1"

METADATA = b"""\
Metadata-Version: 2.1
Name: torch
Version: 2.9.1
Summary: PyTorch
Requires-Dist: sympy==2.9.1
Description-Content-Type: text/markdown

# PyTorch

Version: 2.9.1
"""

# Names that make trouble: a comma, letters beyond ASCII, a folder's own entry, the .data folder, long content.
MEMBERS = {
    "torch/": b"",
    "torch/__init__.py": b"__version__ = '2.9.1'\n",
    "torch/lib/a, b.txt": b"comma",
    "torch/lib/na\u00efve.txt": "é".encode() * 1000,
    "torch/lib/libtorch.dylib": bytes(range(256)) * 4000,
    f"{STEM}.data/scripts/torchrun": b"#!python\nprint('ran')\n",
    f"{STEM}.data/data/share/{STEM}.dist-info.txt": b"a name that only looks like the folder's",
    f"{STEM}.dist-info/METADATA": METADATA,
    f"{STEM}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{STEM}.dist-info/licenses/LICENSE": b"BSD\n",
}


def record_line(data: bytes) -> tuple[str, str]:
    """A file's hash and size as RECORD states them."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}", str(len(data))


def record_of(members: Mapping[str, bytes], stem: str = STEM) -> bytes:
    """The RECORD of some members."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((name, *record_line(data)) for name, data in members.items() if not name.endswith("/"))
    writer.writerow((f"{stem}.dist-info/RECORD", "", ""))
    return out.getvalue().encode()


class _Pipe(io.BytesIO):
    """A file that cannot be sought, so that zipfile writes sizes behind the data."""

    def seek(self, *_: int) -> int:
        """Refuse to be sought."""
        raise io.UnsupportedOperation("seek")


def zipped(members: Mapping[str, bytes], *, streamed: bool = False) -> bytes:
    """An archive as upstream makes them: deflated, with times and modes of its own."""
    out = _Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, (2025, 11, 12, 1, 2, 4))
            entry.external_attr = (0o40755 if name.endswith("/") else 0o100755) << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(("/", ".py")) else zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return out.getvalue()


def plain_wheel(path: Path, members: Mapping[str, bytes] = MEMBERS, *, streamed: bool = False) -> Path:
    """Write a plain build with a right RECORD."""
    path.write_bytes(zipped({**members, f"{STEM}.dist-info/RECORD": record_of(members)}, streamed=streamed))
    return path


def wheel_of(filename: str, *, text: str = "stand-in\n", wrong_record: bool = False) -> bytes:
    """A plain build by its file name, with a right RECORD or one that knows another METADATA."""
    name, version, _, _ = parse_wheel_filename(filename)
    stem = f"{name}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n{text}".encode()
    wheel = "".join(f"Tag: {tag}\n" for tag in sorted(map(str, parse_wheel_filename(filename)[3])))
    members = {
        f"{name}/__init__.py": f"__version__ = {str(version)!r}\n".encode(),
        f"{name}/lib.so": bytes(range(256)) * 40,
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{wheel}".encode(),
    }
    record = record_of(members, stem)
    if wrong_record:
        members[f"{stem}.dist-info/METADATA"] += b"more\n"
    return zipped({**members, f"{stem}.dist-info/RECORD": record})
