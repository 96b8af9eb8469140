"""Running the application: the socket, uvicorn with its limits, a graceful stop."""

from __future__ import annotations

import signal
import socket
import sys
from types import FrameType

import uvicorn

from metawheel.errors import OutputError
from metawheel.serve.app import Server, Settings
from metawheel.serve.limits import LimitedProtocol

CONNECTIONS = 1000  # at a time; more are answered 503
KEEP_ALIVE = 30  # seconds in which an idle connection stays open


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OutputError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OutputError(f"{host}, port {port}: cannot be listened at: {error.strerror}") from error


def configure(settings: Settings, *, grace: int, access_log: bool = False) -> uvicorn.Config:
    """The application with all its limits; on a stop, requests that run have `grace` seconds. Raises OutputError."""
    return uvicorn.Config(
        Server(settings).app(),
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        proxy_headers=False,  # no answer depends on who asks, or by which address
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace,
    )


def run(config: uvicorn.Config, bound: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then end with exit code 0."""
    # uvicorn raises the signal once more when it has stopped: that is how a server ends, and no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    uvicorn.Server(config).run(sockets=[bound])


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
