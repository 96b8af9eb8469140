"""The real builder's site, with stand-ins for upstream's gigabytes behind the links."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urljoin

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from metawheel import ledger
from metawheel.family import FAMILY_FILE, LEDGER_FILE, Family, load_families
from metawheel.inputs import Options, make_plan
from metawheel.model import UpstreamFile
from tests.clients.envs import describe
from tests.clients.requirements import facts_of, stand_in
from tests.fakes.pypi import FakePyPI
from tests.fakes.upstream import UpstreamServer, local_path

PACKAGES = Path(__file__).parents[2] / "packages"
# Where upstream hosts its wheels; the stand-in upstream serves both hosts' paths.
ORIGINS = ("https://download.pytorch.org/", "https://storage.googleapis.com/")


@dataclass(frozen=True)
class Relabel:
    """What to relabel (PROJECT==VERSION) before the site is built, and the folder for it with its address."""

    wanted: Sequence[str]
    folder: Path
    url: str


def build_stand_in_site(
    folder: Path,
    upstream: UpstreamServer,
    wrappers: Iterable[str],
    *,
    metadata: bool = True,
    hashes: bool = True,
    flavour: str = "pinned",
    padding: int = 0,
    pypi: FakePyPI | None = None,
    relabel: Relabel | None = None,
) -> Path:
    """Build a site of some wrappers (NAME==VERSION) from the committed ledgers.

    Each upstream wheel they pin is replaced by a stand-in with the true requirement lines: the ledgers of the copy
    hold its address, its sha256 unless `hashes` is off, and the hash of its METADATA where `metadata` says that
    upstream serves it (PEP 658). Files that PyPI hosts are published on `pypi`; without it the site is built offline,
    and lacks them.
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
    hosted: dict[str, str] = {}  # one project may be in several families
    for (owner, name), file in pinned.items():
        if file.url is not None:
            copy = _replaced(file, upstream, metadata=metadata, padding=padding)
            copies[owner].append(copy if hashes else replace(copy, sha256=None, sha256_from=None))
        elif pypi is not None:
            hosted[name] = hosted.get(name) or _published(file, pypi, padding)
            copies[owner].append(replace(file, sha256=hosted[name]))
    packages = folder / "packages"
    for family in families:
        if copies[family.name]:
            _write(family, packages / family.name, upstream, copies[family.name])
    if pypi is None:
        mirrors = ["--offline"]
    else:  # its pages name files by relative links, which count from PyPI itself
        mirrors = [f"--mirror=pypi={pypi.simple}", f"--mirror={urljoin(PYPI_SIMPLE_ENDPOINT, '/')}={pypi.url}"]
    shared = ["--packages", str(packages), *mirrors]
    if relabel is not None:
        options = ["-o", str(relabel.folder), "--url", relabel.url]
        metawheel("relabel", *relabel.wanted, *options, *(item for item in shared if item != "--offline"))
    how = [f"--flavour={flavour}", *(["--allow-unhashed"] * (not hashes))]
    metawheel("build", "-o", str(folder / "site"), *how, *shared)
    return folder / "site"


def metawheel(*arguments: str) -> None:
    """Run the command line, as a user would."""
    command = [sys.executable, "-m", "metawheel", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, describe(command, done)


def _replaced(file: UpstreamFile, upstream: UpstreamServer, *, metadata: bool, padding: int) -> UpstreamFile:
    assert file.url is not None
    path = local_path(file.url)
    if path not in upstream.paths():
        upstream.add(stand_in(path, padding=padding))
    return replace(
        file,
        url=upstream.url_of(path),
        sha256=upstream.sha256(path),
        metadata=upstream.metadata_sha256(path) if metadata else None,
    )


def _published(file: UpstreamFile, pypi: FakePyPI, padding: int) -> str:
    """Publish a stand-in for a file that PyPI hosts, unless it is there; returns its sha256."""
    project, version, tags = file.filename.removesuffix(".whl").split("-", 2)
    facts = facts_of(file.filename)
    built = pypi.add(
        project,
        version,
        requires=facts.requires or file.requires or (),
        requires_python=file.requires_python,
        extras=facts.extras or ("with_cuda",) * project.endswith("plugin"),
        tags=tags,
        padding=padding,
    )
    return built.sha256


def _write(family: Family, folder: Path, upstream: UpstreamServer, files: Iterable[UpstreamFile]) -> None:
    folder.mkdir(parents=True)
    text = (family.folder / FAMILY_FILE).read_text(encoding="utf-8")
    for origin in ORIGINS:
        text = text.replace(origin, upstream.url)
    (folder / FAMILY_FILE).write_text(text, encoding="utf-8")
    ledger.save(folder / LEDGER_FILE, files)
