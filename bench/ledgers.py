"""The committed families with their ledgers as often over as asked: more releases of the same kind."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from packaging.version import Version

from metawheel import ledger
from metawheel.family import LEDGER_FILE, load_families
from metawheel.model import UpstreamFile

PACKAGES = Path(__file__).parents[1] / "packages"
STEP = 100  # between the major numbers of one copy's releases and the next's


def scaled(folder: Path, times: int) -> Path:
    """Families whose ledgers hold every release `times` times, each under a major number of its own."""
    return _written(folder, PACKAGES, lambda files: (_copy(file, number) for number in range(times) for file in files))


def without_newest(folder: Path, packages: Path = PACKAGES) -> Path:
    """The families as they were before PyTorch's newest release and its companions."""
    files = [file for family in load_families(packages) for file in ledger.load(family.ledger_path)]
    newest = max(file.release for file in files if file.project == "torch")

    def is_new(file: UpstreamFile) -> bool:
        required = any(f"=={newest}" in line.replace(" ", "") for line in file.requires or ())
        return required or (file.project == "torch" and file.release == newest)

    return _written(folder, packages, lambda known: (file for file in known if not is_new(file)))


def _written(folder: Path, packages: Path, change: Callable[[Iterable[UpstreamFile]], Iterator[UpstreamFile]]) -> Path:
    for family in load_families(packages):
        shutil.copytree(family.folder, folder / family.folder.name)
        ledger.save(folder / family.folder.name / LEDGER_FILE, change(ledger.load(family.ledger_path)))
    return folder


def _copy(file: UpstreamFile, number: int) -> UpstreamFile:
    if not number:
        return file
    project, version, rest = file.filename.split("-", 2)
    major = Version(version).major
    name = f"{project}-{re.sub(r'^[0-9]+', str(major + STEP * number), version)}-{rest}"
    requires = file.requires
    if requires is not None:
        requires = tuple(
            re.sub(r"([<>=]=\s*)(\d+)", lambda found: f"{found[1]}{int(found[2]) + STEP * number}", line)
            for line in requires
        )
    return replace(
        file,
        filename=name,
        url=None if file.url is None else f"{file.url.rpartition('/')[0]}/{quote(name)}",
        sha256=None if file.sha256 is None else hashlib.sha256(f"{number} {file.sha256}".encode()).hexdigest(),
        upstream_sha256=None,
        requires=requires,
    )
