"""One name, one lock, the right build on every platform: real clients on the real builder's site."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.clients.locks import TARGETS, Lock, ReportLock, Target, read_lock
from tests.clients.projects import PoetrySource, UvIndex, poetry_project, uv_project
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock_plain_builds
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer

pytestmark = pytest.mark.clients

PADDING = 300_000  # bytes in each stand-in: a wheel that is fetched whole shows
ONLY_RANGES = 200_000  # bytes of upstream's wheels that locking may read where they have no METADATA beside them

# What the merged pages list: the wrappers that are asked for, and others of the same torch as decoys.
WRAPPERS = (
    *("torch-cpu==1.13.1", "torch-cu116==1.13.1", "torch-cu117==1.13.1"),
    *("torch-cpu==2.9.1", "torch-cu128==2.9.1", "torch-cu129==2.9.1"),
    *("torch-cpu==2.10.0", "torch-cu126==2.10.0", "torch-cu128==2.10.0", "torch-cu130==2.10.0", "torch-cuda==2.10.0"),
)


@dataclass(frozen=True)
class World:
    """The three servers: our site, upstream, and what stands in for PyPI."""

    site: SiteServer
    upstream: UpstreamServer
    pypi: FakePyPI


@dataclass(frozen=True)
class Case:
    """A project, and the builds that its lock must name on each target (see TARGETS); None: nothing to install."""

    requirement: str
    python: str
    builds: Mapping[str, Sequence[str | None]]

    @property
    def wrapper(self) -> str:
        return Requirement(self.requirement).name


# In the order of TARGETS: Linux x86_64, Linux aarch64, macOS arm64, macOS x86_64, Windows AMD64.
CASES = (
    Case("torch-cu116==1.13.1", "3.10", {"torch": ("1.13.1+cu116", None, "1.13.1", "1.13.1", "1.13.1+cu116")}),
    Case("torch-cpu==1.13.1", "3.10", {"torch": ("1.13.1+cpu", "1.13.1", "1.13.1", "1.13.1", "1.13.1+cpu")}),
    Case("torch-cpu==2.9.1", "3.11", {"torch": ("2.9.1+cpu", "2.9.1+cpu", "2.9.1", None, "2.9.1+cpu")}),
    Case(
        "torch-cu128[vision]==2.10.0",
        "3.11",
        {
            "torch": ("2.10.0+cu128", "2.10.0+cu128", "2.10.0", None, "2.10.0+cu128"),
            "torchvision": ("0.25.0+cu128", "0.25.0+cu128", "0.25.0", None, "0.25.0+cu128"),
        },
    ),
    Case("torch-cuda==2.10.0", "3.11", {"torch": ("2.10.0+cu130", "2.10.0+cu130", "2.10.0", None, "2.10.0+cu130")}),
)


@pytest.fixture(scope="module", params=[True, False], ids=["pep658", "ranges"])
def standing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SiteServer, UpstreamServer]]:
    """Our site with upstream behind it, once with METADATA beside upstream's wheels and once without."""
    with UpstreamServer(metadata=request.param) as upstream:
        folder = tmp_path_factory.mktemp("standing")
        site = build_stand_in_site(folder, upstream, WRAPPERS, metadata=request.param, padding=PADDING)
        with SiteServer(site) as server:
            yield server, upstream


@pytest.fixture
def world(standing: tuple[SiteServer, UpstreamServer], pypi: FakePyPI) -> World:
    site, upstream = standing
    upstream.log.reset()
    stock_plain_builds(pypi)
    return World(site, upstream, pypi)


def uv_lock(world: World, folder: Path, case: Case, *others: str) -> Lock:
    indexes = [UvIndex("metawheel", world.site.simple), UvIndex("pypi", world.pypi.simple, default=True)]
    uv_project(folder, [case.requirement, *others], indexes, requires_python=f"=={case.python}.*")
    envs.run("uv", ["lock", "--python", str(require_interpreter(case.python))], cwd=folder)
    return read_lock(folder / "uv.lock")


def poetry_lock(world: World, folder: Path, case: Case, *others: str) -> Lock:
    sources = [
        PoetrySource("pypi-stand-in", world.pypi.simple),
        PoetrySource("metawheel", world.site.simple, "supplemental"),
    ]
    pins = {case.wrapper: "metawheel"}
    poetry_project(
        folder,
        [case.requirement, *others],
        sources,
        pins=pins,
        requires_python=f">={case.python},<3.{_minor(case) + 1}",
    )
    envs.run("poetry", ["lock"], cwd=folder, interpreters=[require_interpreter(case.python)])
    return read_lock(folder / "poetry.lock")


def _minor(case: Case) -> int:
    return int(case.python.partition(".")[2])


LOCKS = {"uv": uv_lock, "poetry": poetry_lock}


def assert_right(lock: Lock, case: Case) -> None:
    """On every target the named build, with a wheel for it; where the wrapper covers nothing, no wheel of its own."""
    for number, target in enumerate(TARGETS):
        there = target.with_python(case.python)
        covered = all(builds[number] is not None for builds in case.builds.values())
        guard = lock.find(case.wrapper, there)
        assert bool(guard is not None and guard.installable) == covered, f"{case.wrapper} on {target.name}"
        for project, builds in case.builds.items() if covered else ():
            found = lock.find(project, there)
            assert found is not None, f"{project} on {target.name}"
            assert found.version == builds[number], f"{project} on {target.name}"
            assert found.installable, f"{project} {found.version} has no wheel for {target.name}"


@pytest.mark.parametrize("client", LOCKS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.requirement)
def test_one_lock_is_right_on_every_platform_and_downloads_no_wheel(
    client: str, case: Case, world: World, tmp_path: Path
) -> None:
    lock = LOCKS[client](world, tmp_path / "app", case, "lightning-like")
    assert_right(lock, case)
    allowed = 0 if world.upstream.metadata else ONLY_RANGES
    assert world.upstream.log.bytes("wheel") <= allowed
    assert all(lock.find("lightning-like", target.with_python(case.python)) for target in TARGETS)


@pytest.mark.parametrize("client", LOCKS)
def test_a_stranger_with_the_wrappers_name_is_never_taken(client: str, world: World, tmp_path: Path) -> None:
    case = CASES[2]
    world.pypi.add("torch-cpu", "99.0")
    loose = Case("torch-cpu>=2.9,<2.10", case.python, case.builds)
    assert_right(LOCKS[client](world, tmp_path / "app", loose), case)
    anything = Case("torch-cpu", case.python, {})
    found = LOCKS[client](world, tmp_path / "any", anything).find("torch-cpu", TARGETS[0].with_python(case.python))
    assert found is not None
    assert found.version == "2.10.0"


def here() -> tuple[Case, Target]:
    """A case for the interpreter and platform that run the tests, and the target that they are."""
    machine = platform.machine()
    target = next((t for t in TARGETS if (t.sys_platform, t.platform_machine) == (sys.platform, machine)), None)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if target is None or not (3, 10) <= sys.version_info[:2] <= (3, 14):
        pytest.skip(f"torch-cpu 2.9.1 does not cover Python {version} on {sys.platform} {machine}")
    return Case("torch-cpu==2.9.1", version, CASES[2].builds), target


def build_here(case: Case, target: Target) -> str:
    build = case.builds["torch"][TARGETS.index(target)]
    if build is None:
        pytest.skip(f"torch-cpu 2.9.1 does not cover {target.name}")
    return build


CHECK = "import importlib.metadata as m, torch; print(m.version('torch'), m.version('torch-cpu'))"


@pytest.mark.parametrize("client", LOCKS)
def test_a_lock_installs_on_this_platform(client: str, world: World, tmp_path: Path) -> None:
    case, target = here()
    build = build_here(case, target)
    LOCKS[client](world, tmp_path / "app", case)
    command = {"uv": ["sync", "--frozen", "--python", sys.executable], "poetry": ["install"]}[client]
    envs.run(client, command, cwd=tmp_path / "app", interpreters=[Path(sys.executable)])
    assert _run_in(tmp_path / "app" / ".venv") == [build, "2.9.1"]


def test_pip_installs_what_uv_locked_with_hashes_past_a_stranger(world: World, tmp_path: Path) -> None:
    case, target = here()
    build = build_here(case, target)
    world.pypi.add("torch-cpu", "99.0")
    (tmp_path / "requirements.in").write_text("torch-cpu==2.9.1\n", encoding="utf-8")
    compiled = ["pip", "compile", "requirements.in", "--universal", "--generate-hashes", "-o", "requirements.txt"]
    indexes = ["--index", world.site.simple, "--default-index", world.pypi.simple]
    envs.run("uv", [*compiled, *indexes, "--python", sys.executable], cwd=tmp_path)
    envs.run("uv", ["venv", "--no-project", ".venv", "--python", sys.executable], cwd=tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    arguments = ["--python", str(python), "install", "--require-hashes", "-r", "requirements.txt"]
    arguments += ["--index-url", world.pypi.simple, "--extra-index-url", world.site.simple]
    envs.run("pip", arguments, cwd=tmp_path)
    assert _run_in(tmp_path / ".venv") == [build, "2.9.1"]


def test_pip_resolves_the_right_build_without_fetching_a_wheel(world: World, tmp_path: Path) -> None:
    case, target = here()
    build = build_here(case, target)
    arguments = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json", case.requirement]
    indexes = ["--index-url", world.pypi.simple, "--extra-index-url", world.site.simple]
    envs.run("pip", [*arguments, *indexes], cwd=tmp_path)
    found = ReportLock((tmp_path / "report.json").read_text()).find("torch", target.with_python(case.python))
    assert found is not None
    assert found.version == build
    if world.upstream.metadata:  # without it pip reads METADATA from the whole wheel
        assert world.upstream.log.bytes("wheel") == 0


def test_pip_refuses_a_platform_that_is_not_covered(world: World, tmp_path: Path) -> None:
    arguments = ["download", "torch-cu116==1.13.1", "--only-binary=:all:", "--python-version", "3.10"]
    arguments += ["--platform", "manylinux2014_aarch64", "--index-url", world.site.simple]
    done = envs.run("pip", arguments, cwd=tmp_path, status=1)
    assert "No matching distribution found for torch-cu116==1.13.1" in done.stderr


def _run_in(environment: Path) -> list[str]:
    python = environment / "bin" / "python"
    done = subprocess.run([python, "-c", CHECK], check=True, capture_output=True, text=True)
    return done.stdout.split()
