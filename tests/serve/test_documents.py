"""What docs/serve.md and the files beside it say is so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.main import get_command

from metawheel.cli import app
from tests.serve.running import serving

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "serve.md").read_text(encoding="utf-8")
UNIT = (DOCS / "serve" / "metawheel.service").read_text(encoding="utf-8")
IMAGE = (DOCS / "serve" / "Containerfile").read_text(encoding="utf-8")


def options() -> set[str]:
    """The options of `metawheel serve`."""
    command = get_command(app)
    serve = command.get_command(None, "serve")  # type: ignore[attr-defined]
    return {name for parameter in serve.params for name in parameter.opts if name.startswith("--")} - {"--help"}


def test_every_option_is_documented_and_every_documented_one_exists() -> None:
    rows = "".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `--"))
    assert set(re.findall(r"--[a-z-]+", rows)) == options()


def test_the_unit_and_the_image_use_options_that_exist() -> None:
    (start,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    lists = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", IMAGE, re.MULTILINE)
    used = set(re.findall(r"(?<=[ \"])--[a-z-]+", " ".join([start, *lists])))
    assert {"--cache", "--token-file", "--host", "--port"} <= used <= options()


def test_the_unit_is_one_that_systemd_reads_without_a_complaint(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    unit = tmp_path / "metawheel.service"
    unit.write_text(UNIT.replace("/opt/metawheel/bin/metawheel", sys.executable), encoding="utf-8")
    done = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_recipe_for_a_token_makes_one_that_is_let_in(site: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    section = TEXT.split("\n## Tokens\n", 1)[1]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    make = found[1].partition("metawheel serve")[0]
    done = subprocess.run(
        ["sh", "-ec", f"{make}\necho $token"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    token = done.stdout.strip()
    assert len(token) == 64
    assert token not in (tmp_path / "tokens").read_text()
    with serving(site, tokens=tmp_path / "tokens") as client:
        assert client.get("/simple/", auth=httpx.BasicAuth("ann", token)).status_code == 200
        assert client.get("/simple/").status_code == 401
