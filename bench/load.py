"""Ask one URL as often as some clients can: `python -m bench.load URL CLIENTS SECONDS`, in a process of its own.

Each client asks again once it has the whole answer, and keeps its connection if it may, as package managers do. Prints
as JSON the answers, how many a second, the bytes of one, and how many requests failed: another status than 200, or no
answer. An answer costs little here, so that it is the server that is measured: of its head little is read.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"  # pip's
PATIENCE = 15.0  # seconds without any answer until all that are waited for count as none; pip's as well
BUFFER = 1 << 20
_HEAD = re.compile(rb"HTTP/1\.1 (\d+).*?\r\n\r\n", re.DOTALL)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close\r", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(kw_only=True)
class Tally:
    """What all clients got so far."""

    answers: int = 0
    failed: int = 0
    size: int = 0  # bytes of the last body


class Client:
    """One client's connection, and how much of its answer is still to come."""

    def __init__(self, url: str) -> None:
        """Connect."""
        parts = urlsplit(url)
        self._request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: {ACCEPT}\r\n\r\n".encode()
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self) -> None:
        """Send the request."""
        self._body: int | None = None  # bytes of it so far, None before the head
        self._end = b""
        self.socket.sendall(self._request)

    def take(self, buffer: memoryview, tally: Tally) -> bool:
        """Take what has come; whether the answer is whole. Raises ConnectionError where it can never be."""
        start, size = 0, self.socket.recv_into(buffer)
        if self._body is None:
            head = _HEAD.match(buffer[:size])  # servers send it in one piece
            if head is None:
                raise ConnectionError
            length = _LENGTH.search(head[0])
            self._length = None if length is None else int(length[1])  # None: in chunks
            self._body, start = 0, head.end()
            self.closes = _CLOSES.search(head[0]) is not None
            self._found = head[1] == b"200"
        elif size == 0:
            raise ConnectionError
        self._body += size - start
        if self._length is None:  # a head can end like the last chunk, so the body alone is looked at
            self._end = (self._end + buffer[max(size - len(_LAST_CHUNK), start) : size])[-len(_LAST_CHUNK) :]
        if self._body != self._length and self._end != _LAST_CHUNK:
            return False
        if self._found:
            tally.answers, tally.size = tally.answers + 1, self._body
        else:
            tally.failed += 1
        return True


def load(url: str, clients: int, seconds: float) -> dict[str, float]:
    """Every client at once; the answers that are on their way at the end are waited for, and count."""
    tally, buffer, poll = Tally(), memoryview(bytearray(BUFFER)), select.epoll()
    asking: dict[int, Client] = {}

    def begin() -> None:
        client = Client(url)
        asking[client.socket.fileno()] = client
        poll.register(client.socket, select.EPOLLIN)
        client.ask()

    start = time.perf_counter()
    for _ in range(clients):
        begin()
    while asking and (ready := poll.poll(PATIENCE)):
        for number, _ in ready:
            over = time.perf_counter() - start > seconds
            try:
                if not asking[number].take(buffer, tally):
                    continue
                if not (over or asking[number].closes):
                    asking[number].ask()
                    continue
            except ConnectionError:
                tally.failed += 1
            asking.pop(number).socket.close()  # which poll forgets then
            if not over:
                begin()
    tally.failed += len(asking)
    for client in asking.values():
        client.socket.close()
    poll.close()
    return {**asdict(tally), "rate": tally.answers / (time.perf_counter() - start)}


if __name__ == "__main__":
    json.dump(load(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])), sys.stdout)
