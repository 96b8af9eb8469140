"""The choice of a backend. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from metawheel.detect import nvidia
from metawheel.detect.facts import capabilities, cuda_of, drivers, gfx_targets, intel_name, runs_on, version_of
from metawheel.detect.interpreter import Interpreter
from metawheel.detect.offers import Offer
from metawheel.detect.probe import Accelerator, Machine
from metawheel.errors import MetawheelError, UnknownName

AUTO = "auto"
_VENDORS = ("nvidia", "amd", "intel")  # which comes first where a machine has several


class NoBuild(MetawheelError):
    """A wish that no wheel of the index fulfils for this interpreter."""

    exit_code = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What speaks for one backend, or against it."""

    backend: str
    offer: Offer | None  # the newest version that can be installed here; None: there is none
    usable: bool
    reason: str
    gpus: int = 0  # how many of the machine's GPUs it would use
    vendor: str | None = None

    @property
    def rank(self) -> tuple[object, ...]:
        """Greater is better: one that uses a GPU, that uses more of them, a newer release, a newer backend."""
        order = len(_VENDORS) - _VENDORS.index(self.vendor) if self.vendor else 0
        release = Version(self.offer.release if self.offer is not None else "0")
        return (order, self.gpus, release, version_of(self.backend))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The backend for one kind of wrapper, with a verdict for each that there is."""

    offer: Offer
    reason: str
    verdicts: tuple[Verdict, ...]  # best first


def choose(
    offers: Iterable[Offer],
    machine: Machine,
    interpreter: Interpreter,
    *,
    backend: str = AUTO,
    specifier: SpecifierSet | None = None,
) -> Choice:
    """The best offer of one kind; raises UnknownName for a backend that there is not, NoBuild if nothing fits.

    A backend counts only if the index has a wrapper of it with a cell for the interpreter. The newest release comes
    before the newest CUDA, and any build that uses the GPU before a newer one that does not.
    """
    offers = tuple(offers)
    wanted = specifier if specifier is not None else SpecifierSet()
    if not offers:
        raise NoBuild("there is nothing to choose from")
    known = sorted({offer.backend for offer in offers}, key=lambda name: (version_of(name), name), reverse=True)
    if backend not in (AUTO, *known):
        raise UnknownName(f"there is no backend {backend!r}; there are {', '.join(known)}")
    verdicts = [
        _verdict(name, [o for o in offers if o.backend == name], machine, interpreter, wanted) for name in known
    ]
    usable = sorted((item for item in verdicts if item.usable), key=lambda item: item.rank, reverse=True)
    others = sorted((item for item in verdicts if not item.usable), key=lambda item: version_of(item.backend))
    all_of_them = (*usable, *reversed(others))
    if backend != AUTO:
        (given,) = (item for item in verdicts if item.backend == backend)
        if given.offer is None:
            raise NoBuild(f"{backend}: {given.reason}")
        return Choice(offer=given.offer, reason=f"asked for; {given.reason}", verdicts=all_of_them)
    best = usable[0] if usable else None
    if best is None or best.offer is None:
        raise NoBuild("no build fits: " + "; ".join(f"{item.backend}: {item.reason}" for item in all_of_them))
    return Choice(offer=best.offer, reason=best.reason, verdicts=all_of_them)


def _verdict(
    backend: str, offers: Sequence[Offer], machine: Machine, interpreter: Interpreter, wanted: SpecifierSet
) -> Verdict:
    """Judge a backend by the newest of its versions that can be installed and that the GPUs are fit for."""
    fitting = [offer for offer in offers if wanted.contains(offer.release, prereleases=True)]
    if not fitting:
        releases = ", ".join(sorted({offer.release for offer in offers}, key=Version, reverse=True)[:3])
        return Verdict(backend=backend, offer=None, usable=False, reason=f"has no release {wanted}; it has {releases}")
    there = [offer for offer in fitting if offer.yanked is None and offer.wheel(interpreter) is not None]
    stable = [offer for offer in there if not Version(offer.release).is_prerelease] or there
    ordered = sorted(stable, key=lambda offer: Version(offer.version), reverse=True)
    if not ordered:
        return Verdict(backend=backend, offer=None, usable=False, reason=f"has no build for {interpreter.name}")
    judged = [_on_machine(offer, machine) for offer in ordered]
    # An older release may still hold code for a GPU that the newest has given up.
    return max(judged, key=lambda item: (item.usable, item.gpus))


def _on_machine(offer: Offer, machine: Machine) -> Verdict:
    judge: _Judge
    if offer.backend == "cpu":
        judge = _cpu
    elif cuda_of(offer.backend) is not None:
        judge = _cuda
    else:
        judge = _rocm if offer.backend.startswith("rocm") else _xpu
    vendor, good, reason = judge(offer, machine)
    usable = bool(good) or vendor is None
    return Verdict(
        backend=offer.backend,
        offer=offer,
        usable=usable,
        reason=reason,
        gpus=len(good),
        vendor=vendor if good else None,
    )


# Which vendor's GPUs a build uses (None: none), which of the machine's those are, and what speaks for it or against it.
_Judgement = tuple[str | None, Sequence[Accelerator], str]
_Judge = Callable[[Offer, Machine], _Judgement]


def _cpu(_offer: Offer, machine: Machine) -> _Judgement:
    if machine.of("apple"):
        return None, (), "the plain build, which uses Metal on Apple silicon"
    if machine.problem:
        return None, (), f"runs everywhere; {machine.problem}"
    return None, (), "runs everywhere" if machine.accelerators else "runs everywhere; no accelerator was found"


def _cuda(offer: Offer, machine: Machine) -> _Judgement:
    def no(reason: str) -> _Judgement:
        return "nvidia", (), reason

    if machine.sys_platform == "darwin":
        return no("macOS has no CUDA")
    if machine.driver is None:
        return no(machine.problem or "there is no NVIDIA driver")
    if nvidia.is_tegra(machine.driver):
        return no(f"the driver {machine.driver} is a Jetson's own (L4T); upstream's builds are not made for it")
    row = drivers().get(offer.backend)
    if row is None:
        return no("the driver that it needs is not known; ask for it with --backend")
    minimum = row.minimum(windows=machine.windows_driver)
    if Version(machine.driver) < Version(minimum):
        numbered = " (Windows' numbering)" if machine.windows_driver and machine.sys_platform == "linux" else ""
        return no(f"needs NVIDIA driver {minimum}{numbered} or newer; this is {machine.driver}")
    gpus = machine.of("nvidia")
    built = capabilities(offer.backend, offer.release, machine.sys_platform, machine.machine)
    good = [gpu for gpu in gpus if built is None or gpu.architecture is None or runs_on(built, gpu.architecture)]
    if not good:
        return no(f"{offer.release} is built for compute capability {', '.join(built or ())}, not for {_named(gpus)}")
    lost = f"; not for {_named([gpu for gpu in gpus if gpu not in good])}" if len(good) < len(gpus) else ""
    return "nvidia", good, f"driver {machine.driver} is {minimum} or newer, and it runs on {_named(good)}{lost}"


def _rocm(offer: Offer, machine: Machine) -> _Judgement:
    gpus = machine.of("amd")
    if not gpus:
        return "amd", (), "there is no AMD GPU with ROCm's kernel driver"
    built = gfx_targets(offer.backend)
    good = [gpu for gpu in gpus if built is None or gpu.architecture in built]
    if not good:
        return "amd", (), f"is built for {', '.join(sorted(built or ()))}, not for {_named(gpus)}"
    return "amd", good, f"it runs on {_named(good)}"


def _xpu(_offer: Offer, machine: Machine) -> _Judgement:
    gpus = machine.of("intel")
    if not gpus:
        return "intel", (), "there is no Intel GPU"
    good = [gpu for gpu in gpus if (intel_name(gpu.architecture) if gpu.architecture else "Arc" in gpu.name)]
    if not good:
        return "intel", (), f"is not made for {_named(gpus)}"
    return "intel", good, f"it runs on {_named(good)}"


_BRANDS = {"nvidia": "an NVIDIA GPU", "amd": "an AMD GPU", "intel": "an Intel GPU", "apple": "an Apple GPU"}


def _named(gpus: Iterable[Accelerator]) -> str:
    """GPUs in words: each once, with how many there are."""
    names: dict[str, int] = {}
    for gpu in gpus:
        name = gpu.name or _BRANDS[gpu.vendor]
        text = f"{name} ({gpu.architecture})" if gpu.architecture else name
        names[text] = names.get(text, 0) + 1
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in names.items())
