"""Locks of any size as uv, Poetry and PDM lay them out, torch among their packages, and a project for them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PLATFORMS = (
    *("macosx_10_9_x86_64", "macosx_11_0_arm64", "manylinux_2_17_x86_64.manylinux2014_x86_64", "win_amd64"),
    *("manylinux_2_17_aarch64.manylinux2014_aarch64", "musllinux_1_2_x86_64"),
)
PROJECT = """\
[project]
name = "project"
version = "1"
requires-python = ">=3.10"
dependencies = ["package-0", "torch"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A locked package: what it requires, and the names of its files."""

    name: str
    version: str
    requires: tuple[str, ...]
    files: tuple[str, ...]  # the source archive first


def packages(count: int) -> Iterator[Package]:
    """torch and so many more: each requires three that follow, and any later one; two in five have platform wheels."""
    chance = random.Random(1)  # noqa: S311
    yield _package("torch", "2.9.1", ("package-1",), pure=False)
    for number in range(count):
        later = set(range(3 * number + 1, min(3 * number + 4, count)))
        if number + 1 < count:
            later.add(chance.randrange(number + 1, count))
        requires = tuple(f"package-{other}" for other in sorted(later))
        yield _package(f"package-{number}", "1.2.3", requires, pure=chance.random() < 0.6)


def _package(name: str, version: str, requires: tuple[str, ...], *, pure: bool) -> Package:
    stem = f"{name.replace('-', '_')}-{version}"
    tags = (f"cp3{minor}-cp3{minor}-{platform}" for minor in (10, 11, 12, 13) for platform in PLATFORMS)
    wheels = (f"{stem}-{tag}.whl" for tag in (("py3-none-any",) if pure else tags))
    return Package(name=name, version=version, requires=requires, files=(f"{stem}.tar.gz", *wheels))


def uv_lock(count: int) -> Iterator[str]:
    """The lines of a uv.lock."""
    yield 'version = 1\nrevision = 3\nrequires-python = ">=3.10"\n'
    yield '[[package]]\nname = "project"\nversion = "1"\nsource = { virtual = "." }'
    yield 'dependencies = [\n    { name = "package-0" },\n    { name = "torch" },\n]\n'
    yield '[package.metadata]\nrequires-dist = [\n    { name = "package-0" },\n    { name = "torch" },\n]\n'
    for package in packages(count):
        yield f'[[package]]\nname = "{package.name}"\nversion = "{package.version}"'
        yield 'source = { registry = "https://index.example.org/simple" }'
        if package.requires:
            first, *rest = package.requires
            lines = [
                f'{{ name = "{first}", marker = "sys_platform == \'linux\'" }}',
                *(f'{{ name = "{it}" }}' for it in rest),
            ]
            yield "\n".join(["dependencies = [", *(f"    {line}," for line in lines), "]"])
        source, *wheels = package.files
        yield f"sdist = {_uv_file(source)}"
        yield "\n".join(["wheels = [", *(f"    {_uv_file(wheel)}," for wheel in wheels), "]\n"])


def _uv_file(name: str) -> str:
    digest = _digest(name)
    url = f"https://files.example.org/packages/{digest[:2]}/{digest[2:4]}/{digest[4:]}/{name}"
    return f'{{ url = "{url}", hash = "sha256:{digest}", size = 123456, upload-time = "2026-01-01T00:00:00Z" }}'


def poetry_lock(count: int) -> Iterator[str]:
    """The lines of a poetry.lock."""
    for package in packages(count):
        yield f'[[package]]\nname = "{package.name}"\nversion = "{package.version}"\ndescription = ""'
        yield 'optional = false\npython-versions = ">=3.8"\ngroups = ["main"]'
        yield from _files(package)
        if package.requires:
            first, *rest = package.requires
            yield f'[package.dependencies]\n{first} = {{version = "*", markers = "sys_platform == \\"linux\\""}}'
            yield "".join(f'{name} = "*"\n' for name in rest)
    yield f'[metadata]\nlock-version = "2.1"\npython-versions = ">=3.10"\ncontent-hash = "{_digest("content")}"'


def pdm_lock(count: int) -> Iterator[str]:
    """The lines of a pdm.lock."""
    yield '[metadata]\ngroups = ["default"]\nstrategy = ["inherit_metadata"]\nlock_version = "4.5.0"'
    yield f'content_hash = "sha256:{_digest("content")}"\n\n[[metadata.targets]]\nrequires_python = ">=3.10"\n'
    for package in packages(count):
        yield f'[[package]]\nname = "{package.name}"\nversion = "{package.version}"'
        yield 'requires_python = ">=3.8"\nsummary = ""\ngroups = ["default"]'
        if package.requires:
            yield "\n".join(["dependencies = [", *(f'    "{name}",' for name in package.requires), "]"])
        yield from _files(package)


def _files(package: Package) -> Iterator[str]:
    lines = (f'    {{file = "{name}", hash = "sha256:{_digest(name)}"}},' for name in package.files)
    yield "\n".join(["files = [", *lines, "]\n"])


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


LOCKS: Mapping[str, Callable[[int], Iterator[str]]] = {
    "uv.lock": uv_lock,
    "poetry.lock": poetry_lock,
    "pdm.lock": pdm_lock,
}


def write_project(folder: Path, lock: str, count: int) -> str:
    """A project with that lock; the lock's text."""
    folder.mkdir(parents=True)
    text = "\n".join(LOCKS[lock](count)) + "\n"
    (folder / lock).write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    return text
