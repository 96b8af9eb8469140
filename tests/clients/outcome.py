"""What came out of a scenario, judged by our own reading of the lock, and the record of it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from tests.clients import envs
from tests.clients.drivers import Result
from tests.clients.interpreters import require_interpreter
from tests.clients.lock_base import Lock, LockError
from tests.clients.scenarios import Project, Scenario
from tests.clients.targets import Target
from tests.clients.worlds import Traffic

RUN = "METAWHEEL_TEST_RUN"  # names the test run, for the table at its end
NO_WRAPPER, NO_BUILD = "", "nothing"


def builds_in(result: Result, project: Project) -> dict[str, tuple[str, ...]]:
    """For each project on each target: the build; "" where the wrapper itself refuses; or what is wrong."""
    return {
        key: tuple(_cell(result.locks[target.name], project, key, target) for target in project.targets)
        for key in project.builds
    }


def _cell(lock: Lock | None, project: Project, key: str, target: Target) -> str:
    extra, _, name = key.rpartition("/")
    if lock is None:
        return NO_WRAPPER
    try:
        wrapper = lock.find(project.wrapper_for(key), target, extras=[extra] if extra else ())
        found = lock.find(name, target, extras=[extra] if extra else ())
    except LockError:
        return "ambiguous"
    if wrapper is not None and wrapper.files is not None and not wrapper.installable:
        return NO_WRAPPER
    if found is None:
        return NO_BUILD
    if found.files is None:
        return found.version
    # What is installed is a file; PDM's locks name one version and files of others.
    builds = {str(parse_wheel_filename(file)[1]) for file in found.installable}
    return " or ".join(sorted(builds)) or f"{found.version} without a wheel"


@dataclass(frozen=True)
class Record:
    """One scenario's outcome as the documentation tells it."""

    key: str
    run: str
    date: str
    version: str
    traffic: Traffic


def record_folder() -> Path:
    """Where outcomes are kept between runs."""
    return envs.cache_root() / "results"


def record(scenario: Scenario, traffic: Traffic) -> None:
    """Keep the outcome of a scenario that came out as the table says."""
    version = envs.client_version(scenario.client, require_interpreter(scenario.project.python))
    today = datetime.now(UTC).date().isoformat()
    made = Record(scenario.key, os.environ.get(RUN, ""), today, version, traffic)
    folder = record_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', scenario.key)}.json"
    path.write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")


def recorded() -> dict[str, Record]:
    """Every outcome kept, by the scenario's key."""
    found = {}
    for path in sorted(record_folder().glob("*.json")):
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        traffic = Traffic(**facts.pop("traffic"))
        found[facts["key"]] = Record(traffic=traffic, **facts)
    return found
