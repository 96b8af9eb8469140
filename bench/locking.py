"""What it costs to lock one project, written in the ways that people write it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.link import Link, SlowPyPI, SlowSite, SlowUpstream
from bench.machine import machine, versions
from bench.measure import MEGABYTE
from bench.report import Part, Table
from tests.clients import envs
from tests.clients.interpreters import find_interpreter
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.projects_other import PdmSource, pdm_project
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock, stock_plain_builds

PYTHON, REQUIRES_PYTHON = "3.10", ">=3.10,<3.11"
WRAPPER, LABEL, RELEASE = "torch-cu116", "cu116", "1.13.1"
BITS, DELAY = 200e6, 0.030  # of the link: bits a second, seconds to an answer
# Bytes of PyPI's files of this release. Upstream's pages give no sizes, and its CUDA builds hold more than PyPI's.
SIZES = {
    "linux_x86_64": 887_450_534,
    "win_amd64": 887_450_534,
    "macosx_10_9_x86_64": 135_290_591,
    "macosx_11_0_arm64": 53_188_434,
}
SMALL = 1_000_000  # of whatever is not torch
CUDA = "(sys_platform == 'linux' and platform_machine == 'x86_64') or sys_platform == 'win32'"
MAC = "sys_platform == 'darwin'"
MARKED = (f"torch=={RELEASE}+{LABEL} ; {CUDA}", f"torch=={RELEASE} ; {MAC}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to write the project."""

    name: str
    requires: Sequence[str]
    index: str | None  # beside PyPI
    primary: bool = False  # before PyPI, for who tells the two apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One client's lock of one way."""

    seconds: float
    processor: float
    requests: int
    other: int  # bytes of pages and metadata
    wheels: int  # bytes
    ending: str  # "" where it locked


def lock(work: Path, rounds: int, limit: float) -> Part:
    """Every measurement of this part."""
    python = find_interpreter(PYTHON)
    found = versions([]) | {name: envs.client_version(name, _own(name, python)) for name in CLIENTS}
    if python is None:
        skipped = f"there is no Python {PYTHON} here"
        return Part(title="Locking", skipped=skipped, versions=found, machine=machine())
    link = Link(bits=BITS, delay=DELAY)
    with ExitStack() as servers:
        pypi, ways = _world(work, link, servers)
        tables = [_table(client, work, ways, pypi, link, python, rounds, limit) for client in CLIENTS]
    return Part(title="Locking", tables=tables, versions=found, machine=machine())


def _world(work: Path, link: Link, servers: ExitStack) -> tuple[str, list[Way]]:
    for kind in (SlowSite, SlowPyPI, SlowUpstream):
        kind.link = link
    wheels = work / "wheels"
    wheels.mkdir()
    upstream, pypi = servers.enter_context(SlowUpstream(wheels, _size)), servers.enter_context(SlowPyPI())
    folder = build_stand_in_site(work / "ours", upstream, [f"{WRAPPER}=={RELEASE}"])
    site = servers.enter_context(SlowSite(folder))
    stock(pypi)
    stock_plain_builds(pypi)
    files = [path for path in upstream.paths() if path.rpartition("/")[2].startswith("torch-")]
    for place, hashed in (("bare", False), ("hashed", True)):
        anchors = [_anchor(upstream, path, hashed=hashed) for path in files]
        upstream.add_page(f"{place}/torch/", f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>")
    urls = {path.rpartition("-")[2].removesuffix(".whl"): upstream.url_of(path) for path in files if "-cp310-" in path}
    by_url = (
        f"torch @ {urls['linux_x86_64']} ; sys_platform == 'linux' and platform_machine == 'x86_64'",
        f"torch @ {urls['win_amd64']} ; sys_platform == 'win32'",
        f"torch @ {urls['macosx_11_0_arm64']} ; {MAC} and platform_machine == 'arm64'",
    )
    bare, hashed_index = f"{upstream.url}bare/", f"{upstream.url}hashed/"
    return pypi.simple, [
        Way(name="our wrapper", requires=[f"{WRAPPER}=={RELEASE}"], index=site.simple),
        Way(name="wheel URLs", requires=by_url, index=None),
        Way(name="extra source, supplemental, no hashes", requires=MARKED, index=bare),
        Way(name="extra source, primary, no hashes", requires=MARKED, index=bare, primary=True),
        Way(name="extra source, supplemental, hashes", requires=MARKED, index=hashed_index),
        Way(name="extra source, primary, hashes", requires=MARKED, index=hashed_index, primary=True),
        Way(name="local version, no source", requires=MARKED, index=None),
        Way(name="plain torch from PyPI's page", requires=[f"torch=={RELEASE}"], index=None),
    ]


def _size(path: str) -> int:
    name = path.rpartition("/")[2]
    return SIZES[name.rpartition("-")[2].removesuffix(".whl")] if name.startswith("torch-") else SMALL


def _anchor(upstream: SlowUpstream, path: str, *, hashed: bool) -> str:
    fragment = f"#sha256={upstream.sha256(path)}" if hashed else ""
    return f'<a href="{upstream.url_of(path)}{fragment}">{path.rpartition("/")[2]}</a><br>\n'


def _table(
    client: str, work: Path, ways: Sequence[Way], pypi: str, link: Link, python: Path, rounds: int, limit: float
) -> Table:
    rows: dict[str, Mapping[str, float | None]] = {}
    ways = [way for way in ways if client in WITH_PRIORITIES or not way.primary]
    trials: dict[str, list[Trial]] = {way.name: [] for way in ways}
    for number in range(rounds):
        for way in ways:
            if any(trial.wheels > SMALL for trial in trials[way.name]):
                continue  # gigabytes, once is enough
            folder = work / f"{client}-{number}-{way.name.replace(' ', '-')}"
            trials[way.name].append(_trial(client, folder, way, pypi, link, python, limit))
    for name, found in trials.items():
        ending = found[0].ending
        rows[f"{name} ({ending})" if ending else name] = {
            "wheels, MB": median(trial.wheels for trial in found) / MEGABYTE,
            "all bytes": median(trial.wheels + trial.other for trial in found),
            "requests": median(trial.requests for trial in found),
            "s": median(trial.seconds for trial in found),
            "processor s": median(trial.processor for trial in found),
        }
    return Table(
        title=client,
        about=(
            f"Everything is on loopback behind a link of {BITS / 1e6:g} Mbit/s and {DELAY * 1000:g} ms. torch "
            f"{RELEASE} for {LABEL} on Linux and Windows, plain on macOS, Python {PYTHON}; its wheels have the sizes "
            f"of those on PyPI; no cache before. {SCOPE[client]}"
        ),
        rows=rows,
    )


def _trial(client: str, folder: Path, way: Way, pypi: str, link: Link, python: Path, limit: float) -> Trial:
    arguments, env = CLIENTS[client](folder, way, pypi, python)
    link.reset()
    start, used, ending = time.perf_counter(), _children(), ""
    try:
        done = envs.run(
            client,
            arguments,
            cwd=folder,
            env=env,
            python=_own(client, python),
            interpreters=[python],
            timeout=limit,
            status=None,
        )
        if done.returncode:
            ending = "refused"
            (folder / "said.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    except envs.ClientFailedError:
        ending = f"stopped after {limit:g} s"
    return Trial(
        seconds=time.perf_counter() - start,
        processor=_children() - used,
        requests=link.requests,
        other=link.other_bytes,
        wheels=link.wheel_bytes,
        ending=ending,
    )


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _own(client: str, python: Path | None) -> Path | None:
    return python if envs.CLIENTS[client].in_project else None


Setup = tuple[Sequence[str], Mapping[str, str]]  # arguments and environment


def _uv(folder: Path, way: Way, pypi: str, python: Path) -> Setup:
    indexes = [UvIndex("extra", way.index, explicit=way.name != "our wrapper" and not way.primary)] if way.index else []
    pins = {"torch": "extra"} if indexes and indexes[0].explicit else None
    uv_project(
        folder,
        way.requires,
        [*indexes, UvIndex("pypi", pypi, default=True)],
        pins=pins,
        requires_python=REQUIRES_PYTHON,
    )
    return ["lock", "--python", str(python)], {}


def _poetry(folder: Path, way: Way, pypi: str, _: Path) -> Setup:
    sources = [PoetrySource("stand-in", pypi, "supplemental" if way.primary else "primary")]
    pins = None
    if way.index:
        sources.insert(0, PoetrySource("extra", way.index, "primary" if way.primary else "supplemental"))
        pins = {WRAPPER if way.name == "our wrapper" else "torch": "extra"}
    poetry_project(folder, way.requires, sources, pins=pins, requires_python=REQUIRES_PYTHON)
    return ["lock"], {}


def _pdm(folder: Path, way: Way, pypi: str, python: Path) -> Setup:
    sources = [PdmSource("extra", way.index, (WRAPPER, "torch"))] if way.index else []
    pdm_project(folder, way.requires, [*sources, PdmSource("pypi", pypi)], requires_python=REQUIRES_PYTHON)
    return ["lock", "--platform", "linux"], {"PDM_PYTHON": str(python), "PDM_CHECK_UPDATE": "0"}


def _pip(folder: Path, way: Way, pypi: str, _: Path) -> Setup:
    folder.mkdir()
    indexes = ["--index-url", pypi, *(["--extra-index-url", way.index] if way.index else [])]
    if way.primary and way.index:
        indexes = ["--index-url", way.index, "--extra-index-url", pypi]
    dry = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json"]
    return [*dry, *indexes, *way.requires], {}


CLIENTS: Mapping[str, Callable[[Path, Way, str, Path], Setup]] = {
    "poetry": _poetry,
    "uv": _uv,
    "pdm": _pdm,
    "pip": _pip,
}
WITH_PRIORITIES = {"poetry", "uv"}  # to the others, indexes are equal
SCOPE = {
    "poetry": "`poetry lock`, for every platform.",
    "uv": "`uv lock`, for every platform; a supplemental source is an explicit index.",
    "pdm": "`pdm lock --platform linux`: for one platform, as its universal lock has one version for each name.",
    "pip": "`pip install --dry-run --report`: for this machine only.",
}
