"""`metawheel doctor` as a command: what it prints, writes and exits with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metawheel.cli import app
from metawheel.doctor.codes import CODES
from metawheel.errors import UnknownName
from tests.doctor.projects import copied

REPOSITORY = Path(__file__).parents[2]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def as_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, output = run(*arguments, "--json")
    found: dict[str, Any] = json.loads(output)
    return code, found


def test_a_healthy_project_ends_with_0_and_shows_the_builds(tmp_path: Path) -> None:
    code, output = run(str(copied("healthy-uv-cpu", tmp_path)))

    assert code == 0
    assert output.splitlines() == [
        "uv.lock",
        "  target                torch",
        "  linux-x86_64 py3.10   2.9.1+cpu",
        "  macos-arm64 py3.10    2.9.1 (cpu)",
        "  windows-amd64 py3.10  2.9.1+cpu",
        "",
        "nothing wrong in 2 files",
    ]


def test_a_finding_ends_with_1_and_is_shown_with_its_place_and_patch(tmp_path: Path) -> None:
    code, output = run(str(copied("requirements-mac-label", tmp_path)))

    what = "torch 2.1.0+cu118 is locked, but upstream has no build with that label there"
    assert code == 1
    assert output.splitlines()[-6:] == [
        f"requirements.txt:2: MW102 error: macos-arm64 py3.12: {what}",
        "    -torch==2.1.0+cu118",
        "    +torch==2.1.0+cu118 ; sys_platform != 'darwin'",
        "    +torch==2.1.0 ; sys_platform == 'darwin'",
        "",
        "1 finding in 1 file: 1 error, 0 warnings; --fix can apply 1",
    ]


def test_json_holds_all_that_the_text_says(tmp_path: Path) -> None:
    code, found = as_json(str(copied("uv-intel-mac-frozen", tmp_path)), "--target", "darwin-x86_64")

    assert code == 1
    assert found["ok"] is False
    assert found["files"] == ["pyproject.toml", "uv.lock"]
    assert found["targets"] == [{"platform": "macos-x86_64", "python": "3.10"}]
    assert found["builds"] == [
        {
            "by": "uv.lock",
            "selection": None,
            "platform": "macos-x86_64",
            "python": "3.10",
            "project": "torch",
            "version": "2.8.0",
            "wanted": None,
            "backend": "cpu",
            "file": None,
            "wheel": False,
        }
    ]
    (finding,) = found["findings"]
    assert (finding["code"], finding["severity"], finding["file"], finding["line"]) == ("MW101", "error", "uv.lock", 13)
    assert finding["targets"] == ["macos-x86_64 py3.10"]
    assert "2.2.2" in finding["message"]
    assert "torch==2.2.2" in finding["fix"]["paste"]


def test_fix_applies_what_is_safe_and_says_where_the_old_file_is(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    old = (project / "requirements.txt").read_bytes()

    code, found = as_json(str(project), "--fix")

    assert code == 0
    assert found["findings"] == []
    assert found["fixed"] == [{"file": "requirements.txt", "backup": "requirements.txt.bak", "edits": 1}]
    assert (project / "requirements.txt.bak").read_bytes() == old
    assert run(str(project), "--fix")[0] == 0
    assert not (project / "requirements.txt.bak1").exists()


def test_without_fix_nothing_is_written(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    before = {path: path.read_bytes() for path in project.rglob("*")}

    run(str(project))

    assert {path: path.read_bytes() for path in project.rglob("*")} == before


def test_sarif_is_written_beside_the_text(tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"

    code, output = run(str(copied("uv-mac-label", tmp_path)), "--sarif", str(log))

    assert code == 1
    assert "MW102" in output
    results = json.loads(log.read_bytes())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["MW102"]


@pytest.mark.parametrize("arguments", [("--ignore", "MW999"), ("--backend", "cudnn")])
def test_a_word_that_means_nothing_is_a_usage_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert run(str(tmp_path), *arguments)[0] == 2


@pytest.mark.parametrize("arguments", [("--target", "plan9"), ("--python-version", "three")])
def test_a_target_that_is_not_known_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    project = copied("healthy-plain", tmp_path)

    with pytest.raises(UnknownName, match=arguments[1]):
        run(str(project), *arguments)


def test_the_shell_s_uv_torch_backend_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = copied("healthy-uv-cpu", tmp_path)
    assert run(str(project))[0] == 0

    monkeypatch.setenv("UV_TORCH_BACKEND", "auto")

    assert [finding["code"] for finding in as_json(str(project))[1]["findings"]] == ["MW308"]


def test_text_of_a_file_reaches_the_terminal_as_text(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.1 ; \x1b[31mred\n", encoding="utf-8")

    code, output = run(str(tmp_path))

    assert code == 1
    assert "\x1b" not in output


def test_passwords_in_addresses_are_not_shown(tmp_path: Path) -> None:
    lines = [
        "--index-url https://user:secret@download.pytorch.org/whl/cu121",
        "--find-links https://user:secret@download.pytorch.org/whl/torch_stable.html",
        "torch==2.5.1+cu118 ; sys_platform != 'darwin'",
    ]
    (tmp_path / "requirements.txt").write_text("\n".join(lines), encoding="utf-8")
    log = tmp_path / "log.sarif"

    outputs = [run(str(tmp_path), "--sarif", str(log))[1], run(str(tmp_path), "--json")[1], log.read_text("utf-8")]

    assert all("MW306" in output and "***@" in output and "secret" not in output for output in outputs)


def test_every_code_is_explained_in_the_documentation() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")

    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| MW")]
    assert rows == list(CODES)


def test_a_split_that_forgets_windows_is_reported_although_the_rest_of_it_holds_there(tmp_path: Path) -> None:
    lines = ["torch==2.9.1+cu128 ; platform_machine == 'x86_64'", "torch==2.9.1 ; platform_machine != 'x86_64'"]
    (tmp_path / "requirements.txt").write_text("\n".join(lines), encoding="utf-8")

    _, found = as_json(str(tmp_path))

    assert [item["line"] for item in found["findings"] if item["code"] == "MW209"] == [1]


def test_a_marker_that_is_not_rewritten_is_reported_without_a_fix(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text('torch ; platform_machine in "x86_64 aarch64"\n', encoding="utf-8")

    _, found = as_json(str(tmp_path))

    assert [item["fix"]["paste"] for item in found["findings"] if item["code"] == "MW209"] == [""]
