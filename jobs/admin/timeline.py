"""The timeline of one job: read, worked on, waits, retries, the end, and who was told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Final

from mailsift.events.retry import DeliveryState
from mailsift.jobs.views import JobView
from mailsift.pipeline.wording import counted
from mailsift.storage.sql.stats import ChunkHistory, DeliveryHistory, ObservedWait
from mailsift.storage.states import JobState


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened to a job, or will.

    Attributes:
        title: what, in a few words.
        detail: what there is to say beside it, "" for nothing.
        kind: how it went: `good`, `bad`, `warn`, or "" for neither.
    """

    at: datetime
    title: str
    detail: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """What the database knows of the course of a job.

    Attributes:
        step_at: when its reading or its finish was last begun.
        chunks: what happened to its chunks.
        waits: what waits, by reason.
        deliveries: who was told, and how that went.
    """

    step_at: datetime | None
    chunks: ChunkHistory
    waits: Sequence[ObservedWait]
    deliveries: Sequence[DeliveryHistory]


_WAITS: Final[Mapping[str, str]] = {
    "throttled": "the rate of a provider",
    "greylisted": "greylisting",
    "deferred": "servers that said later",
    "blocked": "providers that refuse us",
    "resolver": "a resolver to trust",
    "too_many_missing": "providers where too many do not exist",
    "our_network": "our network",
    "slow": "slow hosts",
    "budget": "their next turn",
    "error": "an error to pass",
}
_ENDS: Final = {
    JobState.COMPLETED: ("Completed", "good"),
    JobState.FAILED: ("Failed", "bad"),
    JobState.CANCELLED: ("Cancelled", "warn"),
}
_DELIVERED: Final[Mapping[str, tuple[str, str]]] = {
    DeliveryState.SUCCEEDED: ("Told", "good"),
    DeliveryState.EXHAUSTED: ("Gave up telling", "bad"),
    DeliveryState.SKIPPED: ("Did not tell", "warn"),
    DeliveryState.PENDING: ("Will tell", ""),
    DeliveryState.DELIVERING: ("Tells", ""),
}


def timeline(view: JobView, history: JobTimeline) -> list[TimelineEntry]:
    """Return what happened to a job and what is to come, in the order of time."""
    return sorted(_all_moments(view, history), key=lambda moment: moment.at)


def _all_moments(view: JobView, history: JobTimeline) -> Iterator[TimelineEntry]:
    chunks = history.chunks
    yield TimelineEntry(view.created_at, "Uploaded", view.name)
    if history.step_at is not None and view.state is JobState.INTAKE:
        yield TimelineEntry(history.step_at, "Reading began")
    if chunks.first_at is not None:
        counts = ((view.total, "row"), (view.addresses, "address"), (view.chunks, "chunk"))
        read = ", ".join(starmap(counted, counts))
        yield TimelineEntry(chunks.first_at, "Read, and the first chunk begun", read)
    for failed in chunks.failures:
        count, most = counted(failed.chunks, "chunk"), counted(failed.attempts, "try", "tries")
        text = f"{count}, up to {most}: {failed.error}"
        yield TimelineEntry(failed.last_at or view.created_at, "Tried again", text, "warn")
    if chunks.last_at is not None and chunks.done:
        yield TimelineEntry(
            chunks.last_at, "Last chunk begun so far", f"{chunks.done:,} of {view.chunks:,} are done"
        )
    for wait in history.waits:
        what = _WAITS.get(wait.reason, wait.reason.replace("_", " "))
        who = counted(wait.addresses, "address waits", "addresses wait")
        yield TimelineEntry(wait.until, "Goes on", f"{who} for {what}")
    if history.step_at is not None and view.state in {JobState.FINALIZING, JobState.COMPLETED}:
        yield TimelineEntry(history.step_at, "Finishing began")
    if view.finished_at is not None:
        title, kind = _ENDS[view.state]
        yield TimelineEntry(view.finished_at, title, view.error_detail or view.error_code, kind)
    yield from map(_delivery, history.deliveries)


def _delivery(one: DeliveryHistory) -> TimelineEntry:
    title, kind = _DELIVERED.get(one.state, (one.state, ""))
    tries = "" if not one.attempts else f", {counted(one.attempts, 'try', 'tries')}"
    return TimelineEntry(one.at, f"{title} {one.host}", f"{one.type}{tries}", kind)
