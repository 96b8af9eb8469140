"""The builder's own distribution: exact contents, a quick start, a version."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata

from metawheel import __version__
from tests.fakes.ledgers import REPOSITORY

SOURCE = REPOSITORY / "builder" / "src" / "metawheel"
HEAVY = ("requests", "rich", "pydantic", "hatchling", "twine", "packaging.metadata", "multiprocessing")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", str(REPOSITORY / "builder"), "--no-isolation", "-o", str(folder)]
    subprocess.run(command, capture_output=True, check=True)
    return folder


def _sources() -> set[str]:
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"metawheel/{path.relative_to(SOURCE).as_posix()}" for path in files}


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    info = f"metawheel-{__version__}.dist-info"
    own = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    with ZipFile(path) as wheel:
        assert set(wheel.namelist()) == _sources() | own
    needed = ("py.typed", "templates/LICENSE", "templates/hatch_build.py", "cli/__init__.py", "upstream/pages.py")
    assert _sources() >= {f"metawheel/{name}" for name in needed}


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in _sources()} | {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not any("__pycache__" in name for name in names)


def test_the_metadata_names_the_pythons_that_are_supported(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with ZipFile(path) as wheel:
        metadata = Metadata.from_email(wheel.read(f"metawheel-{__version__}.dist-info/METADATA"))
    assert metadata.name == "metawheel"
    assert str(metadata.version) == __version__
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.metadata_version == "2.4"
    for minor in (11, 12, 13, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in (metadata.classifiers or [])


def test_twine_finds_nothing_wrong(built: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(built.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("unmeasured")
def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['metawheel', '--help']\nfrom metawheel.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('loaded:', *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
    assert all(command in done.stdout for command in ("sync", "build", "show", "check"))


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "metawheel", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"metawheel {__version__}\n"
    assert done.stderr == ""


def test_every_stage_imports_nothing_of_a_later_one() -> None:
    """Data flows one way: what plans does not know what writes, and only the command line prints."""
    later = {
        "model.py": ("tags", "family", "plan", "site", "build", "cli"),
        "tags.py": ("family", "plan", "site", "build", "cli"),
        "choose.py": ("plan", "wheels", "site", "build", "cli"),
        "plan.py": ("project", "wheels", "site", "swap", "build", "cli", "upstream"),
        "project.py": ("wheels", "site", "build", "cli"),
        "render.py": ("site", "build", "cli"),
        "site.py": ("build", "check", "cli"),
    }
    for name, forbidden in later.items():
        text = (SOURCE / name).read_text(encoding="utf-8")
        assert not [module for module in forbidden if f"from metawheel.{module}" in text], name
    printing = {
        p.relative_to(SOURCE).parts[0] for p in SOURCE.rglob("*.py") if re.search(r"\bprint\(", p.read_text("utf-8"))
    }
    assert printing <= {"cli"}
