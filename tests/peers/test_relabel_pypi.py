"""Builds that PyPI hosts, whose ledger rows have no address, are relabelled too: a stand-in's and a real one's."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pypi_simple
import pytest
import requests
from typer.testing import CliRunner, Result

from metawheel.cli import app
from metawheel.ledger import load
from metawheel.model import UpstreamFile
from tests.cases.plain import record_line, wheel_of
from tests.fakes.pages import ONLY_LOOPBACK, Answer, PageServer

FAMILY = """\
project = "torchaudio"
summary = "TorchAudio"
headline = "torchaudio-cpu"
releases = "==2.9.1"
plain = "cpu"

[[source]]
name = "pypi"
kind = "pypi"
projects = ["torchaudio"]
folders = { "" = "cpu" }

[[wrapper]]
name = "torchaudio-cpu"
backend = 'cpu'
summary = "TorchAudio {version} for the CPU"
"""
MAC = "torchaudio-2.9.1-cp312-cp312-macosx_11_0_arm64.whl"

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command on a folder with one family, all of which PyPI hosts."""
    (tmp_path / "packages" / "torchaudio-cpu").mkdir(parents=True)
    (tmp_path / "packages" / "torchaudio-cpu" / "family.toml").write_text(FAMILY, encoding="utf-8")
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path / "cache"))

    def command(*arguments: str) -> Result:
        done = CliRunner().invoke(app, [*arguments, "--packages", str(tmp_path / "packages")])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return command


def ledger_of(packages: Path) -> dict[str, UpstreamFile]:
    """The family's files by name."""
    return {file.filename: file for file in load(packages / "torchaudio-cpu" / "ledger.jsonl")}


def test_what_pypi_hosts_is_looked_up_there_and_keeps_both_hashes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ONLY_LOOPBACK.items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    digest = hashlib.sha256(wheel_of(MAC)).hexdigest()
    with PageServer() as pypi:
        link = f'<!DOCTYPE html><html><body><a href="{pypi.url}files/{MAC}#sha256={digest}">{MAC}</a></body></html>'
        pypi.serve("/simple/torchaudio/", Answer(body=link.encode()))
        pypi.serve(f"/files/{MAC}", Answer(body=wheel_of(MAC)))
        mirror = f"pypi={pypi.url}simple/"
        assert run("sync", "--mirror", mirror).exit_code == 0
        assert ledger_of(tmp_path / "packages")[MAC].url is None
        arguments = ["torchaudio==2.9.1", "-o", str(tmp_path / "out"), "--url", "http://wheels.invalid/"]
        done = run("relabel", *arguments, "--mirror", mirror, "--json")
    (told,) = json.loads(done.output)["relabelled"]
    file = ledger_of(tmp_path / "packages")[told["file"]]
    assert (file.url, file.upstream_sha256) == (f"http://wheels.invalid/{MAC.replace('2.9.1', '2.9.1%2Bcpu')}", digest)


def test_two_hosts_builds_with_one_name_and_other_bytes_do_not_become_one_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ONLY_LOOPBACK.items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    folder = tmp_path / "packages" / "torchaudio-cpu"
    with PageServer() as hosts:
        one, two = (wheel_of(MAC, text=text) for text in ("one\n", "two\n"))
        up = f'[[source]]\nname = "up"\nkind = "links"\nurl = "{hosts.url}up/"\nprojects = ["torchaudio"]\n'
        text = FAMILY.replace("[[wrapper]]", f'{up}folders = {{ "" = "cpu" }}\n\n[[wrapper]]')
        (folder / "family.toml").write_text(text, encoding="utf-8")
        for place, page, content in (("up", "/up/", one), ("files", "/simple/torchaudio/", two)):
            link = f"{hosts.url}{place}/{MAC}#sha256={hashlib.sha256(content).hexdigest()}"
            body = f'<!DOCTYPE html><html><body><a href="{link}">{MAC}</a></body></html>'
            hosts.serve(page, Answer(body=body.encode()))
            hosts.serve(f"/{place}/{MAC}", Answer(body=content))
        mirror = f"pypi={hosts.url}simple/"
        assert run("sync", "--mirror", mirror).exit_code == 0
        arguments = ["torchaudio==2.9.1", "-o", str(tmp_path / "out"), "--url", "http://wheels.invalid/"]
        run("relabel", *arguments, "--mirror", mirror)
    for file in load(folder / "ledger.jsonl"):
        if file.upstream_sha256 is not None:
            made = (tmp_path / "out" / file.filename).read_bytes()
            assert hashlib.sha256(made).hexdigest() == file.sha256


@pytest.mark.network
def test_a_real_macos_wheel_is_relabelled_and_installs(run: Run, tmp_path: Path) -> None:
    try:
        requests.head(pypi_simple.PYPI_SIMPLE_ENDPOINT, timeout=30).raise_for_status()
    except requests.RequestException as error:
        pytest.skip(f"PyPI is out of reach: {type(error).__name__}")
    assert run("sync").exit_code == 0
    arguments = ["torchaudio==2.9.1", "-o", str(tmp_path / "out"), "--url", "http://wheels.invalid/"]
    done = run("relabel", *arguments, "--system", "darwin", "--json")
    assert done.exit_code == 0, done.output
    files = ledger_of(tmp_path / "packages")
    made = {item["file"]: item for item in json.loads(done.output)["relabelled"]}
    path = tmp_path / "out" / MAC.replace("2.9.1", "2.9.1+cpu")
    assert made[path.name]["upstream_sha256"] == files[MAC].sha256
    assert made[path.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    own = "torchaudio-2.9.1+cpu.dist-info/RECORD"
    with zipfile.ZipFile(path) as archive:
        rows = {row[0]: (row[1], row[2]) for row in csv.reader(io.StringIO(archive.read(own).decode()))}
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    assert rows == {name: ("", "") if name == own else record_line(data) for name, data in content.items()}
    command = [sys.executable, "-m", "installer", "--no-compile-bytecode", "--prefix", str(tmp_path / "target")]
    subprocess.run([*command, str(path)], check=True, capture_output=True)
    (info,) = (tmp_path / "target").rglob("torchaudio-2.9.1+cpu.dist-info")
    (found,) = importlib.metadata.distributions(path=[str(info.parent)])
    assert found.version == "2.9.1+cpu"
    assert all((info.parent / name).is_file() for name in content)
