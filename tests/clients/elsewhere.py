"""Running pip, and what is built on it, as if on another platform: its markers and its tags are the target's.

They lock for the platform they run on. A `sitecustomize` on PYTHONPATH gives each copy of pip in the process (pipenv
has its own) the target's marker environment and compatibility tags; nothing else of the machine changes.
"""

from __future__ import annotations

import json
from pathlib import Path

from packaging.tags import compatible_tags, cpython_tags

from tests.clients.targets import Target

CODE = """\
import importlib
import json
import pathlib
import sys

TARGET = json.loads(pathlib.Path(__file__).with_name("target.json").read_text())


def find(name):
    try:
        return importlib.import_module(name)
    except Exception:
        return None


for prefix in ("", "pip._vendor.", "pipenv.patched.pip._vendor.", "pipenv.vendor."):
    markers = find(prefix + "packaging.markers")
    if markers is not None:
        markers.default_environment = lambda: dict(TARGET["environment"])
for prefix in ("pip.", "pipenv.patched.pip."):
    tags, packaging = find(prefix + "_internal.utils.compatibility_tags"), find(prefix + "_vendor.packaging.tags")
    if tags is not None and packaging is not None:
        found = [packaging.Tag(*tag) for tag in TARGET["tags"]]
        # pipenv has imported much of its pip by now, and each module has the function under its own name.
        here = tags.get_supported
        for module in [module for module in sys.modules.values() if getattr(module, "get_supported", None) is here]:
            module.get_supported = lambda *args, found=found, **kwargs: list(found)
"""


def settings(target: Target, folder: Path) -> dict[str, str]:
    """The environment variables that make a Python process believe to run on a target."""
    folder.mkdir(parents=True, exist_ok=True)
    version = target.version_info
    plain = f"cp{version[0]}{version[1]}"
    tags = [*cpython_tags(version, [plain], target.platforms), *compatible_tags(version, plain, target.platforms)]
    listed = [(tag.interpreter, tag.abi, tag.platform) for tag in tags]
    told = {"environment": target.environment, "tags": listed}
    (folder / "target.json").write_text(json.dumps(told), encoding="utf-8")
    (folder / "sitecustomize.py").write_text(CODE, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
