"""What is counted, in Prometheus's text format; labels are few, whatever is asked for."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What a request was for; a handler says so in the scope.
KIND = "metawheel.kind"
OTHER = "other"
BUCKETS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)  # seconds


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter("metawheel_requests", "Answered requests.", ["kind", "status"], registry=registry)
        self.seconds = Histogram(
            "metawheel_request_seconds", "Time until an answer begins.", ["kind"], buckets=BUCKETS, registry=registry
        )
        self.fallback = Counter("metawheel_fallback", "Answers of the fallback index.", ["result"], registry=registry)
        self.cache = Counter("metawheel_cache", "Requests for cached files.", ["result"], registry=registry)
        self.cache_bytes = Counter("metawheel_cache_fetched_bytes", "Bytes fetched from upstream.", registry=registry)
        self.fetching = Gauge("metawheel_cache_fetching", "Upstream fetches that are running.", registry=registry)
        self.projects = Gauge("metawheel_site_projects", "Projects that the site owns.", registry=registry)
        self.stale = Gauge("metawheel_site_stale", "1 while the site's new state cannot be read.", registry=registry)


class Measured:
    """Counts each answer and the time until it began."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._counters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}  # looking them up by label is slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                answers, seconds = self._counters_of(scope.get(KIND, OTHER), message["status"])
                answers.inc()
                seconds.observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, measured)

    def _counters_of(self, kind: str, status: int) -> tuple[Counter, Histogram]:
        found = self._counters.get((kind, status))
        if found is None:
            found = self._metrics.requests.labels(kind, str(status)), self._metrics.seconds.labels(kind)
            self._counters[kind, status] = found
        return found
