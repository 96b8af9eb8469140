"""What the load of the benchmark counts, whatever way a server has to end its answers."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.load import load

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def serving(*pieces: bytes) -> Iterator[str]:
    """A server that answers every request with these bytes, and closes if they say so."""
    whole = b"".join(pieces)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                if line == b"\r\n":  # the end of a request
                    for piece in pieces:
                        self.wfile.write(piece)
                        time.sleep(0.002)  # so that each piece comes alone
                    if b"close" in whole:
                        return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/simple/torch/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("pieces", "size"),
    [
        ([HEAD + b"Content-Length: 4\r\n\r\npage"], 4),
        ([HEAD + b"content-length: 10\r\n\r\n", b"a long", b" one"], 10),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"4\r\npage\r\n0\r\n", b"\r\n"], 14),
        ([HEAD + b"Transfer-Encoding: chunked\r\nX-Id: a0\r\n\r\n", b"4\r\npage\r\n0\r\n\r\n"], 14),
        ([HEAD + b"Connection: close\r\nContent-Length: 4\r\n\r\npage"], 4),
        ([HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n"], 14),
    ],
)
def test_whole_answers_are_counted(pieces: list[bytes], size: int) -> None:
    with serving(*pieces) as url:
        found = load(url, 3, 0.1)
    assert found["answers"] >= 3
    assert (found["failed"], found["size"]) == (0, size)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
        HEAD + b"Connection: close\r\nContent-Length: 40\r\n\r\ncut off",
        HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npa",
        b"close without an answer",
    ],
)
def test_what_is_no_whole_page_counts_as_failed(answer: bytes) -> None:
    with serving(answer) as url:
        found = load(url, 3, 0.05)
    assert found["answers"] == 0
    assert found["failed"] >= 3
