"""Small but valid wheels that stand in for the gigabytes upstream serves."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from packaging.tags import Tag
from packaging.utils import BuildTag, parse_wheel_filename
from packaging.version import Version

# The oldest time a zip entry can carry; a fixed one keeps the bytes the same in every run.
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class WheelSpec:
    """What a stand-in wheel says and where it lies; the file name in `path` gives name, version and tags."""

    path: str
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    extras: tuple[str, ...] = ()
    # Given, it is written byte for byte, and the three fields above are not looked at.
    metadata: bytes | None = None
    # Bytes of ballast, for tests that tell a range request from a whole download.
    padding: int = 0

    @property
    def filename(self) -> str:
        """The percent-decoded last segment of the path."""
        return unquote(self.path.split("#")[0].rsplit("/", 1)[-1])

    @cached_property
    def _parsed(self) -> tuple[str, Version, BuildTag, frozenset[Tag]]:
        return parse_wheel_filename(self.filename)

    @property
    def name(self) -> str:
        """The normalized project name."""
        return self._parsed[0]

    @property
    def version(self) -> Version:
        """The version, local label included."""
        return self._parsed[1]

    @property
    def build(self) -> BuildTag:
        """The build tag, `()` without one."""
        return self._parsed[2]

    @property
    def tags(self) -> frozenset[Tag]:
        """Every tag of the compressed set in the file name."""
        return self._parsed[3]


def metadata_text(
    name: str,
    version: str,
    requires: Iterable[str] = (),
    requires_python: str | None = None,
    extras: Iterable[str] = (),
) -> bytes:
    """Render a METADATA file."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: stand-in"]
    if requires_python:
        lines.append(f"Requires-Python: {requires_python}")
    lines += [f"Requires-Dist: {line}" for line in requires]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    return ("\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class BuiltWheel:
    """The bytes of a wheel, those of its METADATA, and their hashes."""

    spec: WheelSpec
    data: bytes
    metadata: bytes

    @cached_property
    def sha256(self) -> str:
        """Hex sha256 of the wheel."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def metadata_sha256(self) -> str:
        """Hex sha256 of METADATA, as a page's `data-core-metadata` says it."""
        return hashlib.sha256(self.metadata).hexdigest()


def build_wheel(spec: WheelSpec) -> BuiltWheel:
    """Make the wheel that a spec describes; the same spec always gives the same bytes."""
    stem = "-".join(spec.filename.split("-")[:2])
    module = spec.name.replace("-", "_")
    metadata = spec.metadata
    if metadata is None:
        metadata = metadata_text(spec.name, str(spec.version), spec.requires, spec.requires_python, spec.extras)
    files = {f"{module}.py": f'__version__ = "{spec.version}"\n'.encode()}
    if spec.padding:
        files[f"{module}.bin"] = bytes(spec.padding)
    files[f"{stem}.dist-info/METADATA"] = metadata
    files[f"{stem}.dist-info/WHEEL"] = _wheel_file(spec)
    files[f"{stem}.dist-info/RECORD"] = _record(files, f"{stem}.dist-info/RECORD")
    out = io.BytesIO()
    # Stored, not deflated: compressed bytes differ between zlib versions.
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3
            archive.writestr(entry, data)
    return BuiltWheel(spec, out.getvalue(), metadata)


def _wheel_file(spec: WheelSpec) -> bytes:
    pure = all(tag.platform == "any" for tag in spec.tags)
    lines = ["Wheel-Version: 1.0", "Generator: stand-in", f"Root-Is-Purelib: {str(pure).lower()}"]
    lines += sorted(f"Tag: {tag}" for tag in spec.tags)
    if spec.build:
        lines.append("Build: " + "".join(str(part) for part in spec.build))
    return ("\n".join(lines) + "\n").encode()


def _record(files: dict[str, bytes], own_path: str) -> bytes:
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    return ("\n".join([*rows, f"{own_path},,"]) + "\n").encode()
