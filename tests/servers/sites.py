"""Sites to publish, with upstream on loopback: the pinned flavour, and the direct one as a user would build it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from metawheel import ledger
from metawheel.family import FAMILY_FILE, LEDGER_FILE, load_families
from metawheel.inputs import Options, make_plan
from metawheel.model import UpstreamFile
from metawheel.site import MANIFEST
from tests.clients.requirements import stand_in
from tests.clients.standin import ORIGINS, PACKAGES, build_stand_in_site, metawheel
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, local_path

WRAPPERS = ("torch-cpu==2.8.0", "torch-cpu==2.9.1", "torch-cu128==2.9.1")


@dataclass(frozen=True)
class Sites:
    """The built sites, and the servers that a client needs beside the index that they are published to."""

    pinned: Path
    direct: Path
    pypi: FakePyPI
    upstream: UpstreamServer
    builds: SiteServer  # an index of upstream's builds alone

    def site(self, flavour: str) -> Path:
        """The site of a flavour."""
        return {"pinned": self.pinned, "direct": self.direct}[flavour]


def build_pinned(folder: Path, upstream: UpstreamServer) -> Path:
    """A pinned site; its upstream pages lie apart as well, in `folder`/builds."""
    site = build_stand_in_site(folder, upstream, WRAPPERS)
    shutil.copytree(site / "simple" / "torch", folder / "builds" / "simple" / "torch")
    return site


def build_direct(folder: Path, upstream: UpstreamServer) -> Path:
    """A site of the direct flavour, from a family whose upstream is the one on loopback."""
    families = load_families(PACKAGES)
    for family in families:
        wanted = [wrapper for wrapper in make_plan([family], Options()).wrappers if wrapper.key in WRAPPERS]
        files = {file.filename: file for wrapper in wanted for file in wrapper.files if file.url is not None}
        if files:
            place = folder / "packages" / family.name
            place.mkdir(parents=True)
            text = (family.folder / FAMILY_FILE).read_text(encoding="utf-8")
            for origin in ORIGINS:
                text = text.replace(origin, upstream.url)
            (place / FAMILY_FILE).write_text(text, encoding="utf-8")
            ledger.save(place / LEDGER_FILE, _replaced(files.values(), upstream))
    site = folder / "site"
    metawheel("build", "--flavour", "direct", "--offline", "-o", str(site), "--packages", str(folder / "packages"))
    return site


def _replaced(files: Iterable[UpstreamFile], upstream: UpstreamServer) -> list[UpstreamFile]:
    found = []
    for file in files:
        path = local_path(file.url or "")
        if path not in upstream.paths():
            upstream.add(stand_in(path))
        found.append(replace(file, url=upstream.url_of(path), sha256=upstream.sha256(path), metadata=None))
    return found


def with_other_bytes(site: Path, copy: Path) -> str:
    """Copy a site and change one wheel of it, as a build would that breaks its promise; returns the wheel's name."""
    shutil.copytree(site, copy)
    manifest = json.loads((copy / MANIFEST).read_bytes())
    name: str = max(manifest["wheels"])
    path = copy / "files" / name
    content = bytearray(path.read_bytes())
    content[-2:] = (2).to_bytes(2, "little")  # the length of the zip file's comment
    path.write_bytes(content + b"!!")
    manifest["wheels"][name] |= {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "size": path.stat().st_size,
    }
    (copy / MANIFEST).write_text(json.dumps(manifest))
    return name
