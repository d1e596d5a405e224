"""One attempt at a piece of work: its ids in every log line, a span while it lasts, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context

from structlog.contextvars import bind_contextvars

from mailsift.jobs.metrics import (
    ATTEMPTS,
    CLAIM,
    IN_FLIGHT,
    PHASES,
    RUN,
    SLOTS,
    STEP_ATTEMPTS,
    STEP_RUN,
    UP,
)
from mailsift.jobs.tracing import Stopwatch, open_part, open_span
from mailsift.pipeline.errors import PANIC
from mailsift.storage.sql.chunks import TRIAGE_KEY, ClaimedChunk
from mailsift.storage.sql.jobs import ClaimedStep
from mailsift.storage.sql.leases import LeaseLostError


def context_of(held: ClaimedChunk | ClaimedStep) -> Context:
    """Return a context for a task whose log lines all carry the ids of what it works on."""
    context = copy_context()
    context.run(bind_contextvars, **_ids(held))
    return context


@contextmanager
def attempt_at_chunk(chunk: ClaimedChunk, watch: Stopwatch) -> Iterator[None]:
    """Count and trace the work of a chunk, from its claim on."""
    claimed = watch.seconds.get("claim", 0.0)
    CLAIM.observe(claimed)

    def count(outcome: str, seconds: float) -> None:
        ATTEMPTS.labels(outcome).inc()
        RUN.observe(seconds)
        for phase, spent in watch.seconds.items():
            PHASES.labels(phase).inc(spent)

    with open_span("chunk", {**_ids(chunk), "addresses": chunk.addresses}, earlier=claimed):
        with open_part("claim", earlier=claimed):
            pass
        with _counted(count):
            yield


@contextmanager
def attempt_at_step(step: ClaimedStep) -> Iterator[None]:
    """Count and trace an intake or a finish."""

    def count(outcome: str, seconds: float) -> None:
        STEP_ATTEMPTS.labels(step.state, outcome).inc()
        STEP_RUN.labels(step.state).observe(seconds)

    with open_span(f"job.{step.state}", _ids(step)), _counted(count):
        yield


@contextmanager
def _counted(count: Callable[[str, float], None]) -> Iterator[None]:
    """Hand the outcome of what is done meanwhile, and the seconds it took, to `count`."""
    started, outcome = time.perf_counter(), "stopped"
    try:
        with _panics_as_errors():
            yield
        outcome = "done"
    except Exception as error:
        outcome = "lease_lost" if isinstance(error, LeaseLostError) else "error"
        raise
    finally:
        count(outcome, time.perf_counter() - started)


class FramesFailedError(Exception):
    """polars panicked."""


@contextmanager
def _panics_as_errors() -> Iterator[None]:
    """Raise an error for a panic of polars': that is none, and passes by who takes care of what breaks."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise FramesFailedError().with_traceback(error.__traceback__) from error


def set_process_gauges(*, slots: int, triage_slots: int) -> None:
    """Show that this process works, and how much it takes at a time."""
    UP.set(1)
    SLOTS.labels("all").set(slots)
    SLOTS.labels("survey").set(triage_slots)


def set_in_flight_gauges(held: Iterable[ClaimedChunk | ClaimedStep]) -> None:
    """Show what this process works on."""
    kinds = [_kind(one) for one in held]
    for kind in ("chunk", "survey", "step"):
        IN_FLIGHT.labels(kind).set(kinds.count(kind))


def _kind(held: ClaimedChunk | ClaimedStep) -> str:
    if isinstance(held, ClaimedStep):
        return "step"
    return "survey" if held.throttle_key == TRIAGE_KEY else "chunk"


def _ids(held: ClaimedChunk | ClaimedStep) -> dict[str, str | int]:
    if isinstance(held, ClaimedStep):
        return {"job": str(held.job_id), "lease": str(held.token)}
    return {"job": str(held.job_id), "chunk": held.n, "lease": str(held.lease_token)}
