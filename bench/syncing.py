"""Reading upstream's pages, against the libraries that read package indexes, and asking again when nothing is new."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.ledgers import PACKAGES
from bench.machine import machine, tool, tool_version, versions
from bench.measure import MEGABYTE, Cost, run
from bench.report import Part, Table
from metawheel.family import LEDGER_FILE
from tests.fakes.httpd import Reply
from tests.fakes.site import SiteServer

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT.parent / "shared" / "upstream" / "pages"
PYTORCH, JAX = "https://download.pytorch.org/whl/", "https://storage.googleapis.com/jax-releases/"
PAGES = {
    "torch_stable.html (2021)": ("raw-copies/torch_stable.2021*.html", PYTORCH),
    "whl/cpu/torch/": ("whl/cpu/torch/index.html", f"{PYTORCH}cpu/torch/"),
    "jax_releases.html": ("jax-releases/jax_releases.html", JAX),
    "PyPI's torch (JSON)": ("pypi/simple/torch/index.json", "https://pypi.invalid/simple/torch/"),
}
READINGS = 5  # of a page by one process


class PageServer(SiteServer):
    """A host of pages that answers conditional requests (RFC 9110, section 13), as upstream's do."""

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Send a page, or say that the client has it."""
        reply = super().answer(path, headers)
        tag = f'"{hashlib.sha256(reply.body).hexdigest()[:32]}"'
        if reply.status != 200:
            return reply
        if headers.get("if-none-match") == tag:
            return Reply(status=304, headers={"ETag": tag})
        return replace(reply, headers={"ETag": tag})


def sync(work: Path, rounds: int) -> Part:
    """Every measurement of this part."""
    found = {**versions(["pypi-simple", "requests", "cachecontrol"]), "unearth": tool_version("unearth")}
    skipped = None if SNAPSHOT.is_dir() else "the snapshot of upstream's pages (../shared/upstream/pages) is not here"
    tables = [] if skipped else [*(_page(name, rounds) for name in PAGES), _again(work, rounds)]
    return Part(title="Reading upstream", tables=tables, skipped=skipped, versions=found, machine=machine())


def _page(name: str, rounds: int) -> Table:
    pattern, url = PAGES[name]
    (path,) = SNAPSHOT.glob(pattern)
    interpreters = {
        "metawheel": sys.executable,
        "pypi-simple": sys.executable,
        "unearth": str(tool("unearth", python_module=True)),
    }
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in interpreters}
    for _ in range(rounds):
        for reader, python in interpreters.items():
            runs[reader].append(_read(python, reader, path, url))
    rows: dict[str, dict[str, float | None]] = {}
    for reader, found in runs.items():
        links, again, first, memory = (
            median(one[key] for one in found) for key in ("links", "again", "first", "memory")
        )
        rows[reader] = {
            "links": links,
            "processor ms": again * 1000,
            "µs a link": again * 1e6 / links,
            "first time, with imports, ms": first * 1000,
            "peak MB": memory / MEGABYTE,
        }
    return Table(
        title=name,
        about=(
            f"{path.stat().st_size:,} bytes from memory. Ours counts the links to wheels, and checks each name, "
            "address and hash; pypi-simple is what ours reads with."
        ),
        rows=rows,
    )


def _read(python: str, reader: str, path: Path, url: str) -> dict[str, float]:
    command = [python, str(Path(__file__).with_name("read_page.py")), reader, str(path), url, str(READINGS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _again(work: Path, rounds: int) -> Table:
    """The families of PyTorch on loopback: their pages for the first time, and again."""
    packages, pypi = work / "packages", work / "pypi"
    for name in ("torch-cpu", "torch-cuda"):
        shutil.copytree(PACKAGES / name, packages / name)
        (packages / name / LEDGER_FILE).unlink()
    for project in ("torchvision", "torchaudio"):  # its METADATA, to pair by, is not here
        (pypi / project).mkdir(parents=True)
        (pypi / project / "index.html").write_text(
            f'<a href="{project}-0.0.1-py3-none-any.whl">{project}</a>', encoding="utf-8"
        )
    rows: dict[str, dict[str, float | None]] = {}
    with PageServer(SNAPSHOT / "whl") as pages, PageServer(pypi) as other:
        mirrors = [f"--mirror={PYTORCH}={pages.url}", f"--mirror=pypi={other.url}"]
        command: list[str | Path] = [sys.executable, "-m", "metawheel", "sync", "--packages", packages, *mirrors]

        def synced() -> tuple[Cost, dict[str, float | None]]:
            pages.log.reset()
            cost = run(command)
            return cost, {
                "requests": pages.log.count(),
                "of them 304": pages.log.count(status=304),
                "bytes": pages.log.bytes(),
            }

        cost, asked = synced()
        rows["the first sync"] = {**asked, **cost.values()}
        again = [synced() for _ in range(rounds)]
        rows["nothing new"] = {**again[-1][1], **Cost.median([cost for cost, _ in again]).values()}
        urls = [f"{pages.url}{project}/" for project in ("torch", "torchvision", "torchaudio")]
        code = (
            "import sys; from pypi_simple import PyPISimple\nfor url in sys.argv[1:]: PyPISimple(url).get_index_page()"
        )
        pages.log.reset()
        plain = run([sys.executable, "-c", code, *urls])
        asked = {"requests": pages.log.count(), "of them 304": pages.log.count(status=304), "bytes": pages.log.bytes()}
        rows["pypi-simple, each time"] = {**asked, **plain.values()}
    return Table(
        title="A sync with nothing new",
        about="`metawheel sync` of torch-cpu and torch-cuda from a loopback copy of upstream's pages; bodies' bytes.",
        rows=rows,
    )
