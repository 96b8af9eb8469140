"""Writing a site, against the generators of static package indexes."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.machine import machine, tool, tool_version, versions
from bench.measure import MEGABYTE, Cost, in_turns, run
from bench.report import Part, Table
from metawheel.model import UpstreamFile, Wrapper
from tests.fakes.wheels import WheelSpec, build_wheel

ROOT = Path(__file__).parents[1]
NAMES = tuple(f"torch-cu{number}" for number in range(100, 120))
LINKS = 10  # upstream wheels that a wrapper pins
TOOLS = ("dumb-pypi", "simple503", "simple-repository-generator")
MEMORY = "/dev/shm"  # noqa: S108  where Linux has its tmpfs

Contender = Callable[[Path, Path], list[str | Path]]  # of (the folder with the input, the site)


def write_sites(work: Path, rounds: int, sizes: Sequence[int]) -> Part:
    """Every measurement of this part."""
    tables: list[Table] = []
    with _memory() as memory:
        for files in sizes:
            tables += _size(memory / str(files), rounds, files)
            shutil.rmtree(memory / str(files))
    tables.append(_on_disk(work, rounds, max(sizes)))
    found = {**versions([]), **{name: tool_version(name) for name in TOOLS}}
    return Part(title="Writing a site", tables=tables, versions=found, machine=machine())


@contextmanager
def _memory() -> Iterator[Path]:
    """A folder in memory: on a disk, what most of the time goes into is the file system, whoever writes."""
    with tempfile.TemporaryDirectory(prefix="metawheel-bench-", dir=MEMORY) as folder:
        yield Path(folder)


def _size(work: Path, rounds: int, files: int) -> list[Table]:
    after, before = work / "after", work / "before"
    _inputs(before, files - len(NAMES))
    _inputs(after, files)
    shutil.copy(before / "packages.json", after / "previous.json")
    contenders = _contenders()
    sites = {name: work / f"site-{number}" for number, name in enumerate(contenders)}

    def onward(name: str) -> Cost:
        _afresh(contenders[name], before, sites[name])
        return run(contenders[name](after, sites[name]), cwd=ROOT)

    whole = in_turns({name: partial(_afresh, contenders[name], after, sites[name]) for name in contenders}, rounds)
    written = {name: _pages(site) for name, site in sites.items()}
    update = in_turns({name: partial(onward, name) for name in contenders}, rounds)
    return [
        Table(
            title=f"{files:,} wheels",
            about=(
                f"The same tiny wheels of {len(NAMES)} projects, in memory (tmpfs); each reads them and writes its "
                "whole index, with a copy of the wheels where it can. dumb-pypi only links to them, and is given their "
                "hashes for nothing; so is ours in the row `only the index`. Ours writes HTML, JSON and metadata, and "
                "takes many wheels over in workers, as builds make them; `with upstream` also "
                f"{LINKS} upstream links for each wheel and the {len(NAMES)} views. `MB written` is without the wheels."
            ),
            rows={name: {**cost.values(), **written[name]} for name, cost in whole.items()},
        ),
        Table(
            title=f"{files:,} wheels, {len(NAMES)} of them new",
            about="Each over the site that it wrote before: one new version of each project.",
            rows={name: cost.values() for name, cost in update.items()},
        ),
    ]


def _on_disk(work: Path, rounds: int, files: int) -> Table:
    given, site, contenders = work / "after", work / "site", _contenders()
    _inputs(given, files)
    costs = in_turns({name: partial(_afresh, contenders[name], given, site) for name in contenders}, rounds)
    return Table(
        title=f"{files:,} wheels, on this machine's disk",
        about="The same where the file system takes its time, which differs from run to run more than the programs do.",
        rows={name: cost.values() for name, cost in costs.items()},
    )


def _afresh(contender: Contender, given: Path, site: Path) -> Cost:
    shutil.rmtree(site, ignore_errors=True)
    return run(contender(given, site), cwd=ROOT)


def _inputs(folder: Path, files: int) -> None:
    """As many wheels, in equal parts of each project."""
    _input(folder, [_wrapper(name, number) for name in NAMES for number in range(files // len(NAMES))])


def _contenders() -> Mapping[str, Contender]:
    ours: list[str | Path] = [sys.executable, "-m", "bench.ours"]

    def dumb_pypi(given: Path, site: Path) -> list[str | Path]:
        options: list[str | Path] = ["--package-list-json", given / "packages.json", "--packages-url", "../../files"]
        if site.exists():
            options += ["--previous-package-list-json", given / "previous.json"]
        return [tool("dumb-pypi"), *options, "--output-dir", site, "--no-generate-timestamp"]

    return {
        "metawheel": lambda given, site: [*ours, "site", given / "alone.pickle", given / "wheels", site],
        "metawheel, with upstream": lambda given, site: [
            *(*ours, "site", given / "wrappers.pickle", given / "wheels", site)
        ],
        "metawheel, only the index": lambda given, site: [
            *(*ours, "pages", given / "alone.pickle", given / "packages.json", given / "wheels", site)
        ],
        "dumb-pypi": dumb_pypi,
        "simple503": lambda given, site: [tool("simple503"), "--copy", "--sort", given / "wheels", site],
        "simple-repository-generator": lambda given, site: [
            *(tool("simple-repository-generator"), "--copy", "--force", "-o", site, given / "wheels")
        ],
    }


def _wrapper(name: str, number: int) -> Wrapper:
    version = f"{number // 100}.{number // 10 % 10}.{number % 10}"
    files = tuple(
        _upstream(f"torch-{version}+{name[6:]}-cp3{8 + link}-cp3{8 + link}-linux_x86_64.whl") for link in range(LINKS)
    )
    return Wrapper(
        name=name,
        version=version,
        release=version,
        family="torch-cuda",
        flavour="pinned",
        view=name.removeprefix("torch-"),
        summary=f"PyTorch {version}",
        requires=(f"torch=={version}+{name[6:]}",),
        extras=(),
        requires_python=">=3.8",
        tags=("cp38.cp39.cp310-none-linux_x86_64.win_amd64",),
        cells=(),
        files=files,
    )


def _upstream(filename: str) -> UpstreamFile:
    sha256 = hashlib.sha256(filename.encode()).hexdigest()
    url = f"https://upstream.invalid/whl/{filename.replace('+', '%2B')}"
    return UpstreamFile(filename=filename, source="up", url=url, sha256=sha256)


def _input(folder: Path, wrappers: Sequence[Wrapper]) -> None:
    """The wheels, and what each contender is told of them."""
    (folder / "wheels").mkdir(parents=True)
    lines = []
    for wrapper in wrappers:
        for name in wrapper.wheels:
            built = build_wheel(WheelSpec(name, wrapper.requires, wrapper.requires_python))
            (folder / "wheels" / name).write_bytes(built.data)
            facts = {"filename": name, "hash": f"sha256={built.sha256}", "requires_python": wrapper.requires_python}
            lines.append(json.dumps({**facts, "core_metadata": f"sha256={built.metadata_sha256}"}))
    (folder / "packages.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    alone = [replace(wrapper, view=None, files=()) for wrapper in wrappers]
    for name, value in (("wrappers", wrappers), ("alone", alone)):
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(value))


def _pages(site: Path) -> dict[str, float]:
    sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file() and path.suffix != ".whl"]
    return {"MB written": sum(sizes) / MEGABYTE, "files written": len(sizes)}
