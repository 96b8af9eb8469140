"""Writing down what was published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.metadata import parse_email

from metawheel.errors import OutputError, PublishError
from metawheel.family import Family
from metawheel.model import Released
from metawheel.released import add, load
from metawheel.site import Manifest, SiteWrapper


def contradictions(manifest: Manifest, known: Mapping[str, Iterable[Released]]) -> list[str]:
    """The wrappers of a site that were released before in other wheels; `known` maps a family's name to its record."""
    before = {(item.flavour, item.key): item.wheels for items in known.values() for item in items}
    return [
        wrapper.key
        for wrapper in manifest.wrappers
        if before.get((wrapper.flavour, wrapper.key), wheels := _digests(manifest, wrapper)) != wheels
    ]


def record(families: Iterable[Family], site: Path, published: Iterable[str]) -> list[str]:
    """Write down as released every wrapper of a site with a wheel among `published`; returns the keys that are new.

    A wrapper counts as released with its first published wheel. Raises PublishError where the record knows it with
    other wheels, and then writes nothing.
    """
    manifest = Manifest.load(site)
    published = set(published)
    by_name = {family.name: family for family in families}
    known = {name: load(family) for name, family in by_name.items()}
    if manifest is None:
        raise OutputError(f"{site}: is not a site of metawheel")
    if wrong := contradictions(manifest, known):
        raise PublishError(f"{site}: {', '.join(wrong)} was released before in other wheels; build the site again")
    new: list[str] = []
    for name, family in by_name.items():
        there = {(item.flavour, item.key) for item in known[name]}
        added = [
            _released(site, manifest, wrapper)
            for wrapper in manifest.wrappers
            if wrapper.family == name
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
    return Released(
        name=wrapper.name,
        version=wrapper.version,
        release=wrapper.release,
        flavour=wrapper.flavour,
        view=wrapper.view,
        summary=wrapper.summary,
        requires=wrapper.requires,
        extras=wrapper.extras,
        requires_python=wrapper.requires_python,
        readme=raw["description"],
        wheels=_digests(manifest, wrapper),
        reissued=wrapper.reissued,
    )
