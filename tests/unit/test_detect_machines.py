"""Machines in the texts that their tools print: what is found on them, and what is chosen for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metawheel.detect import amd, intel, nvidia, pci
from metawheel.detect.choose import choose
from metawheel.detect.machine import probe
from metawheel.detect.probe import Accelerator
from metawheel.detect.system import Host, Nvml, Output
from metawheel.errors import UnknownName
from tests.fakes.machine import JAX, TORCH, Described, FakeSystem, described, interpreter

MACHINES = described()
BRANDS = {"nvidia": "an NVIDIA GPU", "amd": "an AMD GPU", "intel": "an Intel GPU", "apple": "an Apple GPU"}


def said(gpu: Accelerator) -> str:
    name = gpu.name or BRANDS[gpu.vendor]
    return f"{name} ({gpu.architecture})" if gpu.architecture else name


def test_there_are_many_machines_and_each_text_says_where_it_is_from() -> None:
    assert len(MACHINES) >= 30
    for machine in MACHINES:
        assert all(source.startswith("https://") for source in machine.sources)
        assert machine.sources or machine.name == "nothing"


@pytest.mark.parametrize("described", MACHINES, ids=lambda item: item.name)
def test_what_is_there_is_found(described: Described) -> None:
    machine = probe(described.system)
    assert [said(gpu) for gpu in machine.accelerators] == described.expected["gpus"]
    assert machine.driver == described.expected.get("driver")
    assert (described.expected.get("problem") or "") in (machine.problem or "")
    assert (machine.problem is None) == ("problem" not in described.expected)


@pytest.mark.parametrize("described", MACHINES, ids=lambda item: item.name)
def test_the_backend_that_fits_is_chosen(described: Described) -> None:
    machine = probe(described.system)
    python = interpreter(described.python, machine.sys_platform, machine.machine)
    assert choose(TORCH, machine, python).offer.backend == described.expected["torch"]
    if (machine.sys_platform, machine.machine) != ("darwin", "x86_64"):  # JAX has no builds for it
        jaxlib = [offer for offer in JAX if offer.wrapper.startswith("jaxlib")]
        assert choose(jaxlib, machine, python).offer.backend == described.expected["jaxlib"]


@pytest.mark.parametrize("described", MACHINES, ids=lambda item: item.name)
def test_every_probe_says_what_it_found_or_why_it_found_nothing(described: Described) -> None:
    notes = probe(described.system).notes
    assert all(note.said for note in notes)
    assert (
        any(note.probe == "nvidia-smi" for note in notes)
        or described.expected["gpus"]
        or described.system.answer
        or (described.system.sys_platform == "darwin")
    )


def test_no_probe_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would raise ImportError
    for item in MACHINES:
        probe(item.system)


def test_a_driver_version_given_by_the_environment_comes_before_all_probes() -> None:
    (mi300x,) = (item.system for item in MACHINES if item.name == "two-generations")
    given = FakeSystem(commands=mi300x.commands, environ={"METAWHEEL_CUDA_DRIVER": "525.60.13"})
    machine = probe(given)
    assert machine.driver == "525.60.13"
    assert [gpu.architecture for gpu in machine.accelerators] == ["7.0", "8.9"]


def test_a_driver_version_can_be_given_where_there_is_no_gpu() -> None:
    machine = probe(FakeSystem(environ={"METAWHEEL_CUDA_DRIVER": "580.65.06"}))
    assert choose(TORCH, machine, interpreter()).offer.backend == "cu130"


@pytest.mark.parametrize("wrong", ["12.8", "new", "525.60.13; rm", "58"])
def test_a_driver_version_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(UnknownName, match=r"525\.60\.13"):
        probe(FakeSystem(environ={"METAWHEEL_CUDA_DRIVER": wrong}))


def test_a_tool_that_hangs_is_passed_over() -> None:
    slow = Output(status=None, text="no answer in 20 s")
    system = FakeSystem(commands={("nvidia-smi",): slow}, files={"/sys/module/nvidia/version": "550.54.14\n"})
    machine = probe(system)
    assert machine.driver == "550.54.14"
    assert any(note.said == "no answer in 20 s" for note in machine.notes)


def test_nvml_is_asked_before_nvidia_smi_is_run() -> None:
    answer = Nvml(driver="580.65.06", gpus=(("NVIDIA H200", "9.0"),))
    machine = probe(FakeSystem(answer=answer))
    assert (machine.driver, [said(gpu) for gpu in machine.accelerators]) == ("580.65.06", ["NVIDIA H200 (9.0)"])
    assert not any(note.probe.startswith("nvidia-smi") for note in machine.notes)


def test_nvmls_error_is_told() -> None:
    machine = probe(FakeSystem(answer="NVML Shared Library Not Found"))
    assert any(note.said == "NVML Shared Library Not Found" for note in machine.notes)


@pytest.mark.parametrize(
    "text", ["", "\n", "nonsense", "[N/A]\n", "12", "\x00\xff", "NVRM version: \n", "a, b, c\n" * 3]
)
def test_parsers_take_any_text(text: str) -> None:
    for parse in (nvidia.module_version, nvidia.proc_version, nvidia.query, nvidia.query_with_capability, nvidia.table):
        report = parse(text)
        assert report is None or report.driver == "12"
    assert not amd.kfd_target(text)
    assert not amd.rocminfo_gpus(text)
    assert not intel.clinfo_gpus(text)
    assert not pci.windows_adapters(text)


@pytest.mark.parametrize(
    ("version", "target"),
    [("90010", "gfx90a"), ("90402", "gfx942"), ("100306", "gfx1036"), ("110501", "gfx1151"), ("120001", "gfx1201")],
)
def test_kfds_numbers_become_gfx_targets(version: str, target: str) -> None:
    assert amd.kfd_target(f"simd_count 4\ngfx_target_version {version}\n") == target


def test_a_capability_that_is_not_known_is_none() -> None:
    report = nvidia.query_with_capability("550.54.14, [N/A], NVIDIA A100\n")
    assert report is not None
    assert report.gpus == (Accelerator(vendor="nvidia", name="NVIDIA A100"),)


class FakePynvml:
    """nvidia-ml-py's functions that are used, over GPUs in memory; `broken` names one that fails."""

    class NVMLError(Exception):
        """The base of its errors."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name == self.broken:
            raise self.NVMLError("Driver/library version mismatch")
        answers: dict[str, Callable[..., object]] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "580.65.06",
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda gpu: f"GPU {gpu}",
            "nvmlDeviceGetCudaComputeCapability": lambda gpu: (9, gpu),
        }
        return answers[name]


def test_nvml_is_asked_through_nvidia_ml_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakePynvml())
    assert Host().nvml() == Nvml(driver="580.65.06", gpus=(("GPU 0", "9.0"), ("GPU 1", "9.1")))


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_nvmls_error_is_an_answer(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakePynvml(broken))
    assert Host().nvml() == "Driver/library version mismatch"


def test_without_nvidia_ml_py_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Host().nvml() is None


def test_this_machine_can_be_probed(tmp_path: Path) -> None:
    host = Host()
    (tmp_path / "a").write_bytes(b"text\xff\n")
    assert host.read(str(tmp_path / "a")) == "text\ufffd\n"
    assert host.read(str(tmp_path / "b")) is None
    assert host.read(str(tmp_path)) is None
    assert host.find(f"{tmp_path}/*") == [str(tmp_path / "a")]
    assert host.run("no-such-program-anywhere") is None
    assert host.run(sys.executable, "-c", "print('out'); raise SystemExit(3)") == Output(status=3, text="out\n")
    assert probe(host).notes
