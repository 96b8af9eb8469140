"""The platforms that locks are judged for: their marker environments and compatibility tags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

PLATFORM_SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
MANYLINUX_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True)
class Target:
    """An interpreter on a platform."""

    name: str
    sys_platform: str
    platform_machine: str
    python: str = "3.10"
    # The newest glibc minor version that wheels may ask for, and the macOS version.
    glibc: int = 39
    macos: tuple[int, int] = (15, 0)
    free_threaded: bool = False

    def with_python(self, version: str, *, free_threaded: bool = False) -> Target:
        """The same platform with another interpreter."""
        return replace(self, python=version, free_threaded=free_threaded)

    @property
    def version_info(self) -> tuple[int, int]:
        """The interpreter's version as numbers."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def full_version(self) -> str:
        """The interpreter's version with its micro part."""
        return self.python if self.python.count(".") > 1 else f"{self.python}.9"

    @cached_property
    def environment(self) -> dict[str, str]:
        """Every variable that a marker may name."""
        return {
            "implementation_name": "cpython",
            "implementation_version": self.full_version,
            "os_name": "nt" if self.sys_platform == "win32" else "posix",
            "platform_machine": self.platform_machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": PLATFORM_SYSTEMS[self.sys_platform],
            "platform_version": "",
            "python_full_version": self.full_version,
            "python_version": ".".join(map(str, self.version_info)),
            "sys_platform": self.sys_platform,
            "extra": "",
        }

    def fits(self, marker: str | Marker | None, extras: Iterable[str] = ()) -> bool:
        """Evaluate a marker here; a marker on extras holds where one of the given extras makes it hold."""
        if not marker:
            return True
        parsed = marker if isinstance(marker, Marker) else Marker(marker)
        return any(parsed.evaluate({**self.environment, "extra": extra}) for extra in ("", *extras))

    def fits_python(self, specifier: str | None) -> bool:
        """Tell whether a Requires-Python specifier takes the interpreter."""
        return not specifier or SpecifierSet(specifier).contains(self.full_version)

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags, best first."""
        if self.sys_platform == "win32":
            return (f"win_{self.platform_machine.lower()}",)
        if self.sys_platform == "darwin":
            return tuple(mac_platforms(self.macos, self.platform_machine))
        oldest = 5 if self.platform_machine in {"x86_64", "i686"} else 17
        found = []
        for minor in range(self.glibc, oldest - 1, -1):
            found.append(f"manylinux_2_{minor}_{self.platform_machine}")
            if minor in MANYLINUX_ALIASES:
                found.append(f"{MANYLINUX_ALIASES[minor]}_{self.platform_machine}")
        return (*found, f"linux_{self.platform_machine}")

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """Every tag that an installer would take here."""
        version = self.version_info
        plain = f"cp{version[0]}{version[1]}"
        # Given explicitly, since packaging would otherwise look at the interpreter that runs the tests.
        abi = plain + ("t" if self.free_threaded else "m" if version < (3, 8) else "")
        return frozenset(
            (
                *cpython_tags(version, [abi], self.platforms),
                *compatible_tags(version, plain, self.platforms),
            )
        )

    def takes(self, filename: str) -> bool:
        """Tell whether an installer would take a wheel by its file name; never for an sdist."""
        return filename.endswith(".whl") and not self.tags.isdisjoint(parse_wheel_filename(filename)[3])


LINUX_X86_64 = Target("linux-x86_64", "linux", "x86_64")
LINUX_AARCH64 = Target("linux-aarch64", "linux", "aarch64")
MACOS_ARM64 = Target("macos-arm64", "darwin", "arm64")
MACOS_X86_64 = Target("macos-x86_64", "darwin", "x86_64")
WINDOWS_AMD64 = Target("windows-amd64", "win32", "AMD64")
WINDOWS_ARM64 = Target("windows-arm64", "win32", "ARM64")

TARGETS = (LINUX_X86_64, LINUX_AARCH64, MACOS_ARM64, MACOS_X86_64, WINDOWS_AMD64)
