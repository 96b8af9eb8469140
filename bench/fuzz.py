"""Feeds damaged pages, ledgers, records, manifests and histories to their readers: `python -m bench.fuzz --minutes 10`.

Good texts are cut, spliced and rewritten at random, again and again; a reader may refuse with one of our errors and
nothing else, within ten seconds and 500 MB. Prints how many inputs each reader took and refused; exits 1 on a fault,
and leaves the input in the current folder.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from metawheel import changes, ledger, released
from metawheel.errors import MetawheelError
from metawheel.jsonl import dump
from metawheel.site import Manifest
from metawheel.upstream.http import Page
from metawheel.upstream.pages import parse_page

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "tests" / "unit" / "upstream_pages"
SECONDS = 10  # for one input
MEMORY = 500 * 1024 * 1024  # bytes, of the whole process
TOKENS = [
    *(b"<a href=", b'"', b"</a>", b"<!--", b"&#0;", b"&lt;", b"%2B", b"%00", b"../", b"#sha256=", b"\x00", b"\xff\xfe"),
    *(b"{", b"}", b"[", b"]", b":", b",", b"null", b"1e999", b"-1", b'"files"', b'"yanked"', b"\\ud800", b"\n", b"\r"),
    *(b"torch-2.9.1+cu128-cp312-cp312-linux_x86_64.whl", b" data-requires-python=", b"data-yanked", b"+", b"9" * 5000),
]


def mutated(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A damaged text: some bytes cut out, doubled, replaced, or taken from another."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((0, 1, 2, 8, 64, 1024)))
        other = chance.choice(others)
        at = chance.randrange(len(other) + 1)
        data[start:end] = chance.choice(
            (
                b"",
                chance.choice(TOKENS),
                chance.randbytes(chance.choice((1, 4))),
                bytes(data[start:end]) * 2,
                other[at : at + chance.choice((16, 256))],
            )
        )
    return bytes(data)


def _again(kind: str, unit: str, content: bytes) -> bytes:
    """A damaged record under a head that fits it, so that its lines are read."""
    rows = []
    for line in content.partition(b"\n")[2].splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows.append(row if isinstance(row, dict) else {"file": row})
    return dump(kind, unit, rows)


def _history(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / changes.CHANGES_FILE).write_bytes(content)
        changes.render(changes.load(Path(folder)))


def readers() -> Mapping[str, tuple[list[bytes], Callable[[bytes], object]]]:
    """Each reader with good texts."""
    url = "https://download.pytorch.org/whl/torch/"
    html = [path.read_bytes() for path in sorted(PAGES.glob("*.html"))]
    as_json = [path.read_bytes() for path in sorted(PAGES.glob("*.json"))]
    lines = (ROOT / "packages" / "torch-cuda" / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    some = b"".join(lines[:40])
    item = {"wrapper": "torch-cpu", "version": "2.9.1", "flavour": "pinned", "wheels": {"x": "0"}, "summary": "x"}
    item |= {"requires_python": ">=3.10", "requires": ["torch==2.9.1+cpu"], "extras": {"vision": ["x"]}, "readme": "x"}
    record = dump("released", "wrappers", [item])
    state = changes.extend((), changes.Entry(new=("torch-cpu==2.9.1",), yanked=(("x==1", "why"),)), "2026-01-01")
    history = changes.render(state)[changes.CHANGES_FILE]
    manifest = Manifest(inputs="0", pages={"index.html": "0"}, hosted={"x": "y"}).dump()
    where = Path("input")

    def page(kind: str) -> Callable[[bytes], object]:
        return lambda text: parse_page(Page(url=url, content=text, content_type=kind), "x")

    return {
        "HTML page": (html, page("text/html")),
        "JSON page": (
            as_json,
            lambda text: parse_page(Page(url=url, content=text, content_type="application/json"), "x"),
        ),
        "ledger": ([some], lambda text: ledger.parse(_again("ledger", "files", text), where)),
        "record": ([record], lambda text: released.parse(_again("released", "wrappers", text), where)),
        "manifest": ([manifest], lambda text: Manifest.parse(text, "input", "do")),
        "history": ([history], _history),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chance = random.Random(asked.seed)  # noqa: S311
    kinds = readers()
    counts: Counter[tuple[str, str]] = Counter()
    end = time.monotonic() + asked.minutes * 60
    while time.monotonic() < end:
        for kind, (good, read) in kinds.items():
            text = mutated(chance.choice(good), good, chance)
            signal.alarm(SECONDS)
            try:
                read(text)
                counts[kind, "read"] += 1
            except MetawheelError:
                counts[kind, "refused"] += 1
            except Exception:  # noqa: BLE001  any other is the fault that is looked for
                traceback.print_exc()
                Path("fuzz-input").write_bytes(text)
                sys.exit(f"{kind}: not one of our errors; the input is in fuzz-input")
            signal.alarm(0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MEMORY:
            sys.exit(f"more than {MEMORY} bytes of memory")
    for (kind, outcome), count in sorted(counts.items()):
        sys.stdout.write(f"{kind}: {count} {outcome}\n")
    sys.stdout.write(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB\n")


if __name__ == "__main__":
    main()
