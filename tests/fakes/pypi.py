"""A tiny stand-in for PyPI: a simple index, in HTML and JSON, of small wheels made on the spot."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.fakes.httpd import NOT_FOUND, LoopbackServer, Reply
from tests.fakes.site import SIMPLE_JSON, prefers_json
from tests.fakes.wheels import BuiltWheel, WheelSpec, build_wheel


class FakePyPI(LoopbackServer):
    """Serves `simple/` and `files/`; `metadata` switches PEP 658 off."""

    def __init__(self, *, metadata: bool = True, as_json: bool = True) -> None:
        """Start with no project."""
        super().__init__()
        self.metadata = metadata
        self.as_json = as_json
        self._projects: dict[str, dict[str, BuiltWheel]] = {}
        self._yanked: dict[str, str] = {}

    @property
    def simple(self) -> str:
        """The index URL, with a slash at its end."""
        return self.url + "simple/"

    def add(
        self,
        name: str,
        version: str,
        *,
        requires: Iterable[str] = (),
        requires_python: str | None = None,
        extras: Iterable[str] = (),
        tags: str = "py3-none-any",
        yanked: str | None = None,
        padding: int = 0,
    ) -> BuiltWheel:
        """Publish a wheel."""
        filename = f"{re.sub(r'[-_.]+', '_', name)}-{version}-{tags}.whl"
        built = build_wheel(WheelSpec(filename, tuple(requires), requires_python, tuple(extras), padding=padding))
        self._projects.setdefault(built.spec.name, {})[filename] = built
        if yanked is not None:
            self._yanked[filename] = yanked
        return built

    def add_missing(self, lines: Iterable[str], *, skip: Iterable[str] = ()) -> None:
        """Publish a pure stand-in for each requirement line that nothing here satisfies yet."""
        left_out = {canonicalize_name(name) for name in skip}
        for line in lines:
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if requirement.url or name in left_out:
                continue
            if not any(requirement.specifier.contains(found) for found in self.versions(name)):
                version = satisfying_version(requirement.specifier)
                self.add(name, version, extras=sorted(requirement.extras))

    def versions(self, name: str) -> tuple[str, ...]:
        """The published versions of a project, oldest first."""
        found = {built.spec.version for built in self._projects.get(canonicalize_name(name), {}).values()}
        return tuple(str(version) for version in sorted(found))

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Serve a page, a wheel or a sidecar."""
        match path.strip("/").split("/"):
            case ["simple"]:
                return self._page(None, headers)
            case ["simple", name] if canonicalize_name(name) in self._projects:
                return self._page(canonicalize_name(name), headers)
            case ["files", name, filename]:
                built = self._projects.get(name, {}).get(filename.removesuffix(".metadata"))
                if built is None or (filename.endswith(".metadata") and not self.metadata):
                    return NOT_FOUND
                if filename.endswith(".metadata"):
                    return Reply(built.metadata)
                return Reply(built.data, ranges=True)
        return NOT_FOUND

    def _page(self, name: str | None, headers: Mapping[str, str]) -> Reply:
        if self.as_json and prefers_json(headers.get("accept", "")):
            body = self._json_root() if name is None else self._json_project(name)
            return Reply(json.dumps(body).encode(), SIMPLE_JSON)
        if name is None:
            links = [f'<a href="/simple/{project}/">{project}</a>' for project in sorted(self._projects)]
        else:
            links = [self._anchor(name, filename) for filename in sorted(self._projects[name])]
        page = "<!DOCTYPE html><html><body>\n" + "<br/>\n".join(links) + "\n</body></html>\n"
        return Reply(page.encode(), "text/html; charset=utf-8")

    def _anchor(self, name: str, filename: str) -> str:
        built = self._projects[name][filename]
        attributes = {}
        if built.spec.requires_python:
            attributes["data-requires-python"] = built.spec.requires_python
        if filename in self._yanked:
            attributes["data-yanked"] = self._yanked[filename]
        if self.metadata:
            attributes["data-core-metadata"] = f"sha256={built.metadata_sha256}"
        said = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
        return f'<a href="/files/{name}/{filename}#sha256={built.sha256}"{said}>{filename}</a>'

    def _json_root(self) -> dict[str, object]:
        return {
            "meta": {"api-version": "1.1"},
            "projects": [{"name": name} for name in sorted(self._projects)],
        }

    def _json_project(self, name: str) -> dict[str, object]:
        files = []
        for filename, built in sorted(self._projects[name].items()):
            entry: dict[str, object] = {
                "filename": filename,
                "url": f"{self.url}files/{name}/{filename}",
                "hashes": {"sha256": built.sha256},
                "size": len(built.data),
                "yanked": self._yanked.get(filename, False),
            }
            if built.spec.requires_python:
                entry["requires-python"] = built.spec.requires_python
            if self.metadata:
                entry["core-metadata"] = {"sha256": built.metadata_sha256}
            files.append(entry)
        meta = {"api-version": "1.1"}
        return {"meta": meta, "name": name, "versions": list(self.versions(name)), "files": files}


def satisfying_version(specifier: SpecifierSet) -> str:
    """Pick a version that a specifier accepts, the highest of a few that its clauses suggest."""
    candidates = {"0.1", "1.0"}
    for clause in specifier:
        named = clause.version.removesuffix(".*")
        candidates |= {named, f"{named}.1", f"{named}.post1"}
    fitting = [Version(version) for version in candidates if specifier.contains(version)]
    if not fitting:
        raise ValueError(f"no version found that satisfies {specifier}")
    named_by_a_clause = [v for v in fitting if any(c.version == str(v) for c in specifier)]
    return str(max(named_by_a_clause or fitting))
