"""What the stand-in PyPI has in stock."""

from __future__ import annotations

from tests.clients.requirements import all_lines, facts_of
from tests.fakes.pypi import FakePyPI

# Wrapped projects are never served by the stand-in PyPI unless a test adds them.
WRAPPED = ("torch", "torchvision", "torchaudio")


def stock(server: FakePyPI) -> None:
    """Publish what the wrapped projects require, and a package that requires any torch."""
    server.add_missing(all_lines(), skip=WRAPPED)
    server.add("lightning-like", "1.0", requires=["torch>=1.10"])


# PyPI's own plain builds: Poetry takes the plain branch from there, and a later torch tempts whoever has a hole.
PLAIN = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "macosx_10_9_x86_64", "win_amd64")


PLAIN_BUILDS = [
    *(("torch", version) for version in ("1.13.1", "2.8.0", "2.9.1", "2.10.0")),
    ("torchvision", "0.25.0"),
]


def stock_plain_builds(pypi: FakePyPI) -> None:
    """Publish the plain builds of what the cases wrap, and a later release."""
    for project, version in PLAIN_BUILDS:
        for python in range(9, 15):
            for system in PLAIN:
                if system == "macosx_10_9_x86_64" and version != "1.13.1":
                    continue
                tags = f"cp3{python}-cp3{python}-{system}"
                facts = facts_of(f"{project}-{version}-{tags}.whl")
                pypi.add(project, version, requires=facts.requires, extras=facts.extras, tags=tags)
    for tags in ("cp310-cp310-manylinux_2_28_x86_64", "cp311-cp311-macosx_11_0_arm64"):
        pypi.add("torch", "2.15.0", requires=["typing-extensions"], tags=tags)


def stock_third_parties(pypi: FakePyPI) -> None:
    """Publish packages that require the wrapped projects, as many do."""
    pypi.add("vision-like", "1.0", requires=["torchvision>=0.15"])
