"""The projects under data/: small ones built after cases that users met, each with what is to be found in it."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from metawheel.doctor import Options, Report, examine
from metawheel.doctor.known import backend_named

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Expected:
    """What an expected.toml says: how the doctor is asked, and the code, file and line of each finding."""

    options: Options
    findings: tuple[tuple[str, str, int], ...]


def expected(name: str) -> Expected:
    told = tomllib.loads((DATA / name / "expected.toml").read_text(encoding="utf-8"))
    options = Options(
        targets=tuple(told.get("targets", ())),
        pythons=tuple(told.get("pythons", ())),
        backend=backend_named(told.get("backend")),
        uv_torch_backend=told.get("uv_torch_backend"),
    )
    found = sorted((item["code"], item["file"], item["line"]) for item in told["finding"])
    return Expected(options, tuple(found))


def projects() -> list[str]:
    return sorted(folder.name for folder in DATA.iterdir())


def copied(name: str, folder: Path) -> Path:
    """A copy to work on, away from this repository's ledgers."""
    project = folder / name
    shutil.copytree(DATA / name, project)
    (project / "expected.toml").unlink()
    return project


def examined(name: str, folder: Path) -> Report:
    return examine(copied(name, folder), expected(name).options)
