"""Traces for an OpenTelemetry collector.

The SDK is imported only where a collector is set: it needs the extra `otel`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from opentelemetry import trace

from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings

_PATH: Final = "/v1/traces"
_SECONDS: Final = 5.0
"""What one request to the collector may take."""


def check_tracing(settings: Settings) -> None:
    """Find out whether traces can be written, if they are wanted.

    Raises:
        MailsiftError: `otel_missing`.
    """
    if settings.otel_endpoint is not None and not _is_installed():
        text = 'MAILSIFT_OTEL_ENDPOINT is set, but OpenTelemetry is missing: pip install "mailsift[otel]".'
        raise MailsiftError("otel_missing", text)


@contextmanager
def traced(settings: Settings, role: str) -> Iterator[None]:
    """Write traces while the block runs, if they are wanted; once in a process.

    Not before a fork, for a thread sends them. The sampler and headers are OpenTelemetry's own settings.

    Raises:
        MailsiftError: `otel_missing`.
    """
    check_tracing(settings)
    if settings.otel_endpoint is None:
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - see above
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    about = {"service.name": f"mailsift-{role}", "service.version": version("mailsift")}
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=_url(settings.otel_endpoint), timeout=_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()  # sends what is left


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def _url(endpoint: str) -> str:
    """Return where to send spans: `http://host:4318` gets the usual path, a path of its own is kept."""
    scheme, _, rest = endpoint.rstrip("/").partition("://")
    return f"{scheme}://{rest}" if "/" in rest else f"{scheme}://{rest}{_PATH}"
