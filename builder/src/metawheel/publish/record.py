"""Writing down what was published."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from packaging.metadata import parse_email

from metawheel.errors import PublishError
from metawheel.family import Family
from metawheel.files import sha256_of
from metawheel.model import Released
from metawheel.released import add, load
from metawheel.site import Manifest, SiteWrapper


def refuse_contradictions(site: Path, families: Iterable[Family]) -> None:
    """Raise PublishError where a site was built from other ledgers, or has a released wrapper in other wheels."""
    families = tuple(families)
    manifest = Manifest.of(site)
    ledgers = {family.name: sha256_of(family.ledger_path) for family in families}
    if others := sorted(name for name, sha256 in manifest.ledgers.items() if ledgers.get(name) != sha256):
        raise PublishError(
            f"{site}: was not built from the ledger of {', '.join(others)} as it is here, so that what is published "
            "could not be recorded; build the site again, or name the folder of its families (--packages)"
        )
    before = {(item.flavour, item.key): item.wheels for family in families for item in load(family)}
    wrong = [
        wrapper.key
        for wrapper in manifest.wrappers
        if before.get((wrapper.flavour, wrapper.key), wheels := _digests(manifest, wrapper)) != wheels
    ]
    if wrong:
        raise PublishError(f"{site}: {', '.join(wrong)} was released before in other wheels; build the site again")


def record(families: Iterable[Family], site: Path, published: Iterable[str]) -> list[str]:
    """Write down as released every wrapper of a site with a wheel among `published`; returns the keys that are new.

    A wrapper counts as released with its first published wheel. Raises PublishError where the record knows it with
    other wheels, and then writes nothing.
    """
    families = tuple(families)
    refuse_contradictions(site, families)
    manifest = Manifest.of(site)
    published = set(published)
    new: list[str] = []
    for family in families:
        there = {(item.flavour, item.key) for item in load(family)}
        added = [
            _released(site, manifest, wrapper)
            for wrapper in manifest.wrappers
            if wrapper.family == family.name
            and (wrapper.flavour, wrapper.key) not in there
            and not published.isdisjoint(wrapper.wheels)
        ]
        if added:
            add(family, added)
            new += [item.key for item in added]
    return new


def _digests(manifest: Manifest, wrapper: SiteWrapper) -> dict[str, str]:
    return {name: manifest.wheels[name].sha256 for name in wrapper.wheels}


def _released(site: Path, manifest: Manifest, wrapper: SiteWrapper) -> Released:
    raw, _ = parse_email((site / "files" / f"{wrapper.wheels[0]}.metadata").read_bytes())
    return Released(**wrapper.facts(), readme=raw["description"], wheels=_digests(manifest, wrapper))
