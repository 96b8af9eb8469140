"""Threads for waiting on the network, which an interruption does not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that is waited for when all went well; on an error, Ctrl-C too, what has not begun is dropped."""
    pool = ThreadPoolExecutor(max(count, 1))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
