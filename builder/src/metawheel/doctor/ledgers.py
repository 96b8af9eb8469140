"""What the committed ledgers say of upstream's files, where a packages/ folder is at hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from metawheel.doctor.targets import Target
from metawheel.model import UpstreamFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgers:
    """Upstream's files by project and version, by file name and by sha256."""

    by_version: Mapping[tuple[str, Version], tuple[UpstreamFile, ...]] = field(default_factory=dict)
    by_filename: Mapping[str, tuple[UpstreamFile, ...]] = field(default_factory=dict)
    by_sha256: Mapping[str, UpstreamFile] = field(default_factory=dict)

    def wheels(self, project: str, version: Version) -> tuple[UpstreamFile, ...]:
        """The files of exactly this version, local label included."""
        return self.by_version.get((project, version), ())

    def wheel_for(self, project: str, version: Version, target: Target) -> UpstreamFile | None:
        return next((file for file in self.wheels(project, version) if target.takes(file.filename)), None)


def ledgers_of(files: Iterable[UpstreamFile]) -> Ledgers:
    """Look-up tables of ledgers' files; what upstream no longer lists is left out."""
    by_version: dict[tuple[str, Version], list[UpstreamFile]] = defaultdict(list)
    by_filename: dict[str, list[UpstreamFile]] = defaultdict(list)
    by_sha256: dict[str, UpstreamFile] = {}
    for file in files:
        by_filename[file.filename].append(file)
        if file.sha256 is not None:
            by_sha256[file.sha256] = file
        if file.gone is None:
            by_version[file.project, file.name.version].append(file)
    return Ledgers(
        by_version={key: tuple(found) for key, found in by_version.items()},
        by_filename={key: tuple(found) for key, found in by_filename.items()},
        by_sha256=by_sha256,
    )


def load_ledgers(packages: Path, projects: Iterable[str]) -> Ledgers:
    """The ledgers of the families that record any of the projects; raises FamilyError, LedgerError."""
    from metawheel.family import load_families
    from metawheel.ledger import load

    wanted = set(projects)
    families = [family for family in load_families(packages) if wanted & family.listed]
    return ledgers_of(file for family in families if family.ledger_path.exists() for file in load(family.ledger_path))
