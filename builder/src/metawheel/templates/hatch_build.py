"""Gives a wheel of this wrapper its guard: the compatibility tags of what it covers.

Where interpreters and platforms form no rectangle there are several wheels with the same METADATA. A build makes the
first; the environment variable METAWHEEL_TAG names another of `tags` in pyproject.toml.
"""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Guard(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        tags = self.config["tags"]
        tag = os.environ.get("METAWHEEL_TAG") or tags[0]
        if tag not in tags:
            raise ValueError(f"METAWHEEL_TAG={tag} is not one of this wrapper's tags: {', '.join(tags)}")
        build_data["tag"] = tag
