"""packse's scenarios: fetched once from PyPI, and written as a site by our own page renderer."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import requests
from packaging.requirements import Requirement
from pypi_simple import PyPISimple

from metawheel.render import Link, project_pages, root_pages
from tests.clients import envs
from tests.fakes.pypi import FakePyPI
from tests.fakes.wheels import WheelSpec, build_wheel

VERSION = "0.3.59"
SDIST = f"packse-{VERSION}.tar.gz"
SHA256 = "718bcca5dd1e9321f5c2918d5975ffd772f0c3b150cf29b03979677a003d73d2"


@dataclass(frozen=True, eq=False)
class Scenario:
    """Packages, what is asked of them, and what a client must make of it; names are unique over all scenarios."""

    name: str
    folder: str
    requires: tuple[str, ...]
    satisfiable: bool
    expected: dict[str, str]
    wheels: dict[str, tuple[bool, WheelSpec]] = field(repr=False)  # file name → yanked, wheel
    python: str = "3.12"
    universal: bool = False
    prereleases: bool = False


def fetch() -> bytes:
    """The sdist that carries the scenarios, kept between runs; raises requests.RequestException."""
    kept = envs.cache_root() / SDIST
    if not kept.exists() or hashlib.sha256(kept.read_bytes()).hexdigest() != SHA256:
        with PyPISimple() as client:
            page = client.get_project_page("packse", timeout=30)
            (url,) = (package.url for package in page.packages if package.filename == SDIST)
        reply = requests.get(url, timeout=120)
        reply.raise_for_status()
        assert hashlib.sha256(reply.content).hexdigest() == SHA256
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(reply.content)
    return kept.read_bytes()


def scenarios(sdist: bytes, folders: Iterable[str]) -> Iterator[Scenario]:
    """The scenarios in some folders that an index of wheels can be judged by."""
    wanted = set(folders)
    with tarfile.open(fileobj=io.BytesIO(sdist)) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            path = PurePosixPath(member.name)
            if path.suffix == ".toml" and path.parent.parent.name == "scenarios" and path.parent.name in wanted:
                file = archive.extractfile(member)
                assert file is not None
                data = tomllib.loads(file.read().decode())
                if applies(data):
                    yield _scenario(data, path.parent.name)


def applies(data: dict[str, Any]) -> bool:
    """Whether wheels alone decide a scenario: nothing is to be had, or built, from a source distribution only."""
    options = data.get("resolver_options", {})
    versions = [facts for package in data.get("packages", {}).values() for facts in package["versions"].values()]
    alone = all(v.get("wheel", True) and not (v.get("wheel_tags") and v.get("sdist", True)) for v in versions)
    unusual = {"no_binary", "no_build", "required_environments"} & set(options)
    return alone and not unusual and not data.get("environment", {}).get("additional_python")


def _scenario(data: dict[str, Any], folder: str) -> Scenario:
    prefix = data["name"]
    options, environment, expected = (data.get(key, {}) for key in ("resolver_options", "environment", "expected"))
    wheels = {}
    for name, package in data.get("packages", {}).items():
        for version, facts in package["versions"].items():
            for spec in _wheels(prefix, name, version, facts):
                wheels[spec.filename] = (facts.get("yanked", False), spec)
    return Scenario(
        name=prefix,
        folder=folder,
        requires=tuple(_renamed(line, prefix) for line in data["root"].get("requires", ())),
        satisfiable=expected["satisfiable"],
        expected={f"{prefix}-{name}": version for name, version in expected.get("packages", {}).items()},
        wheels=wheels,
        python=options.get("python") or environment.get("python", "3.12"),
        universal=options.get("universal", False),
        prereleases=options.get("prereleases", False),
    )


def _renamed(line: str, prefix: str, extra: str = "") -> str:
    requirement = Requirement(line)
    requirement.name = f"{prefix}-{requirement.name}"
    text = str(requirement)
    if not extra:
        return text
    requirement_text, _, marker = text.partition(";")
    condition = f"({marker.strip()}) and " if marker else ""
    return f'{requirement_text.strip()} ; {condition}extra == "{extra}"'


def _wheels(prefix: str, name: str, version: str, facts: dict[str, Any]) -> Iterator[WheelSpec]:
    requires = [_renamed(line, prefix) for line in facts.get("requires", ())]
    extras = facts.get("extras", {})
    for extra, lines in extras.items():
        requires += [_renamed(line, prefix, extra) for line in lines]
    distribution = re.sub(r"[-_.]+", "_", f"{prefix}-{name}")
    for tags in facts.get("wheel_tags") or ["py3-none-any"]:
        yield WheelSpec(
            f"{distribution}-{version}-{tags}.whl",
            tuple(requires),
            facts.get("requires_python", ">=3.12"),
            tuple(extras),
        )


def publish(found: Iterable[Scenario], server: FakePyPI) -> None:
    """Publish the same wheels on an index whose pages are not by our renderer."""
    for scenario in found:
        for filename, (yanked, spec) in scenario.wheels.items():
            _, version, tags = filename.removesuffix(".whl").split("-", 2)
            server.add(
                spec.name,
                version,
                requires=spec.requires,
                requires_python=spec.requires_python,
                extras=spec.extras,
                tags=tags,
                yanked="yanked" if yanked else None,
            )


def write_site(root: Path, found: Iterable[Scenario]) -> Path:
    """Write every scenario's wheels, with pages by our renderer, as one site."""
    links: dict[str, list[Link]] = {}
    (root / "files").mkdir(parents=True)
    for scenario in found:
        for filename, (yanked, spec) in scenario.wheels.items():
            built = build_wheel(spec)
            (root / "files" / filename).write_bytes(built.data)
            (root / "files" / f"{filename}.metadata").write_bytes(built.metadata)
            link = Link(
                filename=filename,
                url=f"../../files/{filename}",
                sha256=built.sha256,
                size=len(built.data),
                requires_python=spec.requires_python,
                yanked="" if yanked else None,
                metadata=built.metadata_sha256,
            )
            links.setdefault(spec.name, []).append(link)
    pages = root_pages(links)
    for project, items in links.items():
        pages |= {f"{project}/{name}": page for name, page in project_pages(project, items).items()}
    for path, content in pages.items():
        place = root / "simple" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return root
