"""Feeds damaged texts to whatever reads one: `python -m bench.fuzz --minutes 10`.

Pages, METADATA, wheels, ledgers, records, manifests, histories: good ones are cut, spliced and rewritten at random,
again and again; a reader may refuse with one of our errors and nothing else, within ten seconds and 500 MB. Prints how
many inputs each reader took and refused, and the slowest; exits 1 on a fault, and leaves the input in `fuzz-input`.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metawheel import changes, ledger, released
from metawheel.detect.indexed import from_index
from metawheel.detect.interpreter import ask
from metawheel.errors import MetawheelError, Unreachable
from metawheel.family import load_family
from metawheel.jsonl import dump
from metawheel.model import Artifact, UpstreamFile
from metawheel.serve.fallback import read_page
from metawheel.site import MANIFEST, Manifest, SiteWrapper
from metawheel.upstream.http import Fetcher, Page
from metawheel.upstream.metadata import add_requirements, requirements_on
from metawheel.upstream.pages import parse_page
from metawheel.upstream.sources import pypi_page
from tests.fakes.pages import CANONICAL, Answer, PageServer, write_family

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "tests" / "unit" / "upstream_pages"
SECONDS = 10  # for one input
MEMORY = 500 * 1024 * 1024  # bytes, of the whole process
FINE = ("read", "refused")
DEEP = 100_000  # more than any parser that calls itself can go down
JSON = "application/vnd.pypi.simple.v1+json"
SITE = "https://site.example/simple/"
NAME = "torchvision-0.22.1-cp311-cp311-linux_x86_64.whl"
WHEEL = "torch_cpu-2.9.1-py3-none-any.whl"
METADATA = b"""Metadata-Version: 2.4
Name: torch-cpu
Version: 2.9.1
Provides-Extra: cpu
Requires-Dist: torch==2.9.1+cpu; sys_platform == "linux" and platform_machine in "x86_64 aarch64"
Requires-Dist: torch (>=2.9,<3); (python_version ~= "3.10" or os_name != "nt") and extra == "cpu"
Requires-Dist: torchvision==0.24.1+cpu; extra == "vision"
"""
TOKENS = [
    *(b"<a href=", b'"', b"</a>", b"<!--", b"&#0;", b"&lt;", b"%2B", b"%00", b"../", b"#sha256=", b"\x00", b"\xff\xfe"),
    *(b"{", b"}", b"[", b"]", b":", b",", b"null", b"1e999", b"-1", b'"files"', b'"yanked"', b"\\ud800", b"\n", b"\r"),
    *(b"torch-2.9.1+cu128-cp312-cp312-linux_x86_64.whl", b" data-requires-python=", b"data-yanked", b"+", b"9" * 5000),
    *(b" and ", b" or ", b" in ", b" ~= ", b" === ", b"extra", b"extras", b"platform_release"),
    *(b"[" * DEEP, b"(" * DEEP),
]
Read = Callable[[bytes], object]


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


class Texts(Fetcher):
    """Has these texts, by their addresses, and no others."""

    def __init__(self, texts: Mapping[str, tuple[str, bytes]], cache: Path) -> None:
        super().__init__(cache=cache, retries=0)
        self._texts = texts

    def page(self, url: str) -> Page:
        if url not in self._texts:
            raise Unreachable(url, "answered 404")
        kind, content = self._texts[url]
        return Page(url=url, content=content, content_type=kind)


def _again(kind: str, unit: str, content: bytes) -> bytes:
    """A damaged record under a head that fits it, so that its lines are read."""
    body = content.partition(b"\n")[2]
    rows = []
    for line in body.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        rows.append(row if isinstance(row, dict) else {"file": row})
    return dump(kind, unit, rows)


def _history(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / changes.CHANGES_FILE).write_bytes(content)
        changes.render(changes.load(Path(folder)))


def _wheel() -> bytes:
    """A small wheel of torchvision."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torchvision/_C.so", bytes(100))
        archive.writestr("torchvision-0.22.1.dist-info/METADATA", METADATA)
    return out.getvalue()


@contextmanager
def readers() -> Iterator[Mapping[str, tuple[list[bytes], Read]]]:
    """Each reader with good texts."""
    html = [path.read_bytes() for path in sorted(PAGES.glob("*.html"))]
    as_json = [path.read_bytes() for path in sorted(PAGES.glob("*.json"))]
    lines = (ROOT / "packages" / "torch-cuda" / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    files = _again("ledger", "files", b"".join(lines[:40]))
    said = {"version": "2.9.1", "flavour": "pinned", "summary": "x", "requires": ["torch==2.9.1+cpu"]}
    said |= {"requires_python": ">=3.10"}
    item = {**said, "wrapper": "torch-cpu", "wheels": {WHEEL: "0" * 64}, "extras": {"vision": ["x"]}, "readme": "x"}
    record = dump("released", "wrappers", [item])
    wrapper: dict[str, Any] = {**said, "name": "torch-cpu", "release": "2.9.1", "view": "cpu", "wheels": [WHEEL]}
    wrapper |= {"extras": [("vision", ["torchvision==0.24.1"])], "family": "x", "yanked": None}
    manifest = Manifest(
        inputs="0",
        wrappers=[SiteWrapper.from_json(wrapper)],
        wheels={WHEEL: Artifact(filename=WHEEL, sha256="0" * 64, size=1, metadata_sha256="0" * 64)},
        pages={"index.html": "0"},
        hosted={"x": "y"},
    ).dump()
    state = changes.extend((), changes.Entry(new=("torch-cpu==2.9.1",), yanked=(("x==1", "why"),)), "2026-01-01")
    history = changes.render(state)[changes.CHANGES_FILE]
    index = [b'<a href="torch-cpu/">torch-cpu</a>', b'{"meta": {"api-version": "1.1"}, "projects": [{"name": "x"}]}']
    link = f'<a href="{SITE}{WHEEL}#sha256={"0" * 64}" data-core-metadata="true">{WHEEL}</a>'.encode()
    project = b"<!DOCTYPE html><html><body>%s</body></html>" % link
    where = Path("input")
    interpreter = ask(sys.executable)

    with tempfile.TemporaryDirectory() as name, PageServer() as server:
        folder = Path(name)
        family = load_family(write_family(folder / "packages", vision=True))
        on_pypi = f'<a href="{server.url}{NAME}">{NAME}</a>'.encode()
        vision = UpstreamFile(filename=NAME, source="up", url=CANONICAL + NAME)

        def page(kind: str) -> Read:
            return lambda text: parse_page(Page(url=SITE, content=text, content_type=kind), "x")

        def site(damaged: str, kind: str = JSON) -> Read:
            good = {SITE: ("text/html", index[0]), f"{SITE}torch-cpu/": ("text/html", project)}
            good[f"{SITE}{WHEEL}.metadata"] = ("", METADATA)
            return lambda text: from_index(SITE, Texts(good | {damaged: (kind, text)}, folder), interpreter)

        def wheel(text: bytes) -> None:
            server.serve(f"/{NAME}", Answer(body=text, ranges=True))
            texts = {pypi_page("torchvision"): ("text/html", on_pypi)}
            add_requirements(family, [vision], Texts(texts, folder))

        yield {
            "HTML page": (html, page("text/html")),
            "JSON page": (as_json, page(JSON)),
            "HTML page of the fallback": (html, lambda text: read_page("torch", SITE, text, "text/html")),
            "JSON page of the fallback": (as_json, lambda text: read_page("torch", SITE, text, JSON)),
            "METADATA": ([METADATA], lambda text: requirements_on("torch", family.companion[0], text)),
            "wheel": ([_wheel()], wheel),
            "index": (index[:1], site(SITE, "text/html")),
            "index as JSON": (index[1:], site(SITE)),
            "project of an index": ([project], site(f"{SITE}torch-cpu/", "text/html")),
            "METADATA of an index": ([METADATA], site(f"{SITE}{WHEEL}.metadata")),
            "manifest of an index": ([manifest], site(SITE.removesuffix("simple/") + MANIFEST)),
            "manifest": ([manifest], lambda text: Manifest.parse(text, "input", "do")),
            "ledger": ([files], lambda text: ledger.parse(text, where)),
            "ledger's lines": ([files], lambda text: ledger.parse(_again("ledger", "files", text), where)),
            "record": ([record], lambda text: released.parse(text, where)),
            "record's lines": ([record], lambda text: released.parse(_again("released", "wrappers", text), where)),
            "history": ([history], _history),
        }


class TooSlow(Exception):
    """A reader that had not come to an end in time."""


def _too_slow(*_: object) -> None:
    raise TooSlow(f"not read after {SECONDS} s")


def outcome(read: Read, text: bytes) -> str:
    """What a reader makes of a text: "read" or "refused", else the fault."""
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        read(text)
    except MetawheelError:
        found = "refused"
    except Exception:  # noqa: BLE001  any other is the fault that is looked for
        found = traceback.format_exc(limit=-8)
    else:
        found = "read"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return found


def _most_memory() -> int:
    """Bytes, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chance = random.Random(asked.seed)  # noqa: S311
    counts: Counter[tuple[str, str]] = Counter()
    slowest: dict[str, float] = {}
    end = time.monotonic() + asked.minutes * 60
    with readers() as kinds:
        for kind, (good, read) in kinds.items():
            for text in good:
                if (found := outcome(read, text)) != "read":
                    sys.exit(f"{kind}: a good text is not read, so nothing would be proved: {found}")
        while time.monotonic() < end:
            for kind, (good, read) in kinds.items():
                text = mutated(chance.choice(good), good, chance)
                begin = time.monotonic()
                found = outcome(read, text)
                slowest[kind] = max(slowest.get(kind, 0), time.monotonic() - begin)
                counts[kind, found] += 1
                if _most_memory() > MEMORY:
                    found = f"more than {MEMORY} bytes of memory"
                if found not in FINE:
                    Path("fuzz-input").write_bytes(text)
                    sys.exit(f"{found}\n{kind}: a fault; the input is in {Path('fuzz-input').absolute()}")
    for kind, seconds in slowest.items():
        taken, refused = counts[kind, "read"], counts[kind, "refused"]
        sys.stdout.write(f"{kind}: {taken} read, {refused} refused, the slowest in {seconds:.2f} s\n")
    sys.stdout.write(f"most memory: {_most_memory() // 1024**2} MB\n")


if __name__ == "__main__":
    main()
