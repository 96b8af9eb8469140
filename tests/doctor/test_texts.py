"""What users write down in more than one way is read the same, and what no number can hold is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from metawheel.cli.doctor import _interpreter
from metawheel.doctor import Options, examine
from metawheel.doctor.model import Index
from metawheel.doctor.pyproject import read_pyproject
from metawheel.doctor.requirement_lines import constraint_of
from metawheel.doctor.toml_text import parse
from metawheel.errors import MetawheelError

PYTORCH = "https://download.pytorch.org/whl/cu128"


def indexes(text: str) -> list[tuple[str, str, str]]:
    def said(index: Index) -> tuple[str, str, str]:
        return index.url, index.tool, index.role

    return [said(index) for index in read_pyproject(parse(text, "pyproject.toml")).indexes]


@pytest.mark.parametrize("table", ["tool.uv", "tool.uv.pip"])
@pytest.mark.parametrize(
    ("line", "role"),
    [
        (f'index-url = "{PYTORCH}"', "primary"),
        (f'extra-index-url = ["{PYTORCH}"]', "ordinary"),
        (f'find-links = ["{PYTORCH}"]', "links"),
    ],
)
def test_uvs_older_keys_name_an_index_too(table: str, line: str, role: str) -> None:
    assert indexes(f"[{table}]\n{line}\n") == [(PYTORCH, "uv", role)]


@pytest.mark.parametrize(
    ("constraint", "meant"),
    [
        ("*", ""),
        ("", ""),
        ("2.9.1", "==2.9.1"),
        ("=2.9.1", "==2.9.1"),
        ("^2.9", ">=2.9,<3"),
        ("^0.4.1", ">=0.4.1,<0.5"),
        ("~2.9", ">=2.9,<2.10"),
        ("~2", ">=2,<3"),
        ("~=2.9", "~=2.9"),
        (">=2.8, <2.10", ">=2.8,<2.10"),
        (">=2.8 <2.10", ">=2.8,<2.10"),
        ("2.8 || 2.9", None),
        ("^newest", None),
        ("newest", None),
    ],
)
def test_a_constraint_of_poetry_means_a_specifier_or_nothing_at_all(constraint: str, meant: str | None) -> None:
    assert constraint_of(constraint) == (None if meant is None else SpecifierSet(meant))


@pytest.mark.parametrize(
    "text",
    [
        '[tool.pdm.dev-dependencies]\ngpu = ["torch==2.9.1"]\n',
        '[dependency-groups]\ngpu = ["torch==2.9.1"]\n',
        '[tool.poetry.group.gpu.dependencies]\ntorch = "2.9.1"\n',
    ],
    ids=["pdm", "standard", "poetry"],
)
def test_a_groups_requirements_are_known_by_the_group(text: str) -> None:
    (item,) = read_pyproject(parse(text, "pyproject.toml")).declared
    assert (item.name, item.scope, str(item.pin)) == ("torch", "group:gpu", "2.9.1")


def test_the_projects_environment_is_examined_before_the_active_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    pythons = [tmp_path / ".venv" / "bin" / "python", tmp_path / "active" / "Scripts" / "python.exe"]
    for python in pythons:
        python.parent.mkdir(parents=True)
        python.touch(mode=0o755)

    assert _interpreter(tmp_path, None) == pythons[0]
    pythons[0].unlink()
    assert _interpreter(tmp_path, None) == pythons[1]


LONG = "9" * 5000
LOCK = f"""version = 1
[[package]]
name = "torch"
version = "{LONG}"
[[package]]
name = "x"
version = "1"
source = {{ virtual = "." }}
dependencies = [{{ name = "torch" }}]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", f"torch=={LONG}\n"),
        ("pyproject.toml", f'[project]\nname = "x"\nversion = "1"\ndependencies = ["torch==={LONG}"]\n'),
        ("pyproject.toml", f'[project]\nname = "x"\nversion = "1"\nrequires-python = ">={LONG}"\n'),
        ("pyproject.toml", f'[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\ntorch = "^{LONG}"\n'),
        ("uv.lock", LOCK),
        ("Pipfile.lock", f'{{"default": {{"torch": {{"version": "=={LONG}"}}}}}}'),
    ],
)
def test_a_number_that_python_makes_none_of_is_refused_in_a_sentence(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n', encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(MetawheelError, match=f"{name}: has a number of more than 4300 digits"):
        examine(tmp_path, Options())
