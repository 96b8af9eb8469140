"""The machine as the probes see it: files, programs, NVML. Only here is it touched."""

from __future__ import annotations

import glob
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

TIMEOUT = 20  # seconds; nvidia-smi on a machine with many GPUs and no persistence daemon takes several
FILE_LIMIT = 1024 * 1024  # bytes; no file that is probed comes near

# Where drivers put their programs without putting them on the PATH.
_ELSEWHERE = {
    "linux": ("/usr/lib/wsl/lib", "/opt/rocm/bin"),
    "win32": (r"C:\Windows\System32", r"C:\Program Files\NVIDIA Corporation\NVSMI"),
    "darwin": ("/usr/sbin",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a program printed, stdout and stderr together, and how it ended."""

    status: int | None  # None: it did not end in time
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """What NVML says: the driver, and name and compute capability of each GPU."""

    driver: str
    gpus: tuple[tuple[str, str], ...]


class System(Protocol):
    """A machine that can be probed."""

    @property
    def sys_platform(self) -> str:
        """As `sys.platform`."""

    @property
    def machine(self) -> str:
        """As `platform.machine()`."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none that can be read."""

    def find(self, pattern: str) -> Sequence[str]:
        """The paths that match a pattern of `glob`, sorted."""

    def run(self, *command: str) -> Output | None:
        """Run a program; None where the machine does not have it."""

    def nvml(self) -> Nvml | str | None:
        """Ask NVML: its answer, its error, or None where nvidia-ml-py is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """This machine."""

    sys_platform: str = sys.platform
    machine: str = field(default_factory=platform.machine)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def read(self, path: str) -> str | None:
        try:
            with Path(path).open("rb") as file:
                return file.read(FILE_LIMIT).decode("utf-8", "replace")
        except OSError:
            return None

    def find(self, pattern: str) -> Sequence[str]:
        return sorted(glob.glob(pattern))

    def run(self, *command: str) -> Output | None:
        elsewhere = os.pathsep.join(_ELSEWHERE.get(self.sys_platform, ()))
        program = shutil.which(command[0]) or shutil.which(command[0], path=elsewhere)
        if program is None:
            return None
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.environ, "LC_ALL": "C"},
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Output(status=None, text=f"no answer in {TIMEOUT} s")
        except OSError as error:
            return Output(status=1, text=error.strerror or str(error))
        return Output(status=done.returncode, text=done.stdout.decode("utf-8", "replace"))

    def nvml(self) -> Nvml | str | None:
        try:
            import pynvml
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return str(error)
        try:
            handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
            return Nvml(
                driver=pynvml.nvmlSystemGetDriverVersion(),
                gpus=tuple(
                    (pynvml.nvmlDeviceGetName(gpu), "{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(gpu)))
                    for gpu in handles
                ),
            )
        except pynvml.NVMLError as error:
            return str(error)
        finally:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
