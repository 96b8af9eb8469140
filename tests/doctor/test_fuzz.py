"""Broken files: what cannot be read is told in a sentence, and nothing else happens."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metawheel.doctor import Options, examine
from metawheel.doctor.model import ProjectError
from metawheel.doctor.targets import declared_pythons, parse_platform
from metawheel.errors import MetawheelError
from tests.doctor.projects import DATA, projects

FILES = ("pyproject.toml", "uv.toml", "Pipfile", "uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock")
TEXTS = (*FILES, "requirements.txt")
fuzzing = settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))

WORDS = st.sampled_from(
    [
        *("torch", "torchvision", "torch-cu118", "jaxlib", "jax[cuda12]", "==", ">=", "===", "2.1.0", "+cu118", " ; "),
        *("sys_platform == 'linux'", "not", "@ https://download.pytorch.org/whl/cu118/torch-2.1.0-cp310-x.whl", "-r "),
        *(
            "-c ",
            "requirements.txt",
            "--extra-index-url ",
            "--hash=sha256:00",
            "\\\n",
            "\n",
            "#",
            "${X}",
            "\0",
            "é",
            '"',
        ),
        *(
            "-e .",
            "-f",
            "file:///x.whl",
            "[",
            "]",
            "{",
            "}",
            ",",
            "=",
            "'''",
            "[[package]]",
            "name",
            "\t",
            "\r\n",
            "\x1b[31m",
        ),
    ]
)
NAMES = st.sampled_from(
    [
        *(
            "project",
            "dependencies",
            "optional-dependencies",
            "name",
            "requires-python",
            "tool",
            "uv",
            "sources",
            "torch",
        ),
        *("index", "url", "explicit", "poetry", "source", "priority", "group", "pdm", "package", "version", "wheels"),
        *(
            "files",
            "marker",
            "markers",
            "metadata",
            "lock-version",
            "extras",
            "dependency-groups",
            "environments",
            "hash",
        ),
        *("conflicts", "packages", "default", "hashes", "dev-dependencies", "pip", "torch-backend", "targets", "file"),
    ]
)
LEAVES = st.one_of(st.booleans(), st.integers(0, 9), st.lists(WORDS, max_size=4).map("".join), NAMES)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)


@contextmanager
def project(files: dict[str, bytes]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder)


def survives(files: dict[str, bytes]) -> None:
    with project(files) as folder, suppress(MetawheelError):
        assert all(finding.place.line >= 1 for finding in examine(folder, Options()).findings)


@fuzzing
@given(st.sampled_from(TEXTS), st.lists(WORDS, max_size=12).map("".join))
def test_text_of_any_kind_is_read_or_refused(name: str, text: str) -> None:
    survives({name: text.encode()})


@fuzzing
@given(st.sampled_from(TEXTS), st.binary(max_size=60))
def test_bytes_of_any_kind_are_read_or_refused(name: str, content: bytes) -> None:
    survives({name: content})


@fuzzing
@given(st.sampled_from(FILES[:-1]), st.dictionaries(NAMES, TREES, max_size=5))
def test_toml_with_keys_of_any_type_is_read_or_refused(name: str, data: dict[str, Any]) -> None:
    survives({name: tomli_w.dumps(data).encode()})


@fuzzing
@given(TREES)
def test_json_of_any_shape_is_read_or_refused(data: Any) -> None:
    import json

    survives({"Pipfile.lock": json.dumps(data).encode()})


@fuzzing
@given(st.sampled_from(projects()), st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_real_project_with_damaged_files_is_read_or_refused(name: str, chance: random.Random, blows: int) -> None:
    files = {}
    for path in sorted(DATA.joinpath(name).iterdir()):
        if path.is_file() and path.name != "expected.toml":
            content = bytearray(path.read_bytes())
            for _ in range(blows if content else 0):
                start = chance.randrange(len(content))
                content[start : start + chance.randrange(6)] = chance.randbytes(chance.randrange(3))
                content = content or bytearray(b"\n")
            files[path.name] = bytes(content)
    survives(files)


@fuzzing
@given(st.text(max_size=20))
def test_names_of_targets_and_pythons_of_any_kind_are_understood_or_not(text: str) -> None:
    found = parse_platform(text)
    assert found is None or found.name
    assert declared_pythons(text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pyproject.toml", b"[project", "pyproject.toml: is not TOML: Expected ']'"),
        ("uv.lock", b"\xff", "uv.lock: is not UTF-8 at byte 0; save it as UTF-8"),
        ("Pipfile.lock", b"{", "Pipfile.lock: is not JSON: Expecting property name"),
        ("Pipfile.lock", b"[]", "Pipfile.lock: is not a Pipfile.lock: it holds no object"),
        ("requirements.txt", b"-r gone.txt", "requirements.txt:1: includes 'gone.txt', which is not there"),
        ("uv.lock", b"a = " + b"[" * 5000, "uv.lock: is "),
        ("Pipfile.lock", b"[" * 100_000, "Pipfile.lock: is not JSON: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(name: str, content: bytes, message: str) -> None:
    with project({name: content}) as folder, pytest.raises(ProjectError) as caught:
        examine(folder, Options())

    assert str(caught.value).startswith(message)


def test_all_files_that_cannot_be_read_are_named_at_once() -> None:
    broken = {"pyproject.toml": b"[", "uv.lock": b"[", "requirements.txt": b"-r x"}
    with project(broken) as folder, pytest.raises(ProjectError) as caught:
        examine(folder, Options())

    assert len(str(caught.value).splitlines()) == 3


def test_files_that_include_each_other_are_read_once() -> None:
    with project(
        {"requirements.txt": b"-r other.txt\ntorch==2.6.0\n", "other.txt": b"-r requirements.txt\n"}
    ) as folder:
        assert examine(folder, Options()).findings == ()


def test_a_file_that_pip_would_fetch_is_left_out() -> None:
    with project({"requirements.txt": b"-r https://example.org/requirements.txt\ntorch==2.6.0\n"}) as folder:
        assert examine(folder, Options()).findings == ()


def test_a_folder_without_a_project_is_no_healthy_project() -> None:
    with project({"README.md": b"x"}) as folder, pytest.raises(ProjectError, match="no project here"):
        examine(folder, Options())
