"""One attempt at a piece of work: its ids in every log line, a span while it lasts, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context

from structlog.contextvars import bind_contextvars

from jobs.commit import LeaseLostError
from jobs.meters import (
    ATTEMPTS,
    CLAIM,
    IN_FLIGHT,
    RUN,
    SLOTS,
    STEP_ATTEMPTS,
    STEP_RUN,
    UP,
    count_phases,
)
from jobs.stopwatch import Stopwatch
from pipeline.spans import Field, part, span
from storage.chunk_rows import SURVEY_LANE, ClaimedChunk
from storage.job_rows import ClaimedStep


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
    started = time.perf_counter()
    outcome = "stopped"
    with span("chunk", {**_ids(chunk), "addresses": chunk.addresses}, earlier=claimed) as shown:
        with part("claim", earlier=claimed):
            pass
        try:
            yield
            outcome = "done"
        except Exception as error:
            outcome = _outcome(error)
            shown.fail(type(error).__qualname__)
            raise
        finally:
            ATTEMPTS.add(outcome)
            RUN.observe(time.perf_counter() - started)
            count_phases(watch.seconds)


@contextmanager
def attempt_at_step(step: ClaimedStep) -> Iterator[None]:
    """Count and trace an intake or a finish."""
    started = time.perf_counter()
    outcome = "stopped"
    with span(f"job.{step.state}", _ids(step)) as shown:
        try:
            yield
            outcome = "done"
        except Exception as error:
            outcome = _outcome(error)
            shown.fail(type(error).__qualname__)
            raise
        finally:
            STEP_ATTEMPTS.add(step.state, outcome)
            STEP_RUN.observe(time.perf_counter() - started, step.state)


def show_process(*, slots: int, survey_slots: int) -> None:
    """Show that this process works, and how much it takes at a time."""
    UP.set(1)
    SLOTS.set(slots, "all")
    SLOTS.set(survey_slots, "survey")


def show_in_flight(held: Iterable[ClaimedChunk | ClaimedStep]) -> None:
    """Show what this process works on."""
    kinds = [_kind(one) for one in held]
    for kind in ("chunk", "survey", "step"):
        IN_FLIGHT.set(kinds.count(kind), kind)


def _kind(held: ClaimedChunk | ClaimedStep) -> str:
    if isinstance(held, ClaimedStep):
        return "step"
    return "survey" if held.lane == SURVEY_LANE else "chunk"


def _ids(held: ClaimedChunk | ClaimedStep) -> dict[str, Field]:
    if isinstance(held, ClaimedStep):
        return {"job": str(held.job_id), "lease": str(held.token)}
    return {"job": str(held.job_id), "chunk": held.n, "lease": str(held.lease_token)}


def _outcome(error: Exception) -> str:
    return "lease_lost" if isinstance(error, LeaseLostError) else "error"
