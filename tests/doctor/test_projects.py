"""The doctor on small projects: what is wrong is found, at its line, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.version import Version

from metawheel.doctor import Options, examine
from metawheel.doctor.codes import CODES
from metawheel.doctor.model import Finding
from tests.doctor.projects import DATA, examined, expected, projects

# Cases of users: P01 poetry-direct-urls, P04 poetry-mac-label, P06 poetry-intel-mac, U01 uv-mac-label,
# U06 uv-explicit-wrapper and poetry-explicit-wrapper, U07 uv-intel-mac-required, U08 uv-intel-mac-frozen,
# U10 uv-transitive-aarch64, U12 uv-index-of-dependency and uv-index-of-folder, D01 pdm-universal,
# I03 requirements-two-wrappers, requirements-ordered-label and poetry-switched, F01 requirements-companion-version,
# F04 requirements-same-module and uv-same-module, L01 poetry-arbitrary-equality, L03 poetry-marker-hole,
# X01 uv-missing-hashes.
HEALTHY = [name for name in projects() if name.startswith("healthy-")]
SICK = [name for name in projects() if name not in HEALTHY]
# Found by the ledgers, or in an installed environment: their tests are beside this one.
ELSEWHERE = {"MW403", "MW404", "MW501"}


@pytest.mark.parametrize("name", SICK)
def test_what_is_wrong_with_a_project_is_found_at_its_line_and_nothing_else(name: str, tmp_path: Path) -> None:
    found = [_key(finding) for finding in examined(name, tmp_path).findings]

    assert sorted(found) == list(expected(name).findings)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_project(name: str, tmp_path: Path) -> None:
    assert examined(name, tmp_path).findings == ()


def test_there_are_thirty_sick_and_fifteen_healthy_projects() -> None:
    assert len(SICK) >= 30
    assert len(HEALTHY) >= 15


def test_every_code_is_found_in_some_project() -> None:
    seen = {code for name in SICK for code, _, _ in expected(name).findings}

    assert seen == set(CODES) - ELSEWHERE


def test_codes_are_unique_and_in_order() -> None:
    assert list(CODES) == sorted(set(CODES))


@pytest.mark.parametrize("name", SICK)
def test_every_finding_says_what_is_wrong_and_offers_a_way_out(name: str, tmp_path: Path) -> None:
    for finding in examined(name, tmp_path).findings:
        assert finding.message
        assert not finding.message.endswith(".")
        assert "\n" not in finding.message
        assert finding.fix.paste or finding.fix.edits


@pytest.mark.parametrize("name", SICK)
def test_every_pin_that_is_offered_is_one(name: str, tmp_path: Path) -> None:
    for finding in examined(name, tmp_path).findings:
        offered = [finding.fix.paste or "", *(edit.new or "" for edit in finding.fix.edits)]
        for version in re.findall(r"(?<![=!])==\s*([^\s=\"',;)\]\\]+)", "\n".join(offered)):
            assert Version(version.removesuffix(".*")), (finding.code, version)


@pytest.mark.parametrize("name", ["uv-mac-label", "poetry-switched", "requirements-same-module"])
def test_a_project_examined_twice_gives_the_same_report(name: str, tmp_path: Path) -> None:
    one, other = (examined(name, tmp_path / number) for number in ("1", "2"))

    assert one.findings == other.findings
    assert one.choices == other.choices


def test_a_requirement_in_pyproject_that_is_none_is_found(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\ndependencies = [\n  "numpy",\n  "torch=2",\n]\n'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")

    assert [_key(finding) for finding in examine(tmp_path, Options()).findings] == [("MW205", "pyproject.toml", 5)]


def test_a_rule_that_is_ignored_finds_nothing(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    text = (DATA / "pyproject-excluded-label" / "pyproject.toml").read_text(encoding="utf-8")
    project.write_text(f'{text}\n[tool.metawheel.doctor]\nignore = ["MW204"]\n', encoding="utf-8")
    assert examine(tmp_path, Options()).findings == ()


def _key(finding: Finding) -> tuple[str, str, int]:
    return finding.code, finding.place.path, finding.place.line
