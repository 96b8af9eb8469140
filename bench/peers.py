"""Which of the programs to compare with can be had here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tests.clients.envs import Client, ClientFailedError, client_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Those that are installed, with their versions, and those that could not be."""

    versions: dict[str, str]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, clients: Iterable[Client | None]) -> Self:
        """Install what is not there yet."""
        found, missing = {}, []
        for client in {client.program: client for client in clients if client is not None}.values():
            try:
                found[client.program] = client_version(client)
            except (ClientFailedError, subprocess.TimeoutExpired):
                missing.append(client.program)
        return cls(versions=found, missing=tuple(missing))

    def have(self, client: Client | None) -> bool:
        """Whether it is there; nothing always is."""
        return client is None or client.program in self.versions

    @property
    def skipped(self) -> str | None:
        """Why a part has not all that it could have."""
        return f"{', '.join(self.missing)} could not be installed" if self.missing else None
