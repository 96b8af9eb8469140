"""What came out of a scenario, judged by our own reading of the lock, and the record of it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from tests.clients import envs
from tests.clients.drivers import Result
from tests.clients.interpreters import require_interpreter
from tests.clients.lock_base import AmbiguousLockError
from tests.clients.scenarios import NO_BUILD, NO_WHEEL, NO_WRAPPER, Outcome, Project, Scenario
from tests.clients.targets import Target
from tests.clients.worlds import Traffic

RUN = "METAWHEEL_TEST_RUN"  # names the test run, for the table at its end


def builds_in(result: Result, project: Project) -> dict[str, tuple[str, ...]]:
    """For each project on each target: the build; "" where the wrapper itself refuses; or what is wrong."""
    return {key: tuple(_cell(result, project, key, target) for target in project.targets) for key in project.builds}


def _cell(result: Result, project: Project, key: str, target: Target) -> str:
    used, _, name = key.rpartition("/")
    lock = result.lock_for(target, used)
    if lock is None:
        return NO_WRAPPER
    extras = [used] if used in project.optional else []
    groups = ["main", used] if used in project.groups else ["main"]
    try:
        wrapper = lock.find(project.wrapper_for(key), target, extras=extras, groups=groups)
        found = lock.find(name, target, extras=extras, groups=groups)
    except AmbiguousLockError:
        return "ambiguous"
    if wrapper is not None and wrapper.files is not None and not wrapper.installable:
        return NO_WRAPPER
    if found is None:
        return NO_BUILD
    if found.files is None:
        return found.version
    # What is installed is a file; PDM's locks name one version and files of others.
    builds = {str(parse_wheel_filename(file)[1]) for file in found.installable}
    return " or ".join(sorted(builds)) or f"{found.version}{NO_WHEEL}"


@dataclass(frozen=True)
class Record:
    """One scenario's outcome as the documentation tells it."""

    key: str
    run: str
    date: str
    version: str
    outcome: Outcome
    traffic: Traffic


def record_folder() -> Path:
    """Where outcomes are kept between runs."""
    return envs.cache_root() / "results"


def record(scenario: Scenario, outcome: Outcome, traffic: Traffic) -> None:
    """Keep what came out of a scenario."""
    in_project = envs.CLIENTS[scenario.client].in_project
    python = require_interpreter(scenario.runs_on or scenario.project.python) if in_project else None
    version = envs.client_version(scenario.client, python)
    today = datetime.now(UTC).date().isoformat()
    made = Record(scenario.key, os.environ.get(RUN, ""), today, version, outcome, traffic)
    folder = record_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', scenario.key)}.json"
    path.write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")


def recorded() -> dict[str, Record]:
    """Every outcome kept, by the scenario's key; those in another form than today's are passed over."""
    found = {}
    for path in sorted(record_folder().glob("*.json")):
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        traffic = Traffic(**facts.pop("traffic"))
        if facts.keys() == {item.name for item in fields(Record)} - {"traffic"}:
            found[facts["key"]] = Record(traffic=traffic, **facts)
    return found
