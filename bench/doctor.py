"""How long `metawheel doctor` takes on a large lock: `python bench/doctor.py [packages]`.

Writes a uv.lock as uv lays it out, torch and its companions somewhere in the graph, and times the whole command in a
fresh process: by the clock, and the processor's time, which a busy machine does not change.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PLATFORMS = (
    *("macosx_10_9_x86_64", "macosx_11_0_arm64", "manylinux_2_17_x86_64.manylinux2014_x86_64", "win_amd64"),
    *("manylinux_2_17_aarch64.manylinux2014_aarch64", "musllinux_1_2_x86_64"),
)
RUNS = 5


def lock(packages: int) -> Iterator[str]:
    """The lines of a lock: each package requires three later ones, two in five have wheels for each platform."""
    chance = random.Random(1)  # noqa: S311
    yield 'version = 1\nrevision = 3\nrequires-python = ">=3.10"\n'
    yield '[[package]]\nname = "project"\nversion = "1"\nsource = { virtual = "." }'
    yield 'dependencies = [\n    { name = "package-0" },\n    { name = "torch" },\n]\n'
    yield from _package("torch", "2.9.1", ["package-1"], _wheels("torch", "2.9.1"))
    for number in range(packages):
        name = f"package-{number}"
        later = [f"package-{chance.randrange(number + 1, packages)}" for _ in range(3)] if number < packages - 3 else []
        pure = chance.random() < 0.6
        wheels = [f"{name.replace('-', '_')}-1.2.3-py3-none-any.whl"] if pure else _wheels(name, "1.2.3")
        yield from _package(name, "1.2.3", later, wheels)


def _wheels(name: str, version: str) -> list[str]:
    stem = f"{name.replace('-', '_')}-{version}"
    return [f"{stem}-cp3{m}-cp3{m}-{platform}.whl" for m in (10, 11, 12, 13) for platform in PLATFORMS]


def _package(name: str, version: str, requires: list[str], wheels: list[str]) -> Iterator[str]:
    yield f'[[package]]\nname = "{name}"\nversion = "{version}"'
    yield 'source = { registry = "https://index.example.org/simple" }'
    if requires:
        lines = [f'    {{ name = "{other}", marker = "sys_platform == \'linux\'" }},' for other in requires[:1]]
        lines += [f'    {{ name = "{other}" }},' for other in requires[1:]]
        yield "\n".join(["dependencies = [", *lines, "]"])
    yield f"sdist = {_file(f'{name}-{version}.tar.gz')}"
    yield "\n".join(["wheels = [", *(f"    {_file(wheel)}," for wheel in wheels), "]\n"])


def _file(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    url = f"https://files.example.org/packages/{digest[:2]}/{digest[2:4]}/{digest[4:]}/{name}"
    return f'{{ url = "{url}", hash = "sha256:{digest}", size = 123456, upload-time = "2026-01-01T00:00:00Z" }}'


def main() -> None:
    packages = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(lock(packages))
        Path(folder, "uv.lock").write_text(text, encoding="utf-8")
        print(f"{packages} packages, {text.count('.whl')} wheels, {len(text) / 1e6:.1f} MB")  # noqa: T201
        command = [sys.executable, "-m", "metawheel", "doctor", folder, "--json"]
        for _ in range(RUNS):
            start, used = time.perf_counter(), _processor_time()
            done = subprocess.run(command, check=False, capture_output=True)
            if done.returncode > 1:
                sys.exit(done.stderr.decode())
            print(f"{time.perf_counter() - start:.2f} s, {_processor_time() - used:.2f} s of a processor")  # noqa: T201


def _processor_time() -> float:
    used = os.times()
    return used.children_user + used.children_system


if __name__ == "__main__":
    main()
