"""packse's scenarios through our pages: pip and uv make of them what packse expects."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.clients import envs
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.peers import packse
from tests.peers.packse import Scenario

pytestmark = [pytest.mark.clients, pytest.mark.network]

# How many scenarios of each folder an index of wheels can be judged by; none may get lost.
FOLDERS = {
    "does_not_exist": 5,
    "excluded": 4,
    "extras": 8,
    "local": 15,
    "post": 12,
    "prereleases": 20,
    "requires_python": 11,
    "tag_and_markers": 3,
    "wheels": 5,
    "yanked": 9,
}
DIFFER = 8  # so many, at most, where a client does not do what packse expects, on any index

Answer = dict[str, str] | None  # versions by project; None: no solution
Client = Callable[[Sequence[Scenario], str, Path], Answer]


@dataclass(frozen=True)
class World:
    """The scenarios; our pages of them, as HTML and as JSON; and pages that are not ours."""

    found: tuple[Scenario, ...]
    html: str
    json: str
    other: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Serve the scenarios; skip where packse is out of reach."""
    try:
        sdist = packse.fetch()
    except requests.RequestException as error:
        pytest.skip(f"packse {packse.VERSION} is out of reach: {type(error).__name__}")
    found = tuple(packse.scenarios(sdist, FOLDERS))
    folder = packse.write_site(tmp_path_factory.mktemp("packse") / "site", found)
    with ExitStack() as stack:
        html, as_json = (stack.enter_context(SiteServer(folder, negotiate=negotiate)) for negotiate in (False, True))
        other = stack.enter_context(FakePyPI())
        packse.publish(found, other)
        yield World(found, html.simple, as_json.simple, other.simple)


def by_pip(asked: Sequence[Scenario], index: str, folder: Path) -> Answer:
    """What pip would install for scenarios that need the same options."""
    arguments = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json"]
    arguments += ["--only-binary=:all:", "--python-version", asked[0].python, "--platform", "manylinux2014_x86_64"]
    arguments += ["--index-url", index, *(["--pre"] if asked[0].prereleases else [])]
    done = envs.run("pip", [*arguments, *(line for s in asked for line in s.requires)], cwd=folder, status=None)
    if done.returncode:
        assert "ResolutionImpossible" in done.stderr or "No matching distribution" in done.stderr, done.stderr
        return None
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in report["install"]}


def by_uv(asked: Sequence[Scenario], index: str, folder: Path) -> Answer:
    """What uv pins for scenarios that need the same options."""
    (folder / "requirements.in").write_text("\n".join(line for s in asked for line in s.requires), encoding="utf-8")
    arguments = ["pip", "compile", "requirements.in", "--default-index", index, "--no-annotate", "--no-header"]
    arguments += ["--only-binary=:all:", "--python-version", asked[0].python, "--python", sys.executable]
    arguments += ["--universal"] if asked[0].universal else ["--python-platform", "x86_64-manylinux2014"]
    arguments += ["--prerelease", "allow"] if asked[0].prereleases else []
    done = envs.run("uv", arguments, cwd=folder, status=None)
    if done.returncode:
        assert "No solution found" in done.stderr, done.stderr
        return None
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", done.stdout, re.MULTILINE))


def is_as_expected(scenario: Scenario, got: Answer) -> bool:
    """Whether a client's answer, which may hold other scenarios' packages too, is what packse expects."""
    if got is None or not scenario.satisfiable:
        return (got is not None) == scenario.satisfiable
    return all(got.get(name) == version for name, version in scenario.expected.items())


def differing(client: Client, found: Iterable[Scenario], index: str, folder: Path) -> dict[Scenario, Answer]:
    """The scenarios that a client answers otherwise than packse.

    No two scenarios share a name, so those that have a solution are asked together first.
    """
    groups: dict[tuple[object, ...], list[Scenario]] = defaultdict(list)
    alone: list[Scenario] = []
    for scenario in found:
        if scenario.satisfiable:
            groups[scenario.folder, scenario.python, scenario.universal, scenario.prereleases].append(scenario)
        else:
            alone.append(scenario)
    for group in groups.values():
        got = client(group, index, folder)
        alone += [scenario for scenario in group if not is_as_expected(scenario, got)]
    answers = {scenario: client([scenario], index, folder) for scenario in alone}
    return {scenario: got for scenario, got in answers.items() if not is_as_expected(scenario, got)}


def test_no_scenario_gets_lost(world: World) -> None:
    assert Counter(scenario.folder for scenario in world.found) == FOLDERS
    assert len({filename for s in world.found for filename in s.wheels}) == sum(len(s.wheels) for s in world.found)


@pytest.mark.parametrize(("client", "form"), [(by_pip, "html"), (by_uv, "json")], ids=["pip-html", "uv-json"])
def test_a_client_makes_of_our_pages_what_packse_expects(
    world: World, client: Client, form: str, tmp_path: Path
) -> None:
    asked = [scenario for scenario in world.found if client is by_uv or not scenario.universal]
    index = {"html": world.html, "json": world.json}[form]
    wrong = differing(client, asked, index, tmp_path)
    elsewhere = {scenario: client([scenario], world.other, tmp_path) for scenario in wrong}
    assert {s.name: got for s, got in wrong.items()} == {s.name: got for s, got in elsewhere.items()}
    assert len(wrong) <= DIFFER, [scenario.name for scenario in wrong]
