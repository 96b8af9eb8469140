"""What a site is made from: the families, their ledgers and records, and what the build is asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hatchling.__about__ import __version__ as hatchling_version

from metawheel import released
from metawheel.family import FAMILY_FILE, Family
from metawheel.files import sha256_of
from metawheel.ledger import load
from metawheel.plan import Plan, plan
from metawheel.released import RELEASED_FILE

if TYPE_CHECKING:
    from metawheel.upstream.mirrors import Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a build is asked for."""

    flavour: str = "pinned"
    allow_unhashed: bool = False
    mirrors: tuple[Mirror, ...] = ()
    offline: bool = False
    url: str = ""  # of the site, where it is known


def make_plan(families: Iterable[Family], options: Options, *, name: str | None = None) -> Plan:
    """The plan that families and their ledgers give; with a wrapper's name, of the families that may emit it."""
    families = tuple(families)
    asked = {family.name for family in families if name is not None and family.may_emit(name)}
    if asked:
        # Which builds there are is for all ledgers to say that have the same projects.
        projects = {project for family in families if family.name in asked for project in family.listed}
        families = tuple(family for family in families if projects & family.listed)
    return plan(
        families,
        {family.name: load(family.ledger_path) for family in families},
        flavour=options.flavour,
        allow_unhashed=options.allow_unhashed,
        released={family.name: released.load(family) for family in families},
        name=name,
    )


def digest(families: Iterable[Family], options: Options) -> str:
    """A digest of all that a site is made from, this program too; PyPI's answers apart: files do not move there."""
    found = hashlib.sha256()
    program = hashlib.sha256()
    here = Path(__file__).parent
    # What makes a site lies in these.
    parts = [here.glob("*.py"), (here / "people").glob("*.py"), (here / "templates").rglob("*")]
    for path in sorted([*(path for part in parts for path in part), here / "upstream" / "mirrors.py"]):
        # What an installer compiled has the time of that in it.
        program.update(path.read_bytes() if path.is_file() and path.suffix != ".pyc" else b"")
    facts = [program.hexdigest(), hatchling_version, options.flavour, str(options.allow_unhashed), options.url]
    facts += [f"{mirror.origin}={mirror.target}" for mirror in options.mirrors]
    found.update(json.dumps(facts).encode())
    for family in sorted(families, key=lambda family: family.name):
        for path in (family.folder / FAMILY_FILE, family.ledger_path, family.folder / RELEASED_FILE):
            found.update(f"{family.name} {path.name} {sha256_of(path)}".encode())
    return found.hexdigest()
