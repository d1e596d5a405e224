"""What the API is made of; mailsift.wiring puts it together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request

from api.auth import Door
from events.endpoints import WebhookService
from jobs.queries import JobQueries
from jobs.schedules import ScheduleService
from jobs.service import JobService
from jobs.submissions import Submissions
from pipeline.clock import Clock
from pipeline.sift import Sifter


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything the operations use.

    Attributes:
        door: keys and quotas.
        sifter: the pipeline, for one address at a time.
        jobs, queries, submissions: what can be asked of jobs.
        webhooks, schedules: what can be asked of them.
        ready: raises a MailsiftError when a server that is needed does not answer.
        clock: seconds since the epoch.
        max_bytes: what an uploaded list may have.
    """

    door: Door
    sifter: Sifter
    jobs: JobService
    queries: JobQueries
    submissions: Submissions
    webhooks: WebhookService
    schedules: ScheduleService
    ready: Callable[[], Awaitable[None]]
    clock: Clock
    max_bytes: int


def parts_of(request: Request) -> ApiParts:
    """Return the parts of the application that serves the request."""
    parts: ApiParts = request.app.state.parts
    return parts
