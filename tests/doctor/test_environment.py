"""An installed environment: it is asked, never imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from metawheel.doctor import Options, examine
from metawheel.doctor.installed import environment_of, read_environment
from metawheel.doctor.known import Backend
from metawheel.doctor.model import ProjectError
from metawheel.errors import UnknownName
from tests.doctor.test_command import as_json


def install(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), module: str | None = None) -> None:
    """What a wheel's installation leaves: metadata, a RECORD, and a module that must not be imported."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    record = [f"{info.name}/METADATA,,"]
    if module is not None:
        package = folder / module
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
        record.append(f"{module}/__init__.py,,")
    (info / "RECORD").write_text("\n".join(record) + "\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def codes(python: str = sys.executable, backend: Backend | None = None) -> list[tuple[str, str]]:
    report = examine(Path.cwd(), Options(environment=Path(python), backend=backend, targets=("linux-x86_64",)))
    return [(finding.code, finding.message) for finding in report.findings]


def test_an_environment_without_faults_is_healthy(site: Path) -> None:
    install(site, "torch", "2.6.0", module="torch")
    install(site, "torchvision", "0.21.0", ("torch==2.6.0",), module="torchvision")

    assert codes() == []


def test_a_wrapper_whose_build_was_replaced_is_told(site: Path) -> None:
    # case I03: torch-cpu, then torch-cu116
    install(site, "torch", "1.13.1+cu116", module="torch")
    install(site, "torch-cpu", "1.13.1", ("torch==1.13.1+cpu",))
    install(site, "torch-cu116", "1.13.1", ("torch==1.13.1+cu116",))

    found = dict(codes())

    assert set(found) == {"MW110", "MW501"}
    assert found["MW501"] == "torch-cpu 1.13.1 requires 'torch==1.13.1+cpu', but torch 1.13.1+cu116 is installed"
    _, report = as_json("--python", sys.executable)
    assert [f["fix"]["paste"] for f in report["findings"] if f["code"] == "MW110"] == ["pip uninstall torch-cpu"]


def test_companions_of_another_torch_are_told(site: Path) -> None:
    install(site, "torch", "2.5.1+cu121", module="torch")
    install(site, "torchvision", "0.21.0+cpu", ("torch==2.6.0",), module="torchvision")

    assert [code for code, _ in codes()] == ["MW105", "MW106", "MW501"]


def test_two_packages_that_own_one_module_are_told_whatever_they_are(site: Path) -> None:
    # case F04, and a pair that no table knows
    install(site, "onnxruntime", "1.23.2", module="onnxruntime")
    install(site, "onnxruntime-gpu", "1.23.2", module="onnxruntime")
    install(site, "alpha-thing", "1", module="thing")
    install(site, "beta-thing", "1", module="thing")

    assert [message.split(" both")[0] for _, message in codes()] == [
        "alpha-thing and beta-thing",
        "onnxruntime and onnxruntime-gpu",
    ]


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no CUDA")
def test_a_cpu_build_on_a_cuda_machine_is_told(site: Path) -> None:
    install(site, "torch", "2.6.0+cpu", module="torch")

    assert [code for code, _ in codes(backend=Backend("cu", "cu124"))] == ["MW103"]
    assert codes(backend=Backend("cpu", "cpu")) == []


def test_a_missing_requirement_is_told(site: Path) -> None:
    install(site, "jax", "0.4.34", ("jaxlib<=0.4.34,>=0.4.34", "numpy", "jaxlib==0 ; extra == 'other'"), module="jax")

    assert codes() == [("MW501", "jax 0.4.34 requires 'jaxlib<=0.4.34,>=0.4.34', but jaxlib is not installed")]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "could not tell what is installed: no answer"),
        ("echo 'no such option' >&2; exit 2", "no such option"),
        ("echo hello", "is not JSON"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_named(script: str, message: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)

    with pytest.raises(ProjectError, match=message) as caught:
        read_environment(python)
    assert str(caught.value).startswith(str(python))


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="cannot be run"):
        read_environment(tmp_path / "gone")


def test_of_a_project_found_twice_the_first_counts() -> None:
    twice = [{"name": "torch", "version": "2.6.0"}, {"name": "Torch", "version": "1.0"}]
    answer = {"sys_platform": "linux", "machine": "x86_64", "python": "3.11.4", "prefix": "/x", "distributions": twice}

    found = environment_of(answer)

    assert [str(item.version) for item in found.packages] == ["2.6.0"]
    assert str(found.target) == "linux-x86_64 py3.11.4"


def test_an_interpreter_may_be_named_from_the_folder_that_one_is_in(tmp_path: Path) -> None:
    (tmp_path / "app" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "app" / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "app" / "requirements.txt").write_text("torch==2.9.1\n", encoding="utf-8")

    for arguments in (["--env"], ["--python", "app/.venv/bin/python"], ["--python", "app/.venv"]):
        _, found = as_json("app", *arguments)
        assert len(found["targets"]) == 4  # the usual three, and the environment's


def test_without_an_environment_the_first_python_of_the_path_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "python3").symlink_to("/bin/false")

    with pytest.raises(ProjectError, match="python3: could not tell what is installed"):
        as_json(".", "--env")


@pytest.mark.parametrize("named", ["no-such-python", "empty"])
def test_what_is_no_interpreter_is_named(tmp_path: Path, named: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(UnknownName, match=f"--python {named}: no such interpreter"):
        as_json("--python", named)
