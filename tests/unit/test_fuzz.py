"""Whatever reads a text from elsewhere reads or refuses it, however damaged; and the fuzzer would notice if not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from bench import fuzz
from bench.fuzz import DEEP, FINE, Read, outcome, readers
from metawheel.errors import MetawheelError
from metawheel.family import Companion
from metawheel.upstream.metadata import requirements_on

pytestmark = pytest.mark.filterwarnings("ignore")  # what libraries say of odd pages

Kinds = Mapping[str, tuple[list[bytes], Read]]


@pytest.fixture(scope="module")
def kinds() -> Iterator[Kinds]:
    with readers() as found:
        yield found


def faults(kinds: Kinds, damaged: Mapping[str, list[bytes]]) -> dict[str, str]:
    """The first fault of each reader."""
    found = {}
    for kind, texts in damaged.items():
        for text in texts:
            if (said := outcome(kinds[kind][1], text)) not in FINE:
                found[kind] = said
                break
    return found


def test_every_reader_takes_its_good_texts(kinds: Kinds) -> None:
    assert {outcome(read, text) for good, read in kinds.values() for text in good} == {"read"}


def halves(text: bytes) -> tuple[bytes, bytes]:
    return text[: len(text) // 2], text[len(text) // 2 :]


@pytest.mark.parametrize("piece", [b"[", b"(", b"9"], ids=bytes.decode)
def test_a_text_with_one_piece_repeated_beyond_measure_is_read_or_refused_in_time(kinds: Kinds, piece: bytes) -> None:
    much = piece * DEEP
    damaged = {kind: [much, much.join(halves(good[0])), good[0] + much] for kind, (good, _) in kinds.items()}
    assert faults(kinds, damaged) == {}


@pytest.mark.parametrize("piece", [b"<!--", b"<![CDATA[", b"</", b"</b"], ids=bytes.decode)
def test_a_page_with_tags_or_comments_that_never_end_is_read_or_refused_in_time(kinds: Kinds, piece: bytes) -> None:
    pages = ("HTML page", "HTML page of the fallback", "index", "project of an index")
    assert faults(kinds, {kind: [kinds[kind][0][0] + piece * DEEP] for kind in pages}) == {}


def test_a_link_of_any_length_is_reported_in_time(kinds: Kinds) -> None:
    assert faults(kinds, {"HTML page": [b'<a href="%s.whl">x</a>' % (b"[" * DEEP)]}) == {}


def test_a_wheel_with_any_one_byte_damaged_is_read_or_reported(kinds: Kinds) -> None:
    (good,) = kinds["wheel"][0]
    damaged = [good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :] for at in range(len(good))]
    assert faults(kinds, {"wheel": damaged}) == {}


def test_metadata_that_is_no_ascii_is_read_or_refused(kinds: Kinds) -> None:
    line = b"Requires-Dist: torch\xff\xe9; sys_platform == 'linux'\n"
    both = ("METADATA", "METADATA of an index")
    assert faults(kinds, {kind: [kinds[kind][0][0] + line] for kind in both}) == {}


@pytest.mark.parametrize(
    "line",
    [
        'torch==2.6.0; extra == "cpu" and os_name ~= "posix"',
        'torch==2.6.0; extra == "cpu" and platform_release ~= "1"',
        'torch==2.6.0; extra == "cpu" and "extra" == "cpu"',
        'torch==2.6.0; extra == "cpu" and "a" === "b"',
        'torch==2.6.0; "cpu" in extras',
        f'torch==2.6.0; extra == "cpu" and python_version > "{"9" * 5000}"',
        f"torch=={'9' * 5000},>=1",
        f"torch; {'(' * DEEP}",
    ],
    ids=lambda line: line[:50],
)
def test_a_line_that_nothing_can_evaluate_pairs_nothing(line: str) -> None:
    companion = Companion.model_validate({"project": "torchvision", "pairs-in-extra": "cpu"})
    lines = [f"Requires-Dist: {line}", 'Requires-Dist: torch==2.7.1; extra == "cpu"']
    assert requirements_on("torch", companion, "\n".join(["Metadata-Version: 2.1", *lines]).encode()) == (
        "torch==2.7.1",
    )


def _hangs(_: bytes) -> None:
    while True:
        pass


def _crashes(text: bytes) -> None:
    text.index(b"x")


def _refuses(_: bytes) -> None:
    raise MetawheelError("no")


@pytest.mark.parametrize(
    ("read", "said"), [(_hangs, "TooSlow"), (_crashes, "ValueError"), (_refuses, "refused"), (len, "read")]
)
def test_the_fuzzer_notices_a_reader_that_hangs_or_crashes(
    monkeypatch: pytest.MonkeyPatch, read: Read, said: str
) -> None:
    monkeypatch.setattr(fuzz, "SECONDS", 0.2)
    assert said in outcome(read, b"")
