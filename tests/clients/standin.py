"""The real builder's site, with stand-ins for upstream's gigabytes behind the links."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from metawheel import ledger
from metawheel.build import Options, make_plan
from metawheel.family import FAMILY_FILE, LEDGER_FILE, Family, load_families
from metawheel.model import UpstreamFile
from tests.clients.requirements import stand_in
from tests.fakes.upstream import UpstreamServer, local_path

PACKAGES = Path(__file__).parents[2] / "packages"
ORIGIN = "https://download.pytorch.org/"


def build_stand_in_site(
    folder: Path, upstream: UpstreamServer, wrappers: Iterable[str], *, metadata: bool = True, padding: int = 0
) -> Path:
    """Build a site of some wrappers (NAME==VERSION) from the committed ledgers.

    Each upstream wheel they pin is replaced by a stand-in with the true requirement lines: the ledgers of the copy
    hold its sha256, and the hash of its METADATA where `metadata` says that upstream serves it (PEP 658).
    """
    families = load_families(PACKAGES)
    wanted = set(wrappers)
    pinned = {
        (wrapper.family, file.filename): file
        for wrapper in make_plan(families, Options()).wrappers
        if wrapper.key in wanted
        for file in wrapper.files
    }
    copies: dict[str, list[UpstreamFile]] = {family.name: [] for family in families}
    for (name, _), file in pinned.items():
        copies[name].append(_replaced(file, upstream, metadata=metadata, padding=padding))
    packages = folder / "packages"
    for family in families:
        if copies[family.name]:
            _write(family, packages / family.name, copies[family.name])
    site = folder / "site"
    command = [sys.executable, "-m", "metawheel", "build", "-o", str(site), "--packages", str(packages), "--offline"]
    subprocess.run([*command, "--mirror", f"{ORIGIN}={upstream.url}"], check=True, capture_output=True)
    return site


def _replaced(file: UpstreamFile, upstream: UpstreamServer, *, metadata: bool, padding: int) -> UpstreamFile:
    assert file.url is not None
    path = local_path(file.url)
    if path not in upstream.paths():
        upstream.add(stand_in(path, padding=padding))
    return replace(
        file,
        sha256=upstream.sha256(path),
        metadata=upstream.metadata_sha256(path) if metadata else None,
    )


def _write(family: Family, folder: Path, files: Iterable[UpstreamFile]) -> None:
    folder.mkdir(parents=True)
    (folder / FAMILY_FILE).write_bytes((family.folder / FAMILY_FILE).read_bytes())
    ledger.save(folder / LEDGER_FILE, files)
