"""The floor of coverage only rises, and whoever falls below it is told what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.floor import MARGIN, SETTINGS, floor_in, highest, verdict


def test_the_floor_is_nowhere_below_what_it_was() -> None:
    assert floor_in(SETTINGS.read_text(encoding="utf-8")) >= highest(SETTINGS)


def test_the_highest_floor_is_found_in_the_history(tmp_path: Path) -> None:
    settings = tmp_path / "tests" / "coverage.ini"
    settings.parent.mkdir()
    assert highest(settings) == 0

    def git(*arguments: str) -> None:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.invalid", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "--quiet")
    for floor in ("90.00", "93.25", "91.00"):
        settings.write_text(f"[report]\nfail_under = {floor}\n", encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "-m", floor)
    assert highest(settings) == 93.25


@pytest.mark.parametrize(
    ("total", "good", "words"),
    [
        (89.994, False, "89.99 % of lines and branches are covered, and 90.00 % were"),
        (89.996, True, "the floor is 90.00 %"),
        (90 + MARGIN, True, "the floor is 90.00 %"),
        (92, True, "raise the floor, write fail_under = 91.75 in tests/coverage.ini"),
    ],
)
def test_a_fall_is_refused_and_a_rise_is_to_be_written_down(total: float, words: str, *, good: bool) -> None:
    found, said = verdict(total, 90)
    assert found is good
    assert words in said
