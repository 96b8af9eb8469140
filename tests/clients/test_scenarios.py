"""Every row of the table: a real client, set up in one way, does with a project what the table says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.drivers import Locking
from tests.clients.drivers_by_target import lock
from tests.clients.outcome import builds_in, record
from tests.clients.scenarios import Conditions, Scenario, table, verdict
from tests.clients.worlds import Maker, World, make_world

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def world_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    """Gives the world of a kind, made when it is first asked for."""
    made: dict[str, World] = {}
    with ExitStack() as servers:

        def get(conditions: Conditions) -> World:
            name = conditions.name
            if name not in made:
                made[name] = make_world(conditions, tmp_path_factory.mktemp(name), servers)
            return made[name]

        yield get


def cases() -> list[object]:
    """The rows; `-k core` takes the subset that CI runs."""
    return [pytest.param(scenario, id=f"{'core ' * scenario.core}{scenario.promise}") for scenario in table().scenarios]


@pytest.mark.parametrize("scenario", cases())
def test_scenario(scenario: Scenario, world_of: Maker, tmp_path: Path) -> None:
    world = world_of(scenario.world)
    world.reset()
    project = scenario.project
    result = lock(tmp_path / "app", Locking(scenario, world, tmp_path, project.requires))
    traffic = result.traffic or world.traffic()
    found = builds_in(result, project)
    assert found == scenario.expected, f"{found} {result.said}"
    outcome = verdict(found, project.builds)
    assert outcome == scenario.expect
    if scenario.says:
        assert not any(result.locks.values())
        assert re.search(scenario.says, re.sub(r"\s+", " ", result.said)), result.said
    if outcome == "right":
        assert traffic.wheel_bytes <= scenario.wheel_bytes, repr(world.upstream.log)
    record(scenario, outcome, traffic)
