"""What the doctor's tests share: no ledgers are found, and the variables of the user's shell are not there."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CONDA_PREFIX", "UV_TORCH_BACKEND", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
