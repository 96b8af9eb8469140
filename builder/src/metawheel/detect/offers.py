"""What there is to choose from: the versions of wrappers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from metawheel.detect.interpreter import Interpreter
from metawheel.model import Statement, Wrapper, wheel_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One version of a wrapper that installs one backend."""

    wrapper: str
    version: str
    release: str
    backend: str
    requires: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    wheels: Mapping[str, str | None]  # file name → sha256, as far as it is known
    urls: Mapping[str, str] = field(default_factory=dict)  # file name → address
    yanked: str | None = None

    @classmethod
    def of(
        cls,
        said: Statement,
        backend: str,
        wheels: Mapping[str, str | None],
        *,
        urls: Mapping[str, str] | None = None,
        yanked: str | None,
    ) -> Offer:
        """What a wrapper says, with its wheels as they are found."""
        return cls(
            wrapper=said.name,
            version=said.version,
            release=said.release,
            backend=backend,
            requires=said.requires,
            extras=dict(said.extras),
            wheels=wheels,
            urls=urls or {},
            yanked=yanked,
        )

    @property
    def kind(self) -> str:
        """The wrapper's name without its backend: the same for all that differ in the backend only."""
        return f"-{self.wrapper}-".replace(f"-{canonicalize_name(self.backend)}-", "-*-", 1)

    @property
    def base(self) -> frozenset[str]:
        """The projects that it installs."""
        return frozenset(canonicalize_name(Requirement(line).name) for line in self.requires)

    @property
    def companions(self) -> Mapping[str, str]:
        """The projects that its extras install, and the extra for each."""
        return {
            canonicalize_name(Requirement(line).name): extra for extra, lines in self.extras.items() for line in lines
        }

    def wheel(self, interpreter: Interpreter) -> str | None:
        """The file that an interpreter would take; None if there is no cell for it."""
        ranked = {name: interpreter.rank(wheel_name(name).tags) for name in self.wheels}
        fitting = {name: rank for name, rank in ranked.items() if rank is not None}
        return min(fitting, key=lambda name: (fitting[name], name), default=None)

    def pins(self, interpreter: Interpreter) -> dict[str, Requirement]:
        """What each project is pinned to for an interpreter, companions too, without markers."""
        lines = [*self.requires, *(line for lines in self.extras.values() for line in lines)]
        found: dict[str, Requirement] = {}
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({**interpreter.environment}):
                requirement.marker = None
                found[canonicalize_name(requirement.name)] = requirement
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All offers of one place, and where an installer finds them."""

    offers: tuple[Offer, ...]
    # All wrappers, those too that choose a backend by themselves → what they require.
    names: Mapping[str, frozenset[str]]
    index: str | None = None  # URL of the simple index over everything; None: no index was named
    views: bool = False  # whether there is one for each backend beside it

    def view(self, backend: str) -> str | None:
        """The URL of the index of one backend, or of all where there are no views."""
        if self.index is None or not self.views:
            return self.index
        return f"{self.index.removesuffix('simple/')}{backend}/simple/"


def from_plan(wrappers: Iterable[Wrapper]) -> Catalog:
    """The offers of a plan: nothing is built, so there are neither hashes nor addresses."""
    wrappers = tuple(wrappers)
    return Catalog(
        offers=tuple(
            Offer.of(wrapper, wrapper.view, dict.fromkeys(wrapper.wheels), yanked=wrapper.yanked)
            for wrapper in wrappers
            if wrapper.view is not None
        ),
        names=names_of((wrapper.name, wrapper.requires) for wrapper in wrappers),
    )


def names_of(wrappers: Iterable[tuple[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    names: dict[str, set[str]] = {}
    for name, requires in wrappers:
        names.setdefault(name, set()).update(canonicalize_name(Requirement(line).name) for line in requires)
    return {name: frozenset(required) for name, required in names.items()}
