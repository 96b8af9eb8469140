"""A wish: which wrappers install what somebody asks for, and what goes with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from metawheel.detect.choose import AUTO, Choice, NoBuild, choose
from metawheel.detect.interpreter import Interpreter
from metawheel.detect.offers import Catalog, Offer
from metawheel.detect.probe import Machine
from metawheel.errors import UnknownName
from metawheel.model import wheel_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to install."""

    items: tuple[str, ...]  # torch, torchvision==0.24.1, a package that needs torch, ./folder
    backend: str = AUTO
    specifier: SpecifierSet = field(default_factory=SpecifierSet)
    arguments: tuple[str, ...] = ()  # for the installer


def kinds(catalog: Catalog) -> dict[str, list[Offer]]:
    """The offers by kind: those of one kind differ in backend and version only."""
    found: dict[str, list[Offer]] = {}
    for offer in catalog.offers:
        found.setdefault(offer.kind, []).append(offer)
    # A wrapper that narrows another (jaxlib-cuda11-cudnn82 beside jaxlib-cuda11) is for those who ask for it.
    return {
        kind: offers
        for kind, offers in sorted(found.items())
        if not any(kind != other and kind.startswith(other) for other in found)
    }


def choices_for(
    wish: Wish, catalog: Catalog, machine: Machine, interpreter: Interpreter
) -> tuple[tuple[Choice, ...], dict[str, tuple[str, ...]], tuple[str, ...]]:
    """A choice for each wrapper that a wish needs, the extras of each, and the items that are none of ours.

    Without any item of ours the backend still has to be chosen, for what other packages require: then every kind is.
    """
    ours, others = _split(wish.items, catalog)
    groups = _groups(ours, catalog)
    wanted = groups or [(offers, {}) for offers in kinds(catalog).values()]
    chosen: list[Choice] = []
    extras: dict[str, tuple[str, ...]] = {}
    for offers, requirements in wanted:
        fitting = [offer for offer in offers if _gives(offer, requirements, interpreter)]
        if not fitting:
            raise NoBuild(f"no wrapper has {', '.join(map(str, requirements.values()))} for {interpreter.name}")
        try:
            choice = choose(fitting, machine, interpreter, backend=wish.backend, specifier=wish.specifier)
        except (UnknownName, NoBuild):
            if groups:
                raise
            continue
        chosen.append(choice)
        if groups:
            companions = choice.offer.companions
            extras[choice.offer.wrapper] = tuple(sorted({companions[n] for n in requirements if n in companions}))
    if not chosen:
        raise NoBuild(f"no wrapper of the index has a build for {interpreter.name} (--backend {wish.backend})")
    return tuple(chosen), extras, others


def _split(items: Iterable[str], catalog: Catalog) -> tuple[dict[str, Requirement], tuple[str, ...]]:
    """The items that wrappers install, by project, and the rest."""
    # Of the kinds that `_groups` takes: what only a narrower one installs goes to the installer as it is.
    offers = [offer for found in kinds(catalog).values() for offer in found]
    projects = {name for offer in offers for name in (*offer.base, *offer.companions)}
    ours: dict[str, Requirement] = {}
    others: list[str] = []
    for item in items:
        try:
            requirement = Requirement(item)
        except InvalidRequirement:
            others.append(item)
            continue
        name = canonicalize_name(requirement.name)
        if name in catalog.names:
            raise UnknownName(
                f"{item}: is a wrapper; name what it installs and the backend, as in "
                "`metawheel install torch --backend cu128`"
            )
        if name not in projects:
            others.append(item)
        elif requirement.url or requirement.extras or requirement.marker:
            raise UnknownName(f"{item}: can have a version only, such as {name}==…")
        elif name in ours:
            ours[name].specifier &= requirement.specifier
        else:
            ours[name] = requirement
    return ours, tuple(others)


def _groups(ours: Mapping[str, Requirement], catalog: Catalog) -> list[tuple[list[Offer], dict[str, Requirement]]]:
    """For each kind of wrapper that is needed its offers, and what it is to install.

    The kind that has most of what is left comes first; then one that installs it anyhow, not by an extra; then the
    one that installs least besides.
    """
    all_kinds = kinds(catalog)
    base = {kind: frozenset().union(*(offer.base for offer in offers)) for kind, offers in all_kinds.items()}
    companions = {kind: {n for offer in offers for n in offer.companions} for kind, offers in all_kinds.items()}
    left = set(ours)
    found = []
    while left:

        def fit(kind: str, left: frozenset[str] = frozenset(left)) -> tuple[int, int, int]:
            return (len(left & (base[kind] | companions[kind])), len(left & base[kind]), -len(base[kind]))

        best = max(sorted(all_kinds), key=fit)
        given = {name: ours[name] for name in sorted(left & (base[best] | companions[best]))}
        found.append((all_kinds[best], given))
        left -= set(given)
    return found


def _gives(offer: Offer, requirements: Mapping[str, Requirement], interpreter: Interpreter) -> bool:
    """Whether an offer pins every project that is wanted, in a version that is."""
    pins = offer.pins(interpreter)
    return all(
        name in pins
        and (not requirement.specifier or requirement.specifier.contains(pinned(pins[name]) or "0", prereleases=True))
        for name, requirement in requirements.items()
    )


def pinned(requirement: Requirement) -> str | None:
    """The version that a requirement line pins: `==`, or the wheel of a direct reference."""
    if requirement.url is not None:
        filename = unquote(urlsplit(requirement.url).path.rpartition("/")[2])
        return str(wheel_name(filename).version)
    return next((item.version for item in requirement.specifier if item.operator == "=="), None)


def constraint_lines(choices: Iterable[Choice], interpreter: Interpreter) -> tuple[str, ...]:
    """What other packages may bring in: only the builds that belong together."""
    lines = {
        f"{name}=={version}"
        for choice in choices
        for name, requirement in choice.offer.pins(interpreter).items()
        if (version := pinned(requirement)) is not None
    }
    return tuple(sorted(lines))
