"""Measure ours against what one would use instead.

Writes bench/results.json, docs/bench.md from it, and the figures in README.md and docs/. A part that is not asked for
keeps its last results. Needs Linux, and the package registry once, for what is compared with; a part that lacks what it
needs says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.figures import PAGES, FigureError, filled
from bench.report import Part, dump, markdown

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = "bench/results.json", "docs/bench.md"
PARTS = {
    "lock": "what it costs to lock one project with Poetry, uv, PDM and pip: bytes, requests, seconds",
    "emit": "building the wrappers' wheels, against hatchling and build; as ledgers grow; after one new release",
    "site": "writing a static index, against its other generators",
    "sync": "reading upstream's pages, against other readers; with nothing new",
    "serve": "pages a second at 1, 50 and 200 clients, and memory, against bare uvicorn, pypiserver and devpi",
    "doctor": "reading locks of uv, Poetry and PDM, against what these tools need for it",
    "start": "how soon the command line answers",
}


def main() -> None:
    """Run the parts that are asked for, one after another, and write what they found after each."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="\n".join(["parts:", *(f"  {name:<8}{about}" for name, about in PARTS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure, of those below; all without one")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender")
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 5, 25], help="emit: times the committed ledgers")
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10000], help="site: wheels on it")
    parser.add_argument("--limit", type=float, default=180, help="lock: seconds after which a client is stopped")
    parser.add_argument("--seconds", type=float, default=3, help="serve: of each run of the load")
    parser.add_argument("--packages", type=int, nargs="+", default=[500, 5000], help="doctor: packages in a lock")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for name in [name for name in PARTS if name in (asked.parts or PARTS)]:
        print(f"{name} …", file=sys.stderr)  # noqa: T201
        with tempfile.TemporaryDirectory(prefix="metawheel-bench-") as folder:
            os.environ["METAWHEEL_CACHE"] = f"{folder}/cache"
            found = _measure(name, Path(folder), asked).to_json()
        _note(ROOT, name, found)
    try:
        _fill(ROOT)
    except FigureError as error:
        sys.exit(f"bench: error: {', '.join(PAGES)} keep their figures: {error}")


def _results(root: Path) -> dict[str, Any]:
    path = root / RESULTS
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _note(root: Path, name: str, found: Mapping[str, Any]) -> None:
    """Put one part's results in the place of its last."""
    results = {**_results(root), name: found}
    results = {part: results[part] for part in PARTS if part in results}
    (root / RESULTS).write_text(dump(results), encoding="utf-8")
    (root / PAGE).write_text(markdown(results.values()), encoding="utf-8")


def _fill(root: Path) -> None:
    results = _results(root)
    pages = {root / page: filled((root / page).read_text(encoding="utf-8"), results) for page in PAGES}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


def _measure(name: str, work: Path, asked: argparse.Namespace) -> Part:
    match name:
        case "lock":
            from bench.locking import lock

            return lock(work, asked.rounds, asked.limit)
        case "emit":
            from bench.emitting import emit

            return emit(work, asked.rounds, asked.scales)
        case "site":
            from bench.sites import write_sites

            return write_sites(work, asked.rounds, asked.files)
        case "sync":
            from bench.syncing import sync

            return sync(work, asked.rounds)
        case "serve":
            from bench.serving import serve

            return serve(work, asked.rounds, asked.seconds)
        case "doctor":
            from bench.doctor import doctor

            return doctor(work, asked.rounds, asked.packages)
        case _:
            from bench.starting import start

            return start(2 * asked.rounds + 1)


if __name__ == "__main__":
    main()
