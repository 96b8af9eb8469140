"""What uvicorn's protocol does not limit: how large a request may be, and how long its head may take to come."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 32 * 1024  # bytes of request line and headers
HEAD_TIME = 15.0  # seconds from the connection, or from a request's first byte, to the end of its headers

_CLOSE = {"connection": "close"}


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that waits for a head neither for ever nor whatever its size."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head: int | None = 0  # bytes of the head so far; None while there is none to come
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_alarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        # A head that is complete is the application's to measure: see Limited.
        if self._head is not None and not self.transport.is_closing():
            if self._head > HEAD_LIMIT:
                self._refuse(b"431 Request Header Fields Too Large")
            elif self._alarm is None:
                self._set_alarm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head is None:
            self._head = 0

    def on_headers_complete(self) -> None:
        self._clear_alarm()
        self._head = None
        super().on_headers_complete()

    def _set_alarm(self) -> None:
        self._alarm = self.loop.call_later(HEAD_TIME, self._late)

    def _clear_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _late(self) -> None:
        self._alarm = None
        if not self.transport.is_closing():
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()


class Limited:
    """Takes no request with a body or too large a head, and closes its connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = _refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # uvicorn cancels what runs past the time for a graceful stop. If the answer has begun, it breaks off.
            with suppress(RuntimeError):
                await PlainTextResponse("the server is stopping\n", 503, headers=_CLOSE)(scope, receive, send)


def _refusal(scope: Scope) -> PlainTextResponse | None:
    size = len(scope["raw_path"]) + len(scope["query_string"])
    has_body = False
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        has_body = has_body or name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
    if size > HEAD_LIMIT:
        return PlainTextResponse(f"a request may have {HEAD_LIMIT} bytes of headers\n", 431, headers=_CLOSE)
    if has_body:
        return PlainTextResponse("a request may have no body\n", 413, headers=_CLOSE)
    return None
