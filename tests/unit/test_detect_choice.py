"""The choice of a backend: the table of minimum drivers, compute capabilities, interpreters and releases."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from metawheel.detect.choose import Choice, NoBuild, choose
from metawheel.detect.facts import Driver, capabilities, drivers, runs_on, version_of
from metawheel.detect.offers import Offer, from_plan
from metawheel.detect.probe import Accelerator, Machine
from metawheel.errors import UnknownName
from metawheel.install.wish import kinds
from tests.fakes.ledgers import committed_plan
from tests.fakes.machine import TORCH, WIDE, interpreter, offer, torch

# Every backend of the table, all in one release: only the driver decides.
ROWS = [row for row in drivers().values() if not row.backend.startswith("cuda")]
ALL = (*(torch(row.backend, "2.6.0") for row in ROWS), torch("cpu", "2.6.0"))


def nvidia(driver: str, *capability: str | None, system: str = "linux", windows: bool = False) -> Machine:
    gpus = tuple(
        Accelerator(vendor="nvidia", name=f"GPU{n}", architecture=c) for n, c in enumerate(capability or [None])
    )
    machine = "AMD64" if system == "win32" else "x86_64"
    return Machine(sys_platform=system, machine=machine, accelerators=gpus, driver=driver, windows_driver=windows)


def newest(minimums: Iterable[tuple[str, str]], driver: str) -> str:
    """The table read by hand: the newest CUDA whose minimum is not above the driver."""
    fitting = [backend for backend, minimum in minimums if Version(minimum) <= Version(driver)]
    return max(fitting, key=version_of, default="cpu")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.backend)
@pytest.mark.parametrize("windows", [False, True], ids=["linux", "windows"])
@pytest.mark.parametrize("below", [False, True], ids=["at the minimum", "below it"])
def test_the_choice_equals_the_table_of_minimum_drivers(row: Driver, windows: bool, below: bool) -> None:
    minimum = Version(row.minimum(windows=windows))
    parts = [*minimum.release[:-1], minimum.release[-1] - 1] if below else [*minimum.release]
    driver = ".".join(map(str, parts))
    system, machine = ("win32", "AMD64") if windows else ("linux", "x86_64")
    there = {item.backend for item in ALL}
    expected = newest(((r.backend, r.minimum(windows=windows)) for r in ROWS if r.backend in there), driver)
    choice = choose(ALL, nvidia(driver, system=system, windows=windows), interpreter("3.12", system, machine))
    assert choice.offer.backend == expected


def test_wsl_counts_in_windows_versions() -> None:
    assert choose(ALL, nvidia("526.47"), interpreter()).offer.backend == "cu129"
    assert choose(ALL, nvidia("526.47", windows=True), interpreter()).offer.backend == "cu118"


@pytest.mark.parametrize(
    ("capability", "backend"),
    [
        ("6.1", "cu126"),  # Pascal: newer CUDA builds have given it up (astral-sh/uv#14742)
        ("7.0", "cu126"),  # Volta: since 2.11
        ("7.5", "cu130"),
        ("8.6", "cu130"),
        ("8.9", "cu130"),  # Ada runs code for 8.6
        ("9.0", "cu130"),
        ("10.3", "cu130"),
        ("12.0", "cu130"),
        ("12.1", "cu130"),
        ("3.7", "cu118"),  # Kepler
        ("3.5", "cpu"),
        (None, "cu130"),  # not known: rules nothing out
    ],
)
def test_a_build_must_hold_code_for_the_gpu(capability: str | None, backend: str) -> None:
    assert choose(TORCH, nvidia("580.65.06", capability), interpreter()).offer.backend == backend


def test_an_older_release_counts_where_the_newest_has_given_up_the_gpu() -> None:
    offers = [torch("cpu", "2.13.0"), torch("cu128", "2.13.0"), torch("cu128", "2.10.0")]
    choice = choose(offers, nvidia("580.65.06", "7.0"), interpreter())
    assert (choice.offer.backend, choice.offer.release) == ("cu128", "2.10.0")


def test_a_build_for_all_gpus_comes_before_a_newer_one_for_some() -> None:
    choice = choose(TORCH, nvidia("580.65.06", "7.0", "8.9"), interpreter())
    assert choice.offer.backend == "cu126"
    (cu130,) = (item for item in choice.verdicts if item.backend == "cu130")
    assert cu130.usable
    assert "GPU1 (8.9)" in cu130.reason
    assert "not for GPU0 (7.0)" in cu130.reason


@pytest.mark.parametrize(
    ("built", "gpu", "runs"),
    [
        (("7.0", "8.0"), "7.5", True),
        (("7.5", "8.0"), "7.0", False),
        (("8.6",), "8.0", False),
        (("8.0", "9.0"), "10.0", False),
        (("8.0", "9.0+PTX"), "12.0", True),
        (("3.7+PTX",), "3.5", False),
    ],
)
def test_binary_code_runs_within_a_major_version_and_ptx_on_later_ones(
    built: tuple[str, ...], gpu: str, runs: bool
) -> None:
    assert runs_on(built, gpu) is runs


def test_a_backend_counts_only_with_a_cell_for_this_interpreter() -> None:
    offers = [torch("cpu", "2.13.0"), torch("cu126", "2.13.0"), torch("cu130", "2.13.0", tags="cp313-cp313-win_amd64")]
    choice = choose(offers, nvidia("580.65.06", "9.0"), interpreter("3.12"))
    assert choice.offer.backend == "cu126"
    reasons = {item.backend: item.reason for item in choice.verdicts}
    assert reasons["cu130"] == "has no build for Python 3.12 on linux x86_64"


def test_a_free_threaded_interpreter_takes_only_its_own_builds() -> None:
    offers = [
        torch("cpu", "2.13.0", tags="cp313-cp313t-manylinux_2_28_x86_64"),
        torch("cu130", "2.13.0", tags=f"cp313-cp313-{WIDE}"),
    ]
    choice = choose(offers, nvidia("580.65.06", "9.0"), interpreter("3.13t"))
    assert choice.offer.backend == "cpu"
    assert choice.verdicts[-1].reason == "has no build for Python 3.13t on linux x86_64"


def test_the_newest_release_comes_before_the_newest_cuda() -> None:
    offers = [torch("cpu", "2.13.0"), torch("cu128", "2.11.0"), torch("cu126", "2.13.0")]
    assert choose(offers, nvidia("570.86.15", "9.0"), interpreter()).offer.backend == "cu126"


def test_a_build_for_the_gpu_comes_before_a_newer_one_for_the_cpu() -> None:
    choice = choose(TORCH, nvidia("470.182.03"), interpreter())
    assert (choice.offer.backend, choice.offer.release) == ("cu118", "2.7.1")


def test_a_release_that_is_asked_for_is_the_only_one_that_counts() -> None:
    choice = choose(TORCH, nvidia("580.65.06", "9.0"), interpreter(), specifier=SpecifierSet("==2.7.1"))
    assert (choice.offer.backend, choice.offer.release) == ("cu128", "2.7.1")
    with pytest.raises(NoBuild, match=r"has no release ==1\.0; it has 2\.13\.0"):
        choose(TORCH, nvidia("580.65.06"), interpreter(), specifier=SpecifierSet("==1.0"))


def test_yanked_and_pre_releases_are_not_chosen() -> None:
    offers = [torch("cpu", "2.9.0"), torch("cpu", "2.10.0rc1"), offer("torch-cpu", "2.9.1", "cpu", [], yanked="broken")]
    machine = Machine(sys_platform="linux", machine="x86_64")
    assert choose(offers, machine, interpreter()).offer.release == "2.9.0"


def test_a_backend_that_is_asked_for_is_taken_whatever_the_machine_is() -> None:
    machine = Machine(sys_platform="linux", machine="x86_64")
    choice = choose(TORCH, machine, interpreter(), backend="cu118")
    assert choice.offer.backend == "cu118"
    assert choice.reason == "asked for; there is no NVIDIA driver"


def test_a_backend_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UnknownName, match=r"no backend 'cu999'; there are cu130, cu129, .*cpu"):
        choose(TORCH, nvidia("580.65.06"), interpreter(), backend="cu999")


def test_a_backend_that_is_asked_for_without_a_build_here_says_so() -> None:
    with pytest.raises(NoBuild, match=r"cu118: has no build for Python 3\.12 on darwin x86_64"):
        choose(TORCH, nvidia("580.65.06"), interpreter("3.12", "darwin", "x86_64"), backend="cu118")


def test_macos_gets_the_plain_build_though_cuda_wrappers_cover_it() -> None:
    machine = Machine(
        sys_platform="darwin", machine="arm64", accelerators=(Accelerator(vendor="apple", name="Apple M2"),)
    )
    choice = choose(TORCH, machine, interpreter("3.12", "darwin", "arm64"))
    assert choice.offer.wrapper == "torch-cpu"
    assert "Metal" in choice.reason
    assert {item.reason for item in choice.verdicts if item.backend.startswith("cu")} == {"macOS has no CUDA"}


def test_an_intel_mac_gets_the_last_release_that_has_a_build() -> None:
    machine = Machine(sys_platform="darwin", machine="x86_64")
    assert choose(TORCH, machine, interpreter("3.11", "darwin", "x86_64")).offer.release == "2.2.2"


def test_nvidia_comes_before_amd_and_intel() -> None:
    gpus = [("amd", "gfx1100"), ("intel", "56a0"), ("nvidia", "8.9")]
    found = tuple(Accelerator(vendor=vendor, architecture=architecture) for vendor, architecture in gpus)
    machine = Machine(sys_platform="linux", machine="x86_64", accelerators=found, driver="580.65.06")
    assert choose(TORCH, machine, interpreter()).offer.backend == "cu130"
    without = Machine(sys_platform="linux", machine="x86_64", accelerators=found[:2])
    assert choose(TORCH, without, interpreter()).offer.backend == "rocm6.3"


def test_every_verdict_has_a_reason_and_the_chosen_one_is_first() -> None:
    choice = choose(TORCH, nvidia("535.86.10", "8.0"), interpreter())
    assert choice.verdicts[0].offer == choice.offer
    assert {item.backend for item in choice.verdicts} == {item.backend for item in TORCH}
    reasons = {item.backend: item.reason for item in choice.verdicts}
    assert reasons["cu130"] == "needs NVIDIA driver 580 or newer; this is 535.86.10"
    assert all(reasons.values())


def test_a_backend_whose_driver_is_not_known_is_not_chosen() -> None:
    choice = choose([torch("cpu", "2.13.0"), torch("cu999", "2.13.0")], nvidia("999.1"), interpreter())
    assert choice.offer.backend == "cpu"
    assert "not known" in choice.verdicts[-1].reason


def test_capabilities_depend_on_release_system_and_machine() -> None:
    assert "7.0" in (capabilities("cu128", "2.9.1", "linux", "x86_64") or ())
    assert "7.0" not in (capabilities("cu128", "2.11.0", "linux", "x86_64") or ())
    assert capabilities("cu126", "2.13.0", "linux", "aarch64") == ("8.0", "9.0")
    assert capabilities("cu126", "2.13.0", "linux", "riscv64") is None


def committed(kind: str) -> list[Offer]:
    return kinds(from_plan(committed_plan().wrappers))[kind]


def chosen(driver: str, capability: str, python: str = "3.12") -> Choice:
    return choose(committed("-torch-*-"), nvidia(driver, capability), interpreter(python))


def test_the_committed_ledgers_give_each_driver_a_backend_that_it_runs() -> None:
    for driver, capability in (("580.65.06", "9.0"), ("550.54.14", "8.0"), ("470.182.03", "7.0"), ("384.90", "3.7")):
        for python in ("3.10", "3.12"):
            choice = chosen(driver, capability, python)
            row = drivers().get(choice.offer.backend)
            assert row is None or Version(row.linux) <= Version(driver)
            assert choice.offer.wheel(interpreter(python)) is not None
    assert chosen("580.65.06", "9.0").offer.backend.startswith("cu13")
    assert chosen("384.90", "3.7").offer.backend == "cpu"


def test_the_committed_kinds_are_those_that_people_ask_for() -> None:
    assert set(kinds(from_plan(committed_plan().wrappers))) == {"-jax-*-", "-jaxlib-*-", "-torch-*-"}


def test_every_cuda_backend_of_the_committed_ledgers_is_in_the_table() -> None:
    backends = {item.backend for item in from_plan(committed_plan().wrappers).offers} - {"cpu"}
    assert backends <= set(drivers())
