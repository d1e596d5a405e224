"""Spans of OpenTelemetry around pieces of work, and where the time of one goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.contextvars import bound_contextvars

from mailsift.pipeline.clock import system_clock

_TRACER: Final = trace.get_tracer(__name__)
_TRACE_CONTEXT: Final = TraceContextTextMapPropagator()


def open_span(
    name: str, ids: Mapping[str, str | int], *, parent: str = "", earlier: float = 0.0
) -> AbstractContextManager[Span]:
    """Open a span for the time of the block; log lines in it name its trace.

    An exception that leaves the block marks it as failed by its class alone: its text may hold anything.

    Args:
        name: what is done, from a small set.
        ids: and sizes, never an address.
        parent: the caller's `traceparent` header, "" when there is none.
        earlier: seconds that the work had been going on before.
    """
    if not parent and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return nullcontext(trace.get_current_span())  # nobody records anything
    return _open_recorded(name, ids, parent, earlier)


@contextmanager
def _open_recorded(name: str, ids: Mapping[str, str | int], parent: str, earlier: float) -> Iterator[Span]:
    with _TRACER.start_as_current_span(
        name,
        context=_TRACE_CONTEXT.extract({"traceparent": parent}) if parent else None,
        attributes={f"mailsift.{key}": value for key, value in ids.items()},
        start_time=int((system_clock() - earlier) * 1e9),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            with _trace_in_logs(span):
                yield span
        except Exception as error:
            fail(span, type(error).__qualname__)
            raise


def open_part(name: str, *, earlier: float = 0.0) -> AbstractContextManager[object]:
    """Open a span within the one under way; without one there is nothing to be a part of."""
    if not trace.get_current_span().is_recording():
        return nullcontext()
    return open_span(name, {}, earlier=earlier)


def fail(span: Span, error: str) -> None:
    """Mark a span as failed, by the class of the error."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", error)


def _trace_in_logs(span: Span) -> AbstractContextManager[object]:
    context = span.get_span_context()
    if not context.is_valid:
        return nullcontext()
    return bound_contextvars(trace=trace.format_trace_id(context.trace_id))


class Stopwatch:
    """Adds up the seconds spent in named phases, each a part of the span under way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block to a phase."""
        started = time.perf_counter()
        try:
            with open_part(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def fields(self) -> dict[str, float]:
        """Return milliseconds by phase, named for the log."""
        return {f"{name}_ms": round(1000 * seconds, 2) for name, seconds in self.seconds.items()}
