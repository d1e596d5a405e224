"""What the API counts: requests by route, and how fast they are answered."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from starlette.types import Scope

from mailsift.pipeline import metrics
from mailsift.pipeline.metrics import OTHER, declare

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

REQUESTS: Final = declare(
    Counter,
    "mailsift_api_requests_total",
    "Requests that were answered",
    {"method": (), "route": (), "status": ()},
)
SECONDS: Final = declare(
    Histogram,
    "mailsift_api_request_seconds",
    "How long requests took, until the last byte was handed over",
    {"route": ()},
    buckets=metrics.SECONDS,
)
LOOP_LAG: Final = declare(
    Gauge,
    "mailsift_api_loop_lag_seconds",
    "How long the event loop was blocked at worst in the last 15 seconds",
)

METRICS: Final = (REQUESTS, SECONDS, LOOP_LAG)


def count_request(scope: Scope, status: int, seconds: float) -> None:
    """Count a request that is over; what names no route of ours is one route, whatever was asked for."""
    method = scope["method"]
    requests, durations = _metrics_of(method if method in _METHODS else OTHER, route_of(scope), status)
    requests.inc()
    durations.observe(seconds)


@lru_cache(maxsize=1_024)
def _metrics_of(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """Return what counts such requests; to look it up by its labels takes longer than to count."""
    return REQUESTS.labels(method, route, status), SECONDS.labels(route)


def route_of(scope: Scope) -> str:
    """Return the declared path of the route that served a request, `other` when none did."""
    return str(getattr(scope.get("route"), "path", OTHER))
