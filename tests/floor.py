"""Whether the unit tests still cover what they did: `python -m tests.floor`, after a measured run.

The floor stands in tests/coverage.ini, in percent of lines and branches. It only rises.
"""

from __future__ import annotations

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

SETTINGS = Path(__file__).with_name("coverage.ini")
MARGIN = 0.5  # points: what one machine covers and another does not


def floor_in(text: str) -> float:
    """The floor that settings name; 0 where they name none."""
    settings = ConfigParser()
    settings.read_string(text)
    return settings.getfloat("report", "fail_under", fallback=0.0)


def verdict(total: float, floor: float) -> tuple[bool, str]:
    """Whether a total will do, and what to say of it."""
    if round(total, 2) < floor:
        return False, (
            f"{total:.2f} % of lines and branches are covered, and {floor:.2f} % were: test what is missing above,"
            " or take out what nothing needs; the floor is never lowered"
        )
    if total > floor + MARGIN:
        return True, (
            f"{total:.2f} % of lines and branches are covered: raise the floor, write fail_under ="
            f" {total - MARGIN / 2:.2f} in tests/{SETTINGS.name}"
        )
    return True, f"{total:.2f} % of lines and branches are covered, the floor is {floor:.2f} %"


def highest(settings: Path) -> float:
    """The highest floor that was ever committed, as far as the history is here."""
    git = ["git", "-C", str(settings.parent)]
    found = subprocess.run(
        [*git, "log", "--format=%H", "-G^fail_under", "--", settings.name], capture_output=True, text=True, check=False
    )
    texts = (
        subprocess.run([*git, "show", f"{commit}:./{settings.name}"], capture_output=True, text=True, check=False)
        for commit in found.stdout.split()
    )
    return max((floor_in(text.stdout) for text in texts), default=0.0)


def main() -> None:
    from coverage import Coverage

    measured = Coverage(config_file=str(SETTINGS))
    measured.combine()
    measured.save()
    good, said = verdict(measured.report(), floor_in(SETTINGS.read_text(encoding="utf-8")))
    sys.stdout.write(f"{said}\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
