"""Who is being worked for, in every log line, and how long it takes, in a trace when one is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol, TypeAlias

from structlog.contextvars import bound_contextvars

Field: TypeAlias = str | int | float


class Span(Protocol):
    """A stretch of work under way.

    Attributes:
        trace: the id of the whole it is part of, 32 hexadecimal digits; "" when no trace is written.
    """

    @property
    def trace(self) -> str:
        """See above."""
        ...

    def name(self, text: str) -> None:
        """Call it something better than at its start."""
        ...

    def tell(self, **fields: Field) -> None:
        """Add what is known by now; never an address."""
        ...

    def fail(self, error: str) -> None:
        """Mark it as failed, by the class of the error: its text may hold anything."""
        ...


class Tracer(Protocol):
    """Writes traces."""

    def span(
        self, name: str, fields: Mapping[str, Field], *, parent: str, earlier: float
    ) -> AbstractContextManager[Span]:
        """Write one span; `parent` is a W3C traceparent or "", `earlier` how many seconds ago it began."""
        ...

    def current(self) -> Span | None:
        """Return the span this task is within, if it is within one."""
        ...


class _Idle:
    trace = ""

    def name(self, text: str) -> None: ...
    def tell(self, **fields: Field) -> None: ...
    def fail(self, error: str) -> None: ...


_NOBODY: Final[Span] = _Idle()
_IDLE: Final = nullcontext(_NOBODY)


class _Place:
    tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Write the traces of this process with this tracer from now on; None: none."""
    _Place.tracer = tracer


def span(
    name: str, fields: Mapping[str, Field], *, parent: str = "", earlier: float = 0.0
) -> AbstractContextManager[Span]:
    """Open a span for the time of the block.

    Args:
        name: what is done, from a small set.
        fields: ids and sizes, never an address.
        parent: the caller's `traceparent` header, "" when there is none.
        earlier: seconds that the work had been going on before.
    """
    if _Place.tracer is None:
        return _IDLE
    return _Place.tracer.span(name, fields, parent=parent, earlier=earlier)


def part(name: str, *, earlier: float = 0.0) -> AbstractContextManager[Span]:
    """Open a span within the one under way; without one there is nothing to be a part of."""
    if _Place.tracer is None or _Place.tracer.current() is None:
        return _IDLE
    return _Place.tracer.span(name, {}, parent="", earlier=earlier)


def current() -> Span:
    """Return the span under way, to tell it more."""
    return (_Place.tracer and _Place.tracer.current()) or _NOBODY


@contextmanager
def working_on(name: str, ids: Mapping[str, Field], *, parent: str = "") -> Iterator[Span]:
    """Put the ids into every log line of the block, and into a span that lasts as long."""
    with bound_contextvars(**ids), span(name, ids, parent=parent) as opened:
        yield opened
