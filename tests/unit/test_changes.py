"""CHANGES.json and the Atom feed: an entry for each state, for programs and for people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from metawheel.changes import ATOM, CHANGES_FILE, FEED_FILE, FEED_LENGTH, NOTHING, Entry, extend, load, render
from metawheel.errors import OutputError

HOSTILE = "<script>\x00\x1b]0;x\x07 & \ud800 'é'"
FULL = Entry(
    new=("torch-cpu==2.9.1",),
    reissued=(("torch-cu128==2.9.1.post1", "now also for cp314 on linux x86_64"),),
    yanked=(("torch-cu126==2.9.1", HOSTILE), ("torch-cu118==2.7.1", "")),
    unyanked=("torch-cu124==2.6.0",),
    rebuilt=("torch-cu130==2.9.1",),
    removed=("torch-cu121==2.5.1",),
    pages=("torch",),
)


def _feed(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)  # noqa: S314  our own bytes


def _history(count: int) -> tuple[Entry, ...]:
    history: tuple[Entry, ...] = ()
    for number in range(count):
        history = extend(history, replace(NOTHING, new=(f"torch-cpu==1.{number}",)), "2026-01-01")
    return history


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    history = extend(_history(2), FULL, "2026-02-01")
    for name, content in render(history).items():
        (tmp_path / name).write_bytes(content)
    assert load(tmp_path) == history


def test_an_entry_is_added_and_none_that_is_there_changes() -> None:
    before = _history(3)
    after = extend(before, FULL, "2026-02-01")
    assert after[:3] == before
    assert len({entry.id for entry in after}) == 4
    assert after[3].date == "2026-02-01"


def test_a_state_without_news_gets_no_entry() -> None:
    assert extend(_history(2), NOTHING, "2026-02-01") == _history(2)


def test_dates_never_go_back() -> None:
    assert extend(extend((), FULL, "2026-02-01"), FULL, "2026-01-01")[-1].date == "2026-02-01"


def test_the_feed_is_well_formed_whatever_upstream_says_and_names_every_wrapper() -> None:
    feed = _feed(render(extend((), FULL, "2026-02-01"))[FEED_FILE])
    (entry,) = feed.findall(f"{{{ATOM}}}entry")
    text = entry.findtext(f"{{{ATOM}}}content") or ""
    for key in ("torch-cpu==2.9.1", "torch-cu128==2.9.1.post1", "torch-cu126==2.9.1", "torch-cu121==2.5.1"):
        assert key in text
    assert "<script>" in text, "it is text, not markup"
    assert "no reason given" in text
    assert entry.findtext(f"{{{ATOM}}}updated") == "2026-02-01T00:00:00Z"


def test_the_feed_has_what_atom_demands() -> None:
    """RFC 4287, 4.1.1 and 4.1.2: id, title, updated; an author; ids that differ and stay."""
    one, two = (_feed(render(_history(count))[FEED_FILE]) for count in (2, 3))
    for feed in (one, two):
        for element in (feed, *feed.findall(f"{{{ATOM}}}entry")):
            assert all(element.findtext(f"{{{ATOM}}}{name}") for name in ("id", "title", "updated"))
        assert feed.find(f"{{{ATOM}}}author/{{{ATOM}}}name") is not None
    ids = [[element.text for element in feed.iter(f"{{{ATOM}}}id")] for feed in (one, two)]
    assert ids[0][0] == ids[1][0], "the feed keeps its id"
    assert set(ids[0]) < set(ids[1])
    assert len(set(ids[1])) == 4


def test_the_feed_is_as_long_as_readers_like_and_the_json_holds_all() -> None:
    pages = render(_history(FEED_LENGTH + 5))
    assert len(_feed(pages[FEED_FILE]).findall(f"{{{ATOM}}}entry")) == FEED_LENGTH
    states = json.loads(pages[CHANGES_FILE])["states"]
    assert len(states) == FEED_LENGTH + 5
    assert states[0]["new"] == [f"torch-cpu==1.{FEED_LENGTH + 4}"], "the newest first"


GOOD_ID = "0" * 64


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"states": [{}]}',
        '{"states": [{"yanked": 1}]}',
        '{"states": [{"id": "\\ud800", "date": "2026-01-01"}]}',
        f'{{"states": [{{"id": "{GOOD_ID}", "date": "<b>"}}]}}',
        f'{{"states": [{{"id": "{GOOD_ID}", "date": "2026-01-01", "new": [1]}}]}}',
        f'{{"states": [{{"id": "{GOOD_ID}", "date": "2026-01-01", "yanked": [{{"wrapper": 1, "reason": ""}}]}}]}}',
        f'{{"states": [{{"id": "{GOOD_ID}", "date": "2026-01-01", "other": []}}]}}',
        f'{{"states": {{"id": "{GOOD_ID}"}}}}',
    ],
)
def test_a_history_that_cannot_be_read_is_not_thrown_away(tmp_path: Path, content: str) -> None:
    (tmp_path / CHANGES_FILE).write_text(content, encoding="utf-8")
    with pytest.raises(OutputError, match=r"CHANGES\.json: cannot be read"):
        load(tmp_path)
