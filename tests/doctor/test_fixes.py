"""Fixes: the safe ones are applied with a backup, and afterwards what they were for is gone."""

from __future__ import annotations

import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from metawheel.doctor import Options, examine
from metawheel.doctor.fixes import apply, edited, patch
from metawheel.doctor.model import Edit, Finding, Place
from metawheel.errors import OutputError
from tests.doctor.projects import copied, expected, projects


def _safe(name: str) -> bool:
    return name.startswith(("pyproject-mac-label", "requirements-mac-label", "poetry-arbitrary", "pyproject-extra-sp"))


@pytest.mark.parametrize("name", [name for name in projects() if _safe(name)])
def test_a_safe_fix_removes_its_finding_and_brings_no_other(name: str, tmp_path: Path) -> None:
    project, options = copied(name, tmp_path), expected(name).options
    before = examine(project, options)
    assert any(finding.fix.safe for finding in before.findings)

    applied = apply(project, before.findings)

    assert [item.edits for item in applied] == [1]
    kept = {(f.code, f.message) for f in before.findings if not f.fix.safe}
    assert {(f.code, f.message) for f in examine(project, options).findings} == kept


@pytest.mark.parametrize("name", projects())
def test_fixes_leave_files_that_can_be_read_and_find_nothing_new(name: str, tmp_path: Path) -> None:
    project, options = copied(name, tmp_path), expected(name).options
    before = examine(project, options)
    old = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}

    applied = apply(project, before.findings)

    codes = {finding.code for finding in before.findings}
    assert {finding.code for finding in examine(project, options).findings} <= codes
    changed = {project / item.path for item in applied}
    assert {path for path, content in old.items() if path.read_bytes() != content} == changed
    assert all(
        (project / item.path).with_name(item.backup).read_bytes() == old[project / item.path] for item in applied
    )


def test_an_older_backup_is_never_overwritten(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    (project / "requirements.txt.bak").write_text("older", encoding="utf-8")

    applied = apply(project, examine(project, Options()).findings)

    assert [item.backup for item in applied] == ["requirements.txt.bak1"]
    assert (project / "requirements.txt.bak").read_text(encoding="utf-8") == "older"


def test_line_ends_comments_and_the_mode_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(b"# ours\r\n--extra-index-url https://download.pytorch.org/whl/cpu\r\ntorch==2.1.0+cpu # why\r\n")
    path.chmod(0o600)

    apply(tmp_path, examine(tmp_path, Options()).findings)

    assert path.read_bytes() == (
        b"# ours\r\n--extra-index-url https://download.pytorch.org/whl/cpu\r\n"
        b"torch==2.1.0+cpu ; sys_platform != 'darwin'\r\ntorch==2.1.0 ; sys_platform == 'darwin' # why\r\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    real = project / "real.txt"
    (project / "requirements.txt").rename(real)
    (project / "requirements.txt").symlink_to("real.txt")

    apply(project, examine(project, Options()).findings)

    assert (project / "requirements.txt").is_symlink()
    assert "sys_platform" in real.read_text(encoding="utf-8")


def test_a_file_outside_the_project_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "common.txt"
    outside.write_text("--extra-index-url https://download.pytorch.org/whl/cpu\ntorch==2.1.0+cpu\n", encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    (project / "requirements.txt").write_text("-r ../common.txt\n", encoding="utf-8")
    report = examine(project, Options())
    assert [finding.code for finding in report.findings] == ["MW102"]

    assert apply(project, report.findings) == ()
    assert "sys_platform" not in outside.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_told_and_nothing_changes(tmp_path: Path) -> None:
    project = copied("requirements-mac-label", tmp_path)
    findings = examine(project, Options()).findings
    path = project / "requirements.txt"
    old = path.read_bytes()
    # A name so long that no backup can be written beside it, for root too.
    long = path.rename(project / f"{'x' * 246}.txt")
    moved = [_moved(finding, long.name) for finding in findings]

    with pytest.raises(OutputError, match="cannot be written"):
        apply(project, moved)
    assert long.read_bytes() == old


def _moved(finding: Finding, name: str) -> Finding:
    edits = tuple(Edit(Place(name, edit.place.line), edit.old, edit.new) for edit in finding.fix.edits)
    return replace(finding, fix=replace(finding.fix, edits=edits))


@pytest.mark.parametrize("old", ["gone", "a"])
def test_an_edit_whose_text_is_not_there_exactly_once_does_not_fit(old: str) -> None:
    assert edited("a a\n", [Edit(Place("x", 1), old, "b")]) is None


def test_an_edit_may_remove_its_line() -> None:
    assert edited("one\n  two\nthree", [Edit(Place("x", 2), "two", None)]) == "one\nthree"
    assert edited("one\ntwo # and more\n", [Edit(Place("x", 2), "two", None)]) is None


def test_edits_of_several_lines_do_not_shift_each_other() -> None:
    edits = [Edit(Place("x", 1), "a", "1\n2"), Edit(Place("x", 2), "b", "3\n4"), Edit(Place("x", 3), "c", "5")]

    assert edited("a\nb\nc", edits) == "1\n2\n3\n4\n5"


def test_a_patch_is_a_unified_diff_without_context() -> None:
    shown = patch("one\ntwo\n", "x.txt", [Edit(Place("x.txt", 2), "two", "2")])

    assert shown == "--- a/x.txt\n+++ b/x.txt\n@@ -2 +2 @@\n-two\n+2"


@pytest.mark.parametrize("name", [name for name in projects() if not name.startswith("healthy-")])
def test_every_patch_for_toml_leaves_toml(name: str, tmp_path: Path) -> None:
    project = copied(name, tmp_path)
    for finding in examine(project, expected(name).options).findings:
        for path in {edit.place.path for edit in finding.fix.edits}:
            text = (project / path).read_text(encoding="utf-8")
            new = edited(text, finding.fix.edits)
            assert new != text
            if new is not None and path.endswith((".toml", "Pipfile")):
                tomllib.loads(new)
            assert new is not None or finding.fix.paste
