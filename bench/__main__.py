"""Measure ours against what one would use instead: `python -m bench [lock] [emit] [site] [sync] [start]`.

Writes bench/results.json and docs/bench.md; a part that is not asked for keeps its last results. Needs Linux, and the
package registry once, for what is compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.report import Part, dump, markdown

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "bench.md"
PARTS = ("lock", "emit", "site", "sync", "start")


def main() -> None:
    """Run the parts that are asked for, one after another, and write what they found after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all without one")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender")
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 5, 25], help="times the committed ledgers")
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10000], help="wheels on a site")
    parser.add_argument("--limit", type=float, default=180, help="seconds after which a client's lock is stopped")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for name in [name for name in PARTS if name in (asked.parts or PARTS)]:
        print(f"{name} …", file=sys.stderr)  # noqa: T201
        with tempfile.TemporaryDirectory(prefix="metawheel-bench-") as folder:
            os.environ["METAWHEEL_CACHE"] = f"{folder}/cache"
            found = _measure(name, Path(folder), asked).to_json()
        results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        results[name] = found
        results = {part: results[part] for part in PARTS if part in results}
        RESULTS.write_text(dump(results), encoding="utf-8")
        PAGE.write_text(markdown(results.values()), encoding="utf-8")


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
        case _:
            from bench.starting import start

            return start(2 * asked.rounds + 1)


if __name__ == "__main__":
    main()
