"""The doctor: what a project's files would install on each target, and what is wrong with that."""

from __future__ import annotations

from metawheel.doctor.examine import Options, Report, examine

__all__ = ["Options", "Report", "examine"]
