"""Mutation testing of the planning and ledger code: `python -m bench.mutation [GROUP …]`; docs/mutation.md says more.

Changes a copy of this repository under --folder, by bench/mutation.toml, one small change at a time, and runs the tests
that reach it. Prints what was noticed, and leaves each change that was not as a diff in FOLDER/survivors.diff. A run
that is started again goes on where the last one ended; with --again those that survived meet the tests of now.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

ROOT = Path(__file__).parents[1]
SETTINGS = Path(__file__).with_suffix(".toml")
FATES = {0: "survived", 1: "killed", 3: "killed", 33: "no tests"}  # by mutmut's exit codes; any other is a timeout
SHOW = """\
import sys
from mutmut.mutation.diff_apply import get_diff_for_mutant
for name in sys.argv[1:]:
    print(f"# {name}\\n{get_diff_for_mutant(name)}")
"""
# A mutant meets few examples, always the same ones, after all other tests; a failure is not made smaller.
EXAMPLES = "max_examples=10"
CONFTEST = """\
import gc

import pytest
from hypothesis import Phase, settings

phases = [Phase.explicit, Phase.generate]
settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=phases)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)


def pytest_collection_finish() -> None:
    gc.freeze()
"""
# mutmut changes nothing in a function with a decorator; these are given one without, and no cache that hides a caller.
DECORATED = re.compile(r"^( *)@(?:property|cached_property|functools\.cache)\n\1def (\w+)", re.MULTILINE)


def main() -> None:
    """Run the groups that are asked for and print a line for each module."""
    known: dict[str, Any] = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    groups = {group["name"]: group for group in known["group"]}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(groups)}; all without one")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutation", help="where the copies are changed")
    parser.add_argument("--again", action="store_true", help="only what survived the last run")
    asked = parser.parse_args()
    if unknown := set(asked.groups) - groups.keys():
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    diffs = ""
    for name in asked.groups or groups:
        copy, modules = asked.folder.resolve() / name, groups[name]["modules"]
        left = [mutant for module in modules for mutant in _left(copy, module)] if asked.again else []
        _lay_out(copy, groups[name], known["mutmut"])
        subprocess.run([sys.executable, "-m", "mutmut", "run", "--max-children", "1", *left], cwd=copy, check=True)
        for module in modules:
            diffs += _report(copy, module)
    (asked.folder / "survivors.diff").write_text(diffs, encoding="utf-8")


def _lay_out(copy: Path, group: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Copy what the tests need, in the layout that mutmut knows, with the group's settings."""
    ignore = shutil.ignore_patterns("__pycache__")
    for source, target in (("builder/src", "src"), ("tests", "tests")):
        shutil.copytree(ROOT / source, copy / target, ignore=ignore, dirs_exist_ok=True)
    for path in (copy / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"max_examples=\d+", EXAMPLES, text), encoding="utf-8")
    for module in group["modules"]:
        path = copy / "src" / "metawheel" / f"{module}.py"
        path.write_text(DECORATED.sub(_undecorated, path.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copy2(ROOT / "tox.ini", copy)
    (copy / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    options = {
        **settings,
        "source_paths": ["src"],
        "only_mutate": [f"src/metawheel/{module}.py" for module in group["modules"]],
        "pytest_add_cli_args_test_selection": group["tests"],
        "also_copy": ["tests", "tox.ini", "conftest.py"],
    }
    (copy / "pyproject.toml").write_text(tomli_w.dumps({"tool": {"mutmut": options}}), encoding="utf-8")


def _undecorated(match: re.Match[str]) -> str:
    indent, name = match.groups()
    plain = f"property(lambda self: self.plain_{name}())" if indent else f"lambda *given: plain_{name}(*given)"
    return f"{indent}{name} = {plain}\n\n{indent}def plain_{name}"


def _fates(copy: Path, module: str) -> dict[str, str]:
    """What became of a module's mutants, by name."""
    path = copy / "mutants" / "src" / "metawheel" / f"{module}.py.meta"
    codes = json.loads(path.read_bytes())["exit_code_by_key"] if path.exists() else {}
    return {name: FATES.get(code, "timeout") for name, code in codes.items()}


def _left(copy: Path, module: str) -> list[str]:
    return [name for name, fate in _fates(copy, module).items() if fate not in ("killed", "timeout")]


def _report(copy: Path, module: str) -> str:
    """Print what became of a module's mutants; the changes that no test noticed."""
    fates, left = _fates(copy, module), _left(copy, module)
    told = ", ".join(f"{number} {fate}" for fate, number in sorted(Counter(fates.values()).items()))
    print(f"{module}: {len(fates)} mutants; {told}; noticed {1 - len(left) / len(fates):.1%}")  # noqa: T201
    shown = subprocess.run([sys.executable, "-c", SHOW, *left], cwd=copy, check=True, capture_output=True, text=True)
    return shown.stdout


if __name__ == "__main__":
    main()
