"""Rendering: each wrapper as the project that hatchling builds its wheels from. Pure."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any

import tomli_w
from hatchling.__about__ import __version__ as hatchling_version

from metawheel.coverage import coverage, markdown
from metawheel.model import Wrapper

METADATA_VERSION = "2.4"  # newer ones are refused by servers
TAG_VARIABLE = "METAWHEEL_TAG"
BUILD_HOOK = "hatch_build.py"

Tree = Mapping[str, str]  # file name → content


def render_project(wrapper: Wrapper) -> Tree:
    """The files of a wrapper's project."""
    return {
        "pyproject.toml": _pyproject(wrapper),
        "README.md": wrapper.readme if wrapper.readme is not None else _readme(wrapper),
        BUILD_HOOK: _template(BUILD_HOOK),
        "LICENSE": _template("LICENSE"),
    }


@functools.cache
def _template(name: str) -> str:
    return importlib.resources.files("metawheel").joinpath("templates", name).read_text(encoding="utf-8")


def _pyproject(wrapper: Wrapper) -> str:
    project: dict[str, Any] = {
        "name": wrapper.name,
        "version": wrapper.version,
        "description": wrapper.summary,
        "readme": "README.md",
        "requires-python": wrapper.requires_python,
        "license": "MIT",
        "license-files": ["LICENSE"],
        "dependencies": list(wrapper.requires),
    }
    if wrapper.extras:
        project["optional-dependencies"] = {extra: list(lines) for extra, lines in wrapper.extras}
    hatch: dict[str, Any] = {
        "build": {
            "targets": {
                "wheel": {
                    "bypass-selection": True,  # a wheel without modules
                    "core-metadata-version": METADATA_VERSION,
                    "hooks": {"custom": {"tags": list(wrapper.tags)}},
                },
                "sdist": {
                    "core-metadata-version": METADATA_VERSION,
                    "only-include": ["pyproject.toml", "README.md", BUILD_HOOK, "LICENSE"],
                },
            }
        }
    }
    if any(" @ " in line for line in _all_lines(wrapper)):
        hatch["metadata"] = {"allow-direct-references": True}
    document = {
        "build-system": {
            "requires": [f"hatchling=={hatchling_version}"],
            "build-backend": "hatchling.build",
        },
        "project": project,
        "tool": {"hatch": hatch},
    }
    head = "# Written by metawheel from family.toml and ledger.jsonl; do not edit.\n"
    return head + tomli_w.dumps(document, multiline_strings=False)


def _all_lines(wrapper: Wrapper) -> list[str]:
    return [*wrapper.requires, *(line for _, lines in wrapper.extras for line in lines)]


def _readme(wrapper: Wrapper) -> str:
    spec = f"{wrapper.name}=={wrapper.version}"
    parts = [
        f"# {wrapper.name}",
        f"{wrapper.summary}.",
        (
            "This is a wrapper: it holds no code. It requires the right upstream build for each platform, so that one"
            " lock file is right on all of them. Built by metawheel."
        ),
        "## What it installs",
        markdown(coverage(wrapper)),
        "On any other platform or interpreter it cannot be installed.",
        "## Use",
        (
            "Name the index that serves this wrapper as a source of it (metawheel's README shows the safe way for each"
            " client), then:"
        ),
        "\n".join(
            ["```", f"poetry add {spec}", f"uv add {spec}", f"pip install {spec}", "```"],
        ),
    ]
    if wrapper.extras:
        names = ",".join(extra for extra, _ in wrapper.extras)
        parts += [f"With its companions, built to fit: `{wrapper.name}[{names}]=={wrapper.version}`."]
    parts += ["## Requirement lines", "\n".join(["```", *_all_lines(wrapper), "```"])]
    return "\n\n".join(parts) + "\n"
