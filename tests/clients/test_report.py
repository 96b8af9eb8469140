"""The page about clients tells of every client and set-up in the table."""

from __future__ import annotations

from tests.clients.envs import CLIENTS
from tests.clients.report import PAGE, render
from tests.clients.scenarios import table


def test_the_page_names_every_client() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for facts in table().clients.values():
        assert f"\n## {facts['title']}\n" in text


def test_the_page_names_every_set_up() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for layout in table().layouts.values():
        assert f"| {layout.title} |" in text
    assert "not run" not in text.lower()


def test_every_client_is_in_the_table() -> None:
    assert table().clients.keys() == CLIENTS.keys()
    assert {scenario.client for scenario in table().scenarios} == CLIENTS.keys()


def test_what_is_not_right_says_why() -> None:
    assert all(scenario.why for scenario in table().scenarios if scenario.expect != "right")


def test_without_outcomes_the_page_says_so() -> None:
    assert "Not run." in render(table(), {})
