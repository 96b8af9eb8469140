"""Progress is for people at a terminal: there it is drawn and taken away again, in a pipe there is none of it."""

from __future__ import annotations

import io

import pytest

from metawheel.cli.common import download_bars, progress_bar


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> dict[bool, _Stream]:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return {terminal: _Stream(terminal=terminal) for terminal in (True, False)}


@pytest.mark.parametrize("terminal", [True, False])
def test_stages_are_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, streams: dict[bool, _Stream], *, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr", streams[terminal])
    with progress_bar("pages") as pages, progress_bar("wrappers") as wrappers:
        pages(1, 2)
        pages(2, 2)
        wrappers(2, 2)
    drawn = streams[terminal].getvalue()
    assert [word in drawn for word in ("pages", "2/2", "wrappers")] == [terminal] * 3


@pytest.mark.parametrize("terminal", [True, False])
def test_downloads_are_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, streams: dict[bool, _Stream], *, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr", streams[terminal])
    with download_bars() as on_bytes:
        on_bytes("torch.whl", 1000, None)
        on_bytes("vision.whl", 1000, 2000)
        on_bytes("vision.whl", 2000, 2000)
    drawn = streams[terminal].getvalue()
    assert [word in drawn for word in ("torch.whl", "vision.whl")] == [terminal] * 2


def test_a_run_that_is_stopped_leaves_the_cursor_as_it_was(
    monkeypatch: pytest.MonkeyPatch, streams: dict[bool, _Stream]
) -> None:
    monkeypatch.setattr("sys.stderr", streams[True])

    def stopped() -> None:
        with progress_bar("pages") as pages:
            pages(1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    drawn = streams[True].getvalue()
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 1
