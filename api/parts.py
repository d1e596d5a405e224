"""What the API is made of; mailsift.wiring puts it together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request

from api.auth import Door
from api.keys import KeyService
from api.people import People
from api.single import SingleValidator
from events.endpoints import WebhookService
from jobs.browse import Browser
from jobs.drafts import Drafts
from jobs.history import History
from jobs.operations.desk import Operations
from jobs.queries import JobQueries
from jobs.schedules import ScheduleService
from jobs.service import JobService
from jobs.submissions import Submissions
from pipeline.clock import Clock


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything the operations use.

    Attributes:
        door: keys and quotas.
        keys: what pages ask of API keys.
        people: who signs in to the pages.
        single: judges one address at a time.
        jobs, queries, submissions: what can be asked of jobs.
        drafts: lists that were uploaded but not started.
        browser, history: look at results, and at what else belongs to a job.
        webhooks, schedules: what can be asked of them.
        operations: what operators see and do.
        ready: raises a MailsiftError when a server that is needed does not answer.
        clock: seconds since the epoch.
        max_bytes: what an uploaded list may have.
    """

    door: Door
    keys: KeyService
    people: People
    single: SingleValidator
    jobs: JobService
    queries: JobQueries
    submissions: Submissions
    drafts: Drafts
    browser: Browser
    history: History
    webhooks: WebhookService
    schedules: ScheduleService
    operations: Operations
    ready: Callable[[], Awaitable[None]]
    clock: Clock
    max_bytes: int


def parts_of(request: Request) -> ApiParts:
    """Return the parts of the application that serves the request."""
    parts: ApiParts = request.app.state.parts
    return parts
