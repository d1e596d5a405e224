"""What the API is made of; mailsift.container puts it together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from mailsift.accounts.doors import Door
from mailsift.accounts.first_steps import FirstStepsService
from mailsift.accounts.keys import Caller, KeyService
from mailsift.accounts.links import People
from mailsift.accounts.usage import Budget, UsageMeter
from mailsift.accounts.widget import WidgetGate
from mailsift.api.http.auth import Authenticator, FloodGuard
from mailsift.api.http.idempotency import AnswerStore
from mailsift.events.endpoints import WebhookService
from mailsift.jobs.admin.actions import Operations
from mailsift.jobs.drafts import Drafts, ListUploads
from mailsift.jobs.erasure import Holdings
from mailsift.jobs.outcomes.accuracy import AccuracyService
from mailsift.jobs.outcomes.receivers import ReceiverService
from mailsift.jobs.outcomes.service import OutcomeService
from mailsift.jobs.outcomes.suppressions import SuppressionService
from mailsift.jobs.plans import Planner
from mailsift.jobs.policies import PolicyService
from mailsift.jobs.schedules import ScheduleService
from mailsift.jobs.service import JobService
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.single import SingleValidator


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything the operations use."""

    authenticator: Authenticator
    keys: KeyService
    people: People
    first_steps: FirstStepsService
    single: SingleValidator  # judges one address at a time
    test_single: SingleValidator  # the same in test mode
    jobs: JobService
    drafts: Drafts
    uploads: ListUploads
    plans: Planner
    webhooks: WebhookService
    schedules: ScheduleService
    operations: Operations
    outcomes: OutcomeService
    policies: PolicyService
    suppressions: SuppressionService
    receivers: ReceiverService
    floods: FloodGuard
    accuracy: AccuracyService
    holdings: Holdings
    usage: UsageMeter
    budget: Budget
    widget: WidgetGate
    answers: AnswerStore
    ready: Callable[[], Awaitable[None]]  # raises when a server that is needed does not answer
    clock: Clock
    max_bytes: int  # of an uploaded list
    doors: tuple[Door, ...]  # those that are open
    probing: Callable[[], dict[str, Any]]  # what /probing tells; may wait for a resolver
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the API ends, which waits for requests under way; those that wait themselves end."""

    async def ends_within(self, seconds: float) -> bool:
        """Wait for so long; return at once, and True, when the API ends."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ending.wait(), seconds)
        return self.ending.is_set()

    def single_of(self, caller: Caller) -> SingleValidator:
        """Return what judges one address at a time for this caller."""
        return self.test_single if caller.test else self.single


def parts_of(request: Request) -> ApiParts:
    """Return the parts of the application that serves the request."""
    parts: ApiParts = request.app.state.parts
    return parts
