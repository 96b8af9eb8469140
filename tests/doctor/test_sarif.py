"""SARIF: a log that other programs can read."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from metawheel.doctor import Report, examine
from metawheel.doctor.codes import CODES
from metawheel.doctor.fixes import edited, read_raw
from metawheel.doctor.sarif import sarif
from tests.doctor.projects import copied, expected, projects


def log(name: str, folder: Path) -> tuple[Report, dict[str, Any]]:
    project = copied(name, folder)
    report = examine(project, expected(name).options)
    found = sarif(report, lambda path: read_raw(project, path))
    return report, json.loads(json.dumps(found))


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema of SARIF 2.1.0, as a package of the npm registry holds it."""
    folder = tmp_path_factory.mktemp("schema")
    command = ["npm", "pack", "--silent", "@microsoft/jest-sarif@1.0.0-beta.0"]
    if subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("the npm registry is out of reach")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        file = archive.extractfile("package/lib/schemas/sarif-2.1.0-rtm.5.json")
        assert file is not None
        found: dict[str, Any] = json.loads(file.read())
    return found


@pytest.mark.network
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm fetches the schema")
def test_the_log_of_every_project_is_valid_by_the_schema(schema: dict[str, Any], tmp_path: Path) -> None:
    validator = jsonschema.Draft7Validator(schema)
    with pytest.raises(jsonschema.ValidationError):  # the schema is not an empty one
        validator.validate({"version": "2.1.0"})
    for name in projects():
        validator.validate(log(name, tmp_path)[1])


@pytest.mark.parametrize("name", projects())
def test_a_log_has_a_result_for_each_finding_and_the_rule_that_it_names(name: str, tmp_path: Path) -> None:
    report, found = log(name, tmp_path)

    assert found["version"] == "2.1.0"
    (run,) = found["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    assert all(rule["fullDescription"]["text"] for rule in rules)
    assert len(run["results"]) == len(report.findings)
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == finding.place.path
        assert place["region"]["startLine"] == finding.place.line
        assert finding.message in result["message"]["text"]


@pytest.mark.parametrize("name", ["requirements-mac-label", "uv-backend-overridden", "requirements-page-as-index"])
def test_a_fix_in_a_log_says_the_same_as_the_edit(name: str, tmp_path: Path) -> None:
    report, found = log(name, tmp_path)
    path = report.findings[0].place.path
    lines = (tmp_path / name / path).read_text(encoding="utf-8").split("\n")

    (change,) = found["runs"][0]["results"][0]["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    number = region["startLine"] - 1
    first, last = region["startColumn"] - 1, region.get("endColumn", 0) - 1
    if "endLine" in region:
        lines[number : region["endLine"] - 1] = []
    else:
        lines[number] = lines[number][:first] + replacement["insertedContent"]["text"] + lines[number][last:]
    assert "\n".join(lines) == edited(
        (tmp_path / name / path).read_text(encoding="utf-8"), report.findings[0].fix.edits
    )


def test_a_fingerprint_does_not_change_when_lines_move(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    prints = []
    for _ in range(2):
        report = examine(project, expected("requirements-mac-label").options)
        (result,) = sarif(report, lambda path: None)["runs"][0]["results"]
        prints.append(result["partialFingerprints"])
        path = project / "requirements.txt"
        path.write_text("# a line more\n" + path.read_text(encoding="utf-8"), encoding="utf-8")

    assert prints[0] == prints[1]


def test_a_path_is_a_uri(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    (project / "requirements.txt").rename(project / "my requirements.txt")

    report = examine(project, expected("requirements-mac-label").options)
    (result,) = sarif(report, lambda path: None)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20requirements.txt"
