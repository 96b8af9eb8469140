"""Reading locks: what is installed where, what is skipped, and where a package stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from metawheel.doctor.known import of_interest
from metawheel.doctor.lock_text import read_lock_text
from metawheel.doctor.reading import read_project
from metawheel.doctor.targets import PLATFORMS
from tests.clients import locks as oracle
from tests.doctor.projects import DATA, copied, projects

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
# Locks that are to be found broken, which the reader of the client tests refuses.
REFUSED = {"uv-missing-hashes": "no project to start from"}
CASES = [(name, lock) for name in projects() for lock in LOCKS if (DATA / name / lock).exists() and name not in REFUSED]


@pytest.mark.parametrize(("name", "lock"), CASES)
def test_the_doctor_and_the_client_tests_read_the_same_versions_from_a_lock(
    name: str, lock: str, tmp_path: Path
) -> None:
    ours = next(item for item in read_project(copied(name, tmp_path)).locks if item.path == lock)
    theirs = oracle.read_lock(DATA / name / lock)
    if name in {
        "healthy-poetry-1",
        "poetry-1-mac",
    }:  # where a plain and a labelled build fit, Poetry 1.x installs the labelled one
        text, project = ((DATA / name / file).read_text(encoding="utf-8") for file in (lock, "pyproject.toml"))
        theirs = oracle.PoetryLock(text, project, as_installed=True)
    linux = PLATFORMS["linux-x86_64"]
    python = next(text for text in ("3.10", "3.11") if ours.covers(linux.with_python(text)))

    for platform in oracle.TARGETS:
        target = PLATFORMS[platform.name].with_python(python)
        found = sorted((item.name, str(item.version)) for item in ours.active(target) if item.registry)
        other = theirs.active(platform.with_python(python))
        local = {"project", "robots"}  # has no registry
        assert found == sorted((item.name, item.version) for item in other if item.name not in local)


@pytest.mark.parametrize("platform", oracle.TARGETS, ids=lambda platform: platform.name)
@pytest.mark.parametrize("python", ["3.8", "3.10", "3.13", "3.13t"])
def test_the_doctor_and_the_client_tests_take_the_same_tags(platform: oracle.Target, python: str) -> None:
    ours = PLATFORMS[platform.name].with_python(python)
    theirs = platform.with_python(python.removesuffix("t"), free_threaded=python.endswith("t"))

    for tag in sorted(theirs.tags, key=str):
        assert ours.takes(f"x-1-{tag}.whl")
    for other in ("cp312-cp312-win_arm64", "cp39-cp39-linux_s390x", "cp312-cp312-macosx_99_0_arm64"):
        assert not ours.takes(f"x-1-{other}.whl")


UV = """\
version = 1

[[package]]
name = "six"
version = "1.17.0"
source = { registry = "https://index.example.org/simple" }
sdist = { url = "https://files.example.org/six-1.17.0.tar.gz", hash = "sha256:00", size = 1 }
wheels = [
    { url = "https://files.example.org/six-1.17.0-py3-none-any.whl", hash = "sha256:00" },
    { url = "https://files.example.org/six-1.17.0-py2-none-any.whl" },
]

[[package]]
name = "Torch"
version = "2.9.1"
source = { registry = "https://index.example.org/simple" }
wheels = [
    { url = "https://files.example.org/torch-2.9.1-cp310-cp310-win_amd64.whl", hash = "sha256:00" },
]
"""


def test_what_is_skipped_is_not_missed_and_moves_no_line() -> None:
    read = read_lock_text(UV, "uv.lock", of_interest)

    assert [(entry["name"], place.line) for entry, place in read.packages] == [("six", 3), ("Torch", 13)]
    assert "wheels" not in read.packages[0][0]
    assert len(read.packages[1][0]["wheels"]) == 1
    assert [(name, place.line) for name, place in read.unhashed] == [("six", 3)]


def test_a_lock_with_multi_line_strings_is_read_whole() -> None:
    trap = 'note = """\n[[package]]\nname = "not one"\n"""\n'
    read = read_lock_text(trap + UV, "uv.lock", of_interest)

    assert [(entry["name"], place.line) for entry, place in read.packages] == [("six", 7), ("Torch", 17)]
    assert len(read.packages[0][0]["wheels"]) == 2


def test_skipping_changes_nothing_else() -> None:
    for path in sorted(DATA.glob("*/*.lock")) + sorted(DATA.glob("*/pylock.toml")):
        if path.name == "Pipfile.lock":
            continue
        text = path.read_text(encoding="utf-8")
        skipped = read_lock_text(text, path.name, lambda name: False)
        whole = read_lock_text(text, path.name, lambda name: True)
        for (less, here), (more, there) in zip(skipped.packages, whole.packages, strict=True):
            assert here == there
            assert less == {key: value for key, value in more.items() if key in less}
            assert set(more) - set(less) <= {"wheels", "files", "sdist"}
