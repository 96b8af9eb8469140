"""The schedules in docs/schedules are what their linters, a shell, git and systemd take without a word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.fakes.ledgers import REPOSITORY

SCHEDULES = REPOSITORY / "docs" / "schedules"
GITHUB, GITLAB = SCHEDULES / "github-actions.yml", SCHEDULES / "gitlab-ci.yml"
UNITS = [SCHEDULES / f"metawheel-regenerate.{kind}" for kind in ("service", "timer")]
TOOLS = Path(sys.executable).parent  # where the test environment's linters lie


def _said(command: Sequence[str | Path], stdin: str = "") -> str:
    """What a linter says; it must end well."""
    env = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def _github_steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = _yaml(GITHUB)["jobs"]["regenerate"]["steps"]
    return steps


def _gitlab_script() -> str:
    return "\n".join(_yaml(GITLAB)["regenerate"]["script"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["vendor.github-workflows", str(GITHUB)],
        ["vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(GITLAB)],
    ],
    ids=["github", "gitlab"],
)
def test_a_pipeline_has_the_form_that_its_schema_asks_for(arguments: list[str]) -> None:
    _said([TOOLS / "check-jsonschema", "--builtin-schema", *arguments])


def test_the_workflow_pleases_its_linter_and_shellcheck() -> None:
    assert _said([TOOLS / "jactionlint", GITHUB]) == ""


def test_the_workflow_pleases_its_security_linter() -> None:
    assert "No findings" in _said([TOOLS / "zizmor", "--offline", "--persona=pedantic", GITHUB])


def test_the_gitlab_script_pleases_shellcheck() -> None:
    script = f"#!/bin/bash\nset -eo pipefail\n{_gitlab_script()}\n"
    assert _said([TOOLS / "shellcheck", "-"], script) == ""


def test_actions_are_pinned_to_a_commit_and_name_their_tag() -> None:
    used = re.findall(r"uses: (.*)", GITHUB.read_text(encoding="utf-8"))
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in used)


def test_only_a_step_that_names_the_token_has_it() -> None:
    workflow = _yaml(GITHUB)
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["regenerate"]["permissions"] == {"contents": "write", "pull-requests": "write"}
    with_token = [step.get("name") for step in _github_steps() if "token" in str(step)]
    assert with_token == ["Open a pull request, or bring it up to date"]
    assert _github_steps()[0]["with"] == {"persist-credentials": False}


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """Copies of the units that start a program which is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = shutil.which("true")
    copies = []
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/metawheel/bin/metawheel", str(program))
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(text, encoding="utf-8")
    return copies


def test_systemd_finds_nothing_wrong_with_the_units(units: list[Path]) -> None:
    assert _said(["systemd-analyze", "verify", *units]) == ""


def test_the_service_is_exposed_little(units: list[Path]) -> None:
    _said(["systemd-analyze", "security", "--offline=yes", "--threshold=20", units[0]])


def test_every_command_in_the_schedules_is_one_that_metawheel_has() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (GITHUB, GITLAB, *UNITS))
    used = re.findall(r"metawheel (regenerate .*)", re.sub(r" > .*", "", text))
    assert len(used) == 3
    known = _said([sys.executable, "-m", "metawheel", "regenerate", "--help"])
    for option in {item for line in used for item in line.split() if item.startswith("-")}:
        assert re.search(rf"{option}\b", known), option


@dataclass(frozen=True)
class Forge:
    """A checkout as a pipeline has it, its remote, and stand-ins for the programs that a test cannot have."""

    checkout: Path
    env: Mapping[str, str]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as the forges do."""
        command = ["bash", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, cwd=self.checkout, env=self.env, capture_output=True, text=True, check=False)

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.checkout, env=self.env, capture_output=True, text=True, check=True
        ).stdout.strip()

    def calls(self) -> list[str]:
        log = self.checkout.parent / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


FAKES = {
    "metawheel": """echo "$NEW" > packages/ledger.jsonl; echo "torch: 1 added"; exit "$CODE" """,
    "gh": """echo "$*" >> "$CALLS"; if [ "$2" = list ]; then echo "$OPEN"; fi""",
    "python": "exit 0",
}


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    programs, checkout, remote = tmp_path / "bin", tmp_path / "checkout", tmp_path / "group" / "remote.git"
    for folder in (programs, checkout / "packages", tmp_path / "runner"):
        folder.mkdir(parents=True)
    for name, body in FAKES.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CALLS": str(tmp_path / "calls"),
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(tmp_path / "runner" / "output"),
        "BASE": "main",
        "BRANCH": "metawheel/regenerate",
        "CI_DEFAULT_BRANCH": "main",
        "CI_SERVER_HOST": "gitlab.invalid",
        "CI_SERVER_URL": tmp_path.as_uri(),
        "CI_PROJECT_PATH": "group/remote",
        "METAWHEEL_TOKEN": "secret",
        "NEW": "new",
        "CODE": "0",
        "OPEN": "0",
    }
    made = Forge(checkout, env)
    made.git("init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    made.git("--git-dir", str(remote), "config", "receive.advertisePushOptions", "true")
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("remote", "add", "origin", str(remote))
    (checkout / "packages" / "ledger.jsonl").write_text("old\n", encoding="utf-8")
    made.git("add", "packages")
    made.git("-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "--quiet", "-m", "first")
    made.git("push", "--quiet", "origin", "main")
    return made


def _github(forge: Forge, **env: str) -> list[int]:
    """Run the workflow's own steps from "Regenerate" on, as a fresh runner would; their exit codes."""
    forge.git("checkout", "--quiet", "--force", "-B", "main", "origin/main")
    forge = Forge(forge.checkout, {**forge.env, **env})
    first, second, last = (step["run"] for step in _github_steps()[-3:])
    codes = [forge.run(script).returncode for script in (first, second)]
    status = (Path(forge.env["GITHUB_OUTPUT"])).read_text(encoding="utf-8").split("status=")[-1].strip()
    return [*codes, Forge(forge.checkout, {**forge.env, "STATUS": status}).run(last).returncode]


def test_the_workflow_opens_a_pull_request_with_the_ledgers_and_the_report(forge: Forge) -> None:
    assert _github(forge) == [0, 0, 0]
    assert forge.calls()[1:] == [
        "pr list --head metawheel/regenerate --state open --json number --jq length",
        "pr create --base main --head metawheel/regenerate --title Follow upstream --body-file "
        + str(forge.checkout.parent / "runner" / "body.md"),
    ]
    assert forge.git("diff", "--name-only", "main~1", "origin/metawheel/regenerate") == "packages/ledger.jsonl"
    body = (forge.checkout.parent / "runner" / "body.md").read_text(encoding="utf-8")
    assert body == "    torch: 1 added\n"


def test_the_workflow_brings_an_open_pull_request_up_to_date_and_leaves_one_that_says_it_all(forge: Forge) -> None:
    _github(forge)
    seen = len(forge.calls())
    assert _github(forge) == [0, 0, 0]
    assert forge.calls()[seen:] == ["auth setup-git"]
    assert _github(forge, NEW="newer", OPEN="1") == [0, 0, 0]
    assert forge.calls()[-1].startswith("pr edit metawheel/regenerate --body-file")


def test_the_workflow_does_nothing_where_nothing_is_new(forge: Forge) -> None:
    assert _github(forge, NEW="old") == [0, 0, 0]
    assert forge.calls() == []


def test_the_workflow_proposes_what_could_be_read_and_fails_where_a_source_failed(forge: Forge) -> None:
    assert _github(forge, CODE="5") == [0, 0, 5]
    assert any(call.startswith("pr create") for call in forge.calls())


def _gitlab(forge: Forge, **env: str) -> subprocess.CompletedProcess[str]:
    forge.git("checkout", "--quiet", "--force", "-B", "main", "origin/main")
    return Forge(forge.checkout, {**forge.env, **env}).run(_gitlab_script())


def test_the_gitlab_job_pushes_a_branch_whose_commit_holds_the_report(forge: Forge) -> None:
    done = _gitlab(forge)
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout + done.stderr
    forge.git("fetch", "--quiet", "origin", "metawheel/regenerate")
    assert forge.git("log", "-1", "--format=%B", "FETCH_HEAD") == "Follow upstream\n\n    torch: 1 added"
    assert forge.git("diff", "--name-only", "origin/main", "FETCH_HEAD") == "packages/ledger.jsonl"
    again = _gitlab(forge)
    assert (again.returncode, "has it already" in again.stdout) == (0, True)


def test_the_gitlab_job_does_nothing_where_nothing_is_new_and_fails_where_a_source_failed(forge: Forge) -> None:
    assert "nothing new" in _gitlab(forge, NEW="old").stdout
    assert _gitlab(forge, CODE="6").returncode == 6
    forge.git("fetch", "--quiet", "origin", "metawheel/regenerate")
