"""Traces for an OpenTelemetry collector; imported only where one is set, for it needs the extra `otel`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from typing_extensions import override

from pipeline.clock import system_clock
from pipeline.spans import Field, Span, Tracer

_PATH: Final = "/v1/traces"
_SECONDS: Final = 5.0
"""What one request to the collector may take."""
_PREFIX: Final = "mailsift."
_PARENTS: Final = TraceContextTextMapPropagator()


class _Shown(Span):
    """A span of OpenTelemetry with the words of the house."""

    def __init__(self, shown: trace.Span) -> None:
        self._shown = shown

    @property
    @override
    def trace(self) -> str:
        return trace.format_trace_id(self._shown.get_span_context().trace_id)

    @override
    def name(self, text: str) -> None:
        self._shown.update_name(text)

    @override
    def tell(self, **fields: Field) -> None:
        self._shown.set_attributes(_attributes(fields))

    @override
    def fail(self, error: str) -> None:
        self._shown.set_status(StatusCode.ERROR)
        self._shown.set_attribute("error.type", error)


class OtelTracer(Tracer):
    """Sends the spans of this process in batches; the sampler and headers are OpenTelemetry's own settings.

    Args:
        endpoint: of the collector, `http://host:4318`; a path of its own is kept.
        role: what this process is.
    """

    def __init__(self, endpoint: str, role: str) -> None:
        scheme, _, rest = endpoint.rstrip("/").partition("://")
        url = f"{scheme}://{rest}" if "/" in rest else f"{scheme}://{rest}{_PATH}"
        about = {"service.name": f"mailsift-{role}", "service.version": version("mailsift")}
        self._provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=_SECONDS))
        )
        self._tracer = self._provider.get_tracer("mailsift")

    @override
    @contextmanager
    def span(self, name: str, fields: Mapping[str, Field], *, parent: str, earlier: float) -> Iterator[Span]:
        caller = _PARENTS.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(
            name,
            context=caller,
            attributes=_attributes(fields),
            start_time=int((system_clock() - earlier) * 1e9),
            record_exception=False,  # its words may hold anything
            set_status_on_exception=False,
        ) as opened:
            shown = _Shown(opened)
            try:
                yield shown
            except Exception as error:
                shown.fail(type(error).__qualname__)
                raise

    @override
    def current(self) -> Span | None:
        found = trace.get_current_span()
        return _Shown(found) if found.get_span_context().is_valid else None

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _attributes(fields: Mapping[str, Field]) -> dict[str, Field]:
    return {f"{_PREFIX}{name}": value for name, value in fields.items()}
