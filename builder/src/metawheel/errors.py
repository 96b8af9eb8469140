"""The failures a user can meet: one base, one class a kind, each with its own exit code."""

from __future__ import annotations

import re
from typing import ClassVar

# What taking JSON apart raises that others wrote: other syntax, other types, nested too deep.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def masked(text: str) -> str:
    """Text without the user and password of any URL in it: it may end in a public log."""
    return re.sub(r"(?<=://)[^/\s\"']*@", "***@", text)


class MetawheelError(Exception):
    """A failure that its message explains: what is wrong, where, and what to do."""

    exit_code: ClassVar[int] = 1


class FamilyError(MetawheelError):
    """A family.toml that cannot be used, or two families that claim one name."""

    exit_code = 3


class LedgerError(MetawheelError):
    """A ledger that is missing or not as `metawheel sync` wrote it."""

    exit_code = 4


class SourceError(MetawheelError):
    """An upstream page that could not be used; `url` names it."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return masked(f"{self.url}: {self.reason}")


class Unreachable(SourceError):
    """An upstream page that no answer, or no good answer, came from."""

    exit_code = 5


class Unparsable(SourceError):
    """An upstream page whose content is not a usable list of wheels."""

    exit_code = 6


class UpstreamAlarm(SourceError):
    """An upstream page that contradicts the ledger: another sha256, or many files lost."""

    exit_code = 7


class OutputError(MetawheelError):
    """A folder or file that cannot be written, or must not be overwritten."""

    exit_code = 8


class UnknownName(MetawheelError):
    """A family, wrapper or version that does not exist."""

    exit_code = 9


class BuildError(MetawheelError):
    """A wrapper that hatchling could not build."""

    exit_code = 10


class RelabelError(MetawheelError):
    """A wheel that cannot be relabelled."""

    exit_code = 11


class PublishError(MetawheelError):
    """A site that could not be published, or not whole."""

    exit_code = 12
