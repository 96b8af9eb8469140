"""The page about clients tells of every client and set-up in the table, and the table keeps its promises."""

from __future__ import annotations

import pytest

from tests.clients.envs import CLIENTS
from tests.clients.report import PAGE, render, set_up
from tests.clients.scenarios import Outcome, table, verdict


def test_the_page_names_every_client() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for facts in table().clients.values():
        assert f"\n## {facts['title']}\n" in text


def test_the_page_has_every_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for scenario in table().scenarios:
        assert f"| {set_up(scenario)} | {scenario.title} |" in text
    assert "not run" not in text.lower()


def test_the_page_warns_of_everything_that_goes_wrong_without_a_word() -> None:
    text = PAGE.read_text(encoding="utf-8")
    silent = [scenario for scenario in table().scenarios if scenario.expect == "silently wrong"]
    for scenario in silent:
        assert f"| {set_up(scenario)} | {scenario.title} | ⚠️ **silently wrong** |" in text
        assert f"- ⚠️ **Warning**: {scenario.layout.title}, {scenario.title}: {scenario.why}." in text
    assert text.count("**Warning**") == len(silent)


def test_every_client_is_in_the_table() -> None:
    assert table().clients.keys() == CLIENTS.keys()
    assert {scenario.client for scenario in table().scenarios} == CLIENTS.keys()


def test_what_is_not_right_says_why_and_what_to_do_instead() -> None:
    right = {scenario.key for scenario in table().scenarios if scenario.expect == "right"}
    for scenario in table().scenarios:
        if scenario.expect != "right":
            assert scenario.why, scenario.key
            assert scenario.instead in right, scenario.key


def test_without_outcomes_the_page_says_so() -> None:
    assert "Not run." in render(table(), {})


@pytest.mark.parametrize("client", table().clients)
def test_no_recommended_set_up_is_silently_wrong(client: str) -> None:
    advised = [row for row in table().scenarios if row.client == client and row.layout.recommended]
    assert any(row.expect == "right" and row.stranger for row in advised)
    assert not [row.key for row in advised if row.expect == "silently wrong" and row.project.advised]


def test_only_what_pins_no_torchvision_is_against_the_advice() -> None:
    assert [name for name, project in table().projects.items() if not project.advised] == ["bare-vision"]


def test_each_row_expects_what_its_builds_amount_to() -> None:
    for scenario in table().scenarios:
        assert verdict(scenario.expected, scenario.project.builds) == scenario.expect, scenario.key


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (("1+cu128", ""), "right"),
        (("", ""), "refused"),
        (("1+cpu without a wheel", ""), "refused"),
        (("1+cpu", ""), "silently wrong"),
        (("nothing", ""), "silently wrong"),
        (("ambiguous", ""), "silently wrong"),
        (("1+cpu or 1+cu128", ""), "silently wrong"),
        (("1+cu128", "1"), "silently wrong"),
        (("", "1"), "silently wrong"),
    ],
)
def test_an_error_is_told_from_a_wrong_environment(found: tuple[str, ...], outcome: Outcome) -> None:
    assert verdict({"torch": found}, {"torch": ("1+cu128", "")}) == outcome
