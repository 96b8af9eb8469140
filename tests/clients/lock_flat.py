"""Reading the flat forms: requirement lines with markers, and pip's installation report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.clients.lock_base import Lock, Locked, LockError, Scope
from tests.clients.lock_pipfile import named_by_hash

HASH = re.compile(r"--hash=(\S+)")


class RequirementsLock(Lock):
    """Pinned requirement lines, as `uv pip compile --universal` and pip-tools write them."""

    def __init__(self, text: str, known: Mapping[str, str] | None = None) -> None:
        """Parse the lines; `known` gives the file name of each sha256, without it no files are known."""
        joined = text.replace("\\\n", " ")
        lines = (line.split(" #")[0].strip() for line in joined.splitlines())
        self._lines = [
            (Requirement(line.split(" --hash")[0].strip()), named_by_hash(HASH.findall(line), known))
            for line in lines
            if line and line[0] not in "#-"
        ]

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        for line, files in self._lines:
            if not scope.fits(line.marker):
                continue
            name = canonicalize_name(line.name)
            if line.url:
                file = unquote(urlsplit(line.url).path.rsplit("/", 1)[-1])
                yield Locked(name, str(parse_wheel_filename(file)[1]), (file,), source=line.url)
                continue
            pins = [item for item in line.specifier if item.operator == "=="]
            if len(pins) != 1:
                raise LockError(f"{line} is no pin")
            yield Locked(name, pins[0].version, files)


class ReportLock(Lock):
    """A report of `pip install --report`, which speaks of the one platform it was made on."""

    def __init__(self, text: str) -> None:
        """Parse the report."""
        data = json.loads(text)
        self._environment: dict[str, str] = data["environment"]
        self._items = [
            (item["metadata"]["name"], item["metadata"]["version"], item["download_info"]["url"])
            for item in data["install"]
        ]

    def _packages(self, scope: Scope) -> Iterable[Locked]:
        for key in ("sys_platform", "platform_machine", "python_version"):
            if self._environment[key] != scope.target.environment[key]:
                raise LockError(f"the report is for {key} {self._environment[key]}")
        for name, version, url in self._items:
            file = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
            yield Locked(canonicalize_name(name), version, (file,), source=url)
