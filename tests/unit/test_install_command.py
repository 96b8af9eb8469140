"""`metawheel detect`, `install` and `pip` on the command line, up to where a real pip or uv would be started."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metawheel.detect.choose import NoBuild
from metawheel.errors import OutputError, UnknownName
from metawheel.install.commands import InstallFailed, Plan, run, write_constraints
from tests.fakes.here import Here
from tests.fakes.ledgers import PACKAGES, TORCH, build_site, torch_files, wheel, write_family
from tests.fakes.pages import Ran
from tests.fakes.site import SiteServer

# CacheControl leaves its temporary copy of an unread body to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

TAGS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "win_amd64")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    """A site with a build of torch for the CPU and for cu116, for the interpreter that runs the tests."""
    folder = tmp_path_factory.mktemp("site")
    python = f"cp3{sys.version_info.minor}"
    files = [
        wheel(f"torch-2.9.1{local}-{python}-{python}-{tag}.whl", where)
        for local, where in (("+cpu", "cpu"), ("+cu116", "cu116"))
        for tag in TAGS
    ]
    write_family(folder / "packages" / "torch", TORCH, [*torch_files(), *files])
    build_site(folder / "packages", folder / "site")
    with SiteServer(folder / "site") as server:
        yield server


@pytest.fixture
def settings(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of settings, empty, on a machine without accelerator."""
    for name in ("METAWHEEL_INDEX", "METAWHEEL_BACKEND", "METAWHEEL_CUDA_DRIVER", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setattr("metawheel.detect.system.Host.find", lambda *_: ())
    return folder


def said(ran: Ran) -> Any:
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_detect_names_the_choice_of_each_kind_for_people_and_programs(
    here: Here, settings: Path, site: SiteServer
) -> None:
    data = said(here.run(["detect", "--index", site.simple, "--json", "--backend", "cu116"]))
    assert data["choices"] == {"torch-*": data["choices"]["torch-*"]}
    chosen = data["choices"]["torch-*"]
    assert (chosen["wrapper"], chosen["version"], chosen["backend"]) == ("torch-cu116", "2.9.1", "cu116")
    text = here.run(["detect", "--index", site.simple, "--backend", "cu116"]).out
    assert f"torch-cu116==2.9.1: {chosen['reason']}" in text


def test_detect_explains_every_backend_and_every_probe(here: Here, settings: Path, site: SiteServer) -> None:
    data = said(here.run(["detect", "--index", site.simple, "--explain", "--json"]))
    text = here.run(["detect", "--index", site.simple, "--explain"]).out
    assert {item["backend"] for item in data["choices"]["torch-*"]["backends"]} == {"cpu", "cu116", "cu117"}
    for item in (*data["choices"]["torch-*"]["backends"], *data["probes"]):
        assert item.get("reason", item.get("said")) in text


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--version", "9.9"], NoBuild.exit_code),
        (["--backend", "cu116", "--version", ">=99"], NoBuild.exit_code),
        (["--backend", "nope"], UnknownName.exit_code),
    ],
    ids=["version", "version of a backend", "backend"],
)
def test_detect_says_why_there_is_no_choice_and_ends_as_install_does(
    here: Here, settings: Path, site: SiteServer, options: list[str], code: int
) -> None:
    ran = here.run(["detect", "--index", site.simple, *options])
    data = json.loads(here.run(["detect", "--index", site.simple, "--json", *options]).out)
    assert data["choices"]["torch-*"]["wrapper"] is None
    assert data["choices"]["torch-*"]["reason"] in ran.out
    assert ran.code == here.run(["install", "torch", "--index", site.simple, "--dry-run", *options]).code == code


def test_a_choice_for_one_kind_is_enough_for_detect(here: Here, settings: Path) -> None:
    ran = here.run(["detect", "--packages", str(PACKAGES), "--json", "--backend", "cu128"])
    choices = said(ran)["choices"]
    assert choices["torch-*"]["wrapper"] == "torch-cu128"
    assert choices["jaxlib-*"]["wrapper"] is None


@pytest.mark.parametrize("command", [["install", "torch", "--dry-run"], ["pip", "insert", "--scope", "user", "--uv"]])
def test_cpu_contradicts_another_backend_but_not_the_variable(
    here: Here, settings: Path, site: SiteServer, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*command, "--cpu", "--index", site.simple]
    ran = here.run([*arguments, "--backend", "cu116"])
    assert ran.code == 2
    assert "--cpu" in ran.err
    monkeypatch.setenv("METAWHEEL_BACKEND", "cu116")
    assert here.run(arguments).code == 0
    assert here.run([*arguments, "--backend", "cpu"]).code == 0


def test_detect_without_an_index_reads_the_families_here(here: Here, settings: Path) -> None:
    write_family(here.packages / "torch", TORCH, torch_files())
    data = json.loads(here.run(["detect", "--packages", str(here.packages), "--json"]).out)
    assert set(data["choices"]) == {"torch-*"}


@pytest.mark.parametrize("command", [["detect"], ["install", "torch"], ["pip", "insert", "--uv"]], ids=" ".join)
@pytest.mark.parametrize("wrong", ["--index=file:///etc", "--index=https://a b/", "--version=newest"])
def test_what_is_no_index_or_version_is_refused_by_name(
    here: Here, settings: Path, site: SiteServer, command: list[str], wrong: str
) -> None:
    ran = here.run([*command, f"--index={site.simple}", wrong])
    assert ran.code == 2
    assert wrong.partition("=")[0] in ran.err or "version" in ran.err


@pytest.mark.parametrize("command", [["install", "torch"], ["pip", "insert"]], ids=" ".join)
def test_without_an_index_it_is_asked_for(here: Here, settings: Path, command: list[str]) -> None:
    ran = here.run(command)
    assert ran.code == 2
    assert "METAWHEEL_INDEX" in ran.err


def test_a_dry_run_shows_every_command_and_runs_none(
    here: Here, settings: Path, site: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metawheel.install.commands.run", lambda *_, **__: pytest.fail("something was run"))
    ran = here.run(["install", "torch", "--cpu", "--dry-run", "--index", site.simple])
    data = said(here.run(["install", "torch", "--cpu", "--dry-run", "--json", "--index", site.simple]))
    (command,) = data["commands"]
    assert any(word.startswith("torch-cpu @ ") for word in command)
    assert f"$ {command[0]} " in ran.out
    constraints = data["constraints"]
    assert Path(constraints["path"]).read_text(encoding="utf-8").split() == constraints["lines"] == ["torch==2.9.1+cpu"]


def test_uvs_settings_come_in_are_told_of_and_go_out_without_a_trace(
    here: Here, settings: Path, site: SiteServer
) -> None:
    config = settings / "uv" / "uv.toml"
    config.parent.mkdir()
    config.write_text("no-cache = true\n", encoding="utf-8")
    assert here.run(["pip", "status"]).out == "nothing is put in\n"

    user = ["--scope", "user"]
    put = said(here.run(["pip", "insert", "--uv", "--cpu", "--index", site.simple, *user, "--json"]))
    assert put == {
        "tool": "uv",
        "scope": "user",
        "config": str(config),
        "backend": "cpu",
        "index": site.view("cpu"),
        "constraints": [],
    }
    assert site.view("cpu") in config.read_text(encoding="utf-8")
    assert said(here.run(["pip", "status", "--json"])) == {"inserted": [{**put, "hidden_by": []}]}
    assert f"{config} (uv, user): cpu, {site.view('cpu')}" in here.run(["pip", "status"]).out

    assert said(here.run(["pip", "remove", *user, "--json"])) == {"removed": [str(config)]}
    assert config.read_text(encoding="utf-8") == "no-cache = true\n"
    assert here.run(["pip", "remove", *user]).out == "nothing was put in\n"


def test_a_variable_that_hides_uvs_settings_is_warned_of(
    here: Here, settings: Path, site: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    arguments = ["pip", "insert", "--uv", "--cpu", "--index", site.simple, "--scope", "user"]
    assert here.run(arguments).err == "metawheel: warning: not heeded as long as there is the variable UV_NO_CONFIG\n"
    assert "not heeded: the variable UV_NO_CONFIG" in here.run(["pip", "status"]).out


def test_uvs_settings_name_no_version(here: Here, settings: Path, site: SiteServer) -> None:
    ran = here.run(["pip", "insert", "--uv", "--version", "2.9.1", "--index", site.simple])
    assert ran.code == 2
    assert not list(settings.iterdir())


def commands(tmp_path: Path, *codes: str) -> Plan:
    words = tuple((sys.executable, "-c", code) for code in codes)
    return Plan(choices=(), constraints=("torch==2.9.1",), constraints_path=tmp_path / "c" / "x.txt", commands=words)


def test_the_first_command_that_fails_is_the_last_that_is_run(tmp_path: Path) -> None:
    touch = "import pathlib; pathlib.Path({!r}).touch()"
    first, last = tmp_path / "first", tmp_path / "last"
    planned = commands(tmp_path, touch.format(str(first)), "raise SystemExit(3)", touch.format(str(last)))
    with pytest.raises(InstallFailed, match="ended with 3; nothing after it was run"):
        run(planned)
    assert first.exists()
    assert not last.exists()


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    planned = replace(commands(tmp_path), commands=((str(tmp_path / "pip"), "install"),))
    with pytest.raises(InstallFailed, match=r"pip: cannot be run: No such file"):
        run(planned)


def test_constraints_that_cannot_be_written_are_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("no folder", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be made"):
        write_constraints(commands(tmp_path))
