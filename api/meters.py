"""What the API counts: requests by route, and how fast they are answered."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from pipeline.meter import OTHER, Counter, Gauge, Histogram, Label, Merge, Meter

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ROUTE: Final = Label(
    "route", about="the path as it is declared, e.g. `/v1/bulk/jobs/{job_id:uuid}`, else `other`"
)

REQUESTS: Final = Counter(
    "mailsift_api_requests_total",
    "Requests that were answered",
    Label("method", (*_METHODS, OTHER)),
    _ROUTE,
    Label("status", about="the HTTP status; 0: the client went away before the answer"),
)
SECONDS: Final = Histogram(
    "mailsift_api_request_seconds", "How long requests took, until the last byte was handed over", _ROUTE
)
LOOP_LAG: Final = Gauge(
    "mailsift_api_loop_lag_seconds",
    "How long the event loop was blocked at worst in the last 15 seconds",
    merge=Merge.MOST,
)

METERS: Final[tuple[Meter, ...]] = (REQUESTS, SECONDS, LOOP_LAG)


def count_request(scope: Scope, status: int, seconds: float) -> None:
    """Count a request that is over; what names no route of ours is one route, whatever was asked for."""
    route = route_of(scope)
    method = scope["method"]
    REQUESTS.add(method if method in _METHODS else OTHER, route, str(status))
    SECONDS.observe(seconds, route)


def route_of(scope: Scope) -> str:
    """Return the declared path of the route that served a request, `other` when none did."""
    return str(getattr(scope.get("route"), "path", OTHER))
