"""Small families and ledgers, in memory and as folders, and independent readers of what is made from them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag

from metawheel.build import Built, build
from metawheel.family import FAMILY_FILE, Family, load_families, load_family
from metawheel.inputs import Options, make_plan
from metawheel.ledger import save
from metawheel.model import UpstreamFile, Wrapper
from metawheel.plan import Plan
from metawheel.upstream.http import Fetcher
from metawheel.upstream.mirrors import Mirror

REPOSITORY = Path(__file__).parents[2]
PACKAGES = REPOSITORY / "packages"
# No property has a time limit: a busy machine is not a fault.
untimed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

UPSTREAM = "https://upstream.invalid/whl/"

TORCH = f"""\
project = "torch"
summary = "PyTorch"
headline = "torch-cpu"
plain = "cpu"

[[source]]
name = "up"
kind = "simple"
url = "{UPSTREAM}{{project}}/"
root = "{UPSTREAM}"
projects = ["torch", "torchvision"]
folders = {{ "" = "cpu" }}

[[wrapper]]
name = "torch-cpu"
backend = 'cpu'
view = "{{backend}}"
summary = "PyTorch {{version}} for the CPU"

[[wrapper]]
name = "torch-{{backend}}"
backend = 'cu\\d+'
view = "{{backend}}"
fallback = ["darwin"]
summary = "PyTorch {{version}} for {{backend}}"

[[wrapper]]
name = "torch-cuda"
newest-of = "torch-{{backend}}"
summary = "PyTorch {{version}} for the newest CUDA"

[[companion]]
project = "torchvision"
extra = "vision"
"""

JAXLIB = """\
project = "jaxlib"
summary = "JAX"
headline = "jaxlib-cuda12"
plain = "cpu"

[[source]]
name = "pypi"
kind = "pypi"
projects = ["jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"]
folders = { "" = "cpu" }

[[plugin]]
backend = "cuda12"
requires = ["jax-cuda12-plugin[with-cuda]", "jax-cuda12-pjrt"]
systems = ["linux"]

[[wrapper]]
name = "jaxlib-{backend}"
backend = 'cuda\\d+'
view = "{backend}"
fallback = ["darwin"]
summary = "jaxlib {version} for {backend}"
"""


def sha256(text: str) -> str:
    """A made-up but fixed sha256."""
    return hashlib.sha256(text.encode()).hexdigest()


def wheel(
    filename: str,
    folder: str | None = "",
    *,
    hashed: bool = True,
    metadata: str | None = None,
    size: int | None = None,
    yanked: str | None = None,
    requires: Sequence[str] | None = None,
    requires_python: str | None = None,
    source: str = "up",
) -> UpstreamFile:
    """An upstream wheel; without a folder it is one that PyPI hosts."""
    at = "" if folder is None else f"{folder}/" if folder else ""
    return UpstreamFile(
        filename=filename,
        source=source,
        url=None if folder is None else f"{UPSTREAM}{at}{quote(filename)}",
        sha256=sha256(at + filename) if hashed else None,
        sha256_from="page" if hashed else None,
        metadata=metadata,
        size=size,
        yanked=yanked,
        requires=None if requires is None else tuple(requires),
        requires_python=requires_python,
        first_seen="2026-11-30",
    )


def torch_files(release: str = "1.13.1", vision: str = "0.14.1") -> list[UpstreamFile]:
    """A release with cpu, cu116 and cu117 builds and a companion; interpreters and platforms form no rectangle."""
    labelled = ("cp310-cp310-linux_x86_64", "cp311-cp311-linux_x86_64", "cp310-cp310-win_amd64")
    plain = ("cp310-none-macosx_11_0_arm64", "cp310-none-macosx_10_9_x86_64")
    return [
        wheel(f"{project}-{version}{label}-{tags}.whl", folder, requires=requires)
        for project, version, requires in (("torch", release, None), ("torchvision", vision, [f"torch=={release}"]))
        for label, folder, all_tags in (
            ("+cpu", "cpu", labelled),
            ("+cu116", "cu116", labelled),
            ("+cu117", "cu117", labelled),
            ("", "cpu", plain),
        )
        for tags in all_tags
    ]


def jaxlib_files(release: str = "0.5.0") -> list[UpstreamFile]:
    """A release of the plugin era; PyPI hosts all of it."""
    names = [f"jaxlib-{release}-cp311-cp311-{tag}.whl" for tag in ("manylinux2014_x86_64", "macosx_11_0_arm64")]
    names.append(f"jax_cuda12_plugin-{release}-cp311-cp311-manylinux2014_x86_64.whl")
    names.append(f"jax_cuda12_pjrt-{release}-py3-none-manylinux2014_x86_64.whl")
    return [wheel(name, None, source="pypi", size=1000, requires_python=">=3.10") for name in names]


def write_family(folder: Path, text: str, files: Iterable[UpstreamFile]) -> Family:
    """Lay a family's folder down, with its ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FAMILY_FILE).write_text(text, encoding="utf-8")
    family = load_family(folder)
    save(family.ledger_path, files)
    return family


def families_in(packages: Path) -> tuple[Family, ...]:
    """A small torch family and a small JAX family, both as folders."""
    write_family(packages / "torch", TORCH, [*torch_files(), *torch_files("1.12.1", "0.13.1")])
    write_family(packages / "jaxlib", JAXLIB, jaxlib_files())
    return load_families(packages)


def pypi_folder(folder: Path, files: Iterable[UpstreamFile]) -> Path:
    """PyPI's pages for files that it hosts, as a folder to mirror them from."""
    pages: dict[str, list[str]] = {}
    for file in files:
        link = f'<a href="https://files.invalid/{file.filename}#sha256={file.sha256}">{file.filename}</a>'
        pages.setdefault(file.project, []).append(link)
    for project, links in pages.items():
        (folder / project).mkdir(parents=True, exist_ok=True)
        body = f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>"
        (folder / project / "index.html").write_text(body, encoding="utf-8")
    return folder


def build_site(packages: Path, site: Path, options: Options | None = None, *, pypi: Path | None = None) -> Built:
    """Build a site of the families in a folder; what PyPI hosts is asked for in `pypi`, or not at all."""

    def fetcher() -> Fetcher:
        return Fetcher([Mirror.parse(f"pypi={pypi}/")])

    options = options or Options(offline=pypi is None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METAWHEEL_CACHE", str(packages.parent / "cache"))
        return build(load_families(packages), site, options, fetcher, lambda done, total: None)


@functools.cache
def committed_plan(flavour: str = "pinned") -> Plan:
    """The plan of the committed families and ledgers."""
    return make_plan(load_families(PACKAGES), Options(flavour=flavour))


def wrapper_of(plan: Plan, name: str, version: str) -> Wrapper:
    """The one wrapper with this name and version."""
    (found,) = (wrapper for wrapper in plan.wrappers if (wrapper.name, wrapper.version) == (name, version))
    return found


SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows", "freebsd14": "FreeBSD"}
MACHINES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64", "x86", "i686", "s390x", "ppc64le", "riscv64", "armv7l")


def environment(sys_platform: str, machine: str, python: str = "3.11") -> dict[str, str]:
    """A whole marker environment."""
    values: dict[str, object] = {
        **default_environment(),
        "sys_platform": sys_platform,
        "platform_machine": machine,
        "platform_system": SYSTEMS[sys_platform],
        "os_name": "nt" if sys_platform == "win32" else "posix",
        "python_version": python,
        "python_full_version": f"{python}.1",
    }
    return {key: str(value) for key, value in values.items()} | {"extra": ""}


@functools.cache
def environments(python: str = "3.11") -> tuple[dict[str, str], ...]:
    """Every kind of environment that markers on the platform can tell apart."""
    return tuple(environment(system, machine, python) for system in SYSTEMS for machine in MACHINES)


def holds(line: str) -> frozenset[int]:
    """The environments, by number, in which a requirement line holds: all platforms, three Pythons."""
    marker = Requirement(line).marker
    return _true_in("" if marker is None else str(marker))


@functools.cache
def _true_in(text: str) -> frozenset[int]:
    where = [item for python in ("3.8", "3.11", "3.13") for item in environments(python)]
    marker = Marker(text) if text else None
    return frozenset(n for n, item in enumerate(where) if marker is None or marker.evaluate(item))


def pins(lines: Iterable[str], project: str, where: dict[str, str]) -> list[str]:
    """What the lines say of a project in an environment, without markers."""
    parsed = [line for line in map(Requirement, lines) if line.name == project]
    return [f"{line.name}{line.specifier}" for line in parsed if line.marker is None or line.marker.evaluate(where)]


_MINORS = (*((minor, "m") for minor in (6, 7)), *((n, "") for n in range(8, 16)), *((n, "t") for n in range(13, 16)))
INTERPRETERS = tuple((3, minor, f"cp3{minor}{kind}") for minor, kind in _MINORS)


def reached(tags: Iterable[Tag]) -> set[tuple[str, str]]:
    """The CPythons (by ABI) and platform tags that could install a wheel with one of these tags: packaging's word."""
    wanted = set(tags)
    found = set()
    for platform in {tag.platform for tag in wanted}:
        for major, minor, abi in INTERPRETERS:
            if not wanted.isdisjoint(_accepted(major, minor, abi, platform)):
                found.add((abi, platform))
    return found


@functools.cache
def _accepted(major: int, minor: int, abi: str, platform: str) -> frozenset[Tag]:
    own = cpython_tags((major, minor), [abi], [platform])
    return frozenset([*own, *compatible_tags((major, minor), f"cp{major}{minor}", [platform])])


def expanded(tag_sets: Iterable[str]) -> set[Tag]:
    """Compressed tag sets as single tags."""
    return {tag for tag_set in tag_sets for tag in parse_tag(tag_set)}


_TAGS = ("linux_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "macosx_10_9_universal2", "win_amd64")
_PYTHONS = ("cp39-cp39", "cp310-cp310", "cp312-none", "cp313-cp313", "cp313-cp313t", "cp314-cp314t", "cp39-abi3")


@st.composite
def ledgers(draw: st.DrawFn) -> list[UpstreamFile]:
    """Ledgers of torch and torchvision: builds x platforms x interpreters, some unhashed, some yanked."""
    found = {}
    for _ in range(draw(st.integers(1, 14))):
        release = draw(st.sampled_from(["1.0", "2.0"]))
        project = draw(st.sampled_from(["torch", "torch", "torchvision"]))
        build = draw(st.sampled_from(["", "+cpu", "+cu116", "+cu117"]))
        folder = build[1:] or draw(st.sampled_from(["", "cpu", "cu102"]))
        python, platform = draw(st.sampled_from(_PYTHONS)), draw(st.sampled_from(_TAGS))
        file = wheel(
            f"{project}-{release}{build}-{python}-{platform}.whl",
            folder,
            hashed=draw(st.integers(0, 3)) > 0,
            yanked=draw(st.sampled_from([None, None, None, "broken"])),
            requires=[f"torch=={release}"] if project == "torchvision" else None,
            requires_python=draw(st.sampled_from([None, ">=3.9"])),
        )
        found[file.filename, folder] = file
    return draw(st.permutations(list(found.values())))
