"""The tags and markers of the targets."""

from __future__ import annotations

import pytest

from tests.clients.targets import (
    LINUX_AARCH64,
    LINUX_X86_64,
    MACOS_ARM64,
    MACOS_X86_64,
    TARGETS,
    WINDOWS_AMD64,
    Target,
)


@pytest.mark.parametrize(
    ("target", "filename", "takes"),
    [
        (LINUX_X86_64, "a-1-cp310-cp310-manylinux1_x86_64.whl", True),
        (LINUX_X86_64, "a-1-cp310-cp310-manylinux_2_28_x86_64.whl", True),
        (LINUX_X86_64, "a-1-cp310-cp310-manylinux_2_99_x86_64.whl", False),
        (LINUX_X86_64, "a-1-cp39-abi3-manylinux2014_x86_64.whl", True),
        (LINUX_AARCH64, "a-1-cp310-cp310-manylinux2014_aarch64.whl", True),
        (LINUX_AARCH64, "a-1-cp310-cp310-manylinux_2_12_aarch64.whl", False),
        (MACOS_ARM64, "a-1-cp310-none-macosx_11_0_arm64.whl", True),
        (MACOS_ARM64, "a-1-cp310-cp310-macosx_10_9_x86_64.whl", False),
        (MACOS_X86_64, "a-1-cp310-none-macosx_10_9_x86_64.whl", True),
        (MACOS_X86_64, "a-1-cp310-cp310-macosx_11_0_universal2.whl", True),
        (WINDOWS_AMD64, "a-1-cp310-cp310-win_amd64.whl", True),
        (WINDOWS_AMD64, "a-1-py3-none-any.whl", True),
        (WINDOWS_AMD64, "a-1.tar.gz", False),
        (LINUX_X86_64.with_python("3.7"), "a-1-cp37-cp37m-linux_x86_64.whl", True),
        (LINUX_X86_64.with_python("3.13"), "a-1-cp313-cp313t-linux_x86_64.whl", False),
        (LINUX_X86_64.with_python("3.13", free_threaded=True), "a-1-cp313-cp313t-linux_x86_64.whl", True),
        (LINUX_X86_64, "a-1-cp310.cp311-none-linux_x86_64.macosx_11_0_arm64.whl", True),
        (LINUX_AARCH64, "a-1-cp310.cp311-none-linux_x86_64.macosx_11_0_arm64.whl", False),
    ],
)
def test_tags(target: Target, filename: str, takes: bool) -> None:
    assert target.takes(filename) is takes


def test_markers() -> None:
    fitting = [target.name for target in TARGETS if target.fits('platform_system == "Linux"')]
    assert fitting == ["linux-x86_64", "linux-aarch64"]
    assert WINDOWS_AMD64.fits('os_name == "nt" and python_version == "3.10"')
    assert not MACOS_ARM64.fits('extra == "vision"')
    assert MACOS_ARM64.fits('extra == "vision"', extras=["audio", "vision"])
    assert LINUX_X86_64.with_python("3.12").fits_python(">=3.10,!=3.12.1")
