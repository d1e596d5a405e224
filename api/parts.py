"""What the API is made of; mailsift.container puts it together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request

from mailsift.accounts.budgets import Budget
from mailsift.accounts.doors import Door
from mailsift.accounts.first_steps import FirstStepsService
from mailsift.accounts.keys import KeyService
from mailsift.accounts.service import People
from mailsift.accounts.usage import UsageMeter
from mailsift.accounts.widget import WidgetGate
from mailsift.api.http.auth import Authenticator
from mailsift.api.http.floods import FloodGuard
from mailsift.api.http.idempotency import AnswerStore
from mailsift.events.endpoints import WebhookService
from mailsift.jobs.admin.service import Operations
from mailsift.jobs.drafts import Drafts
from mailsift.jobs.holdings import Holdings
from mailsift.jobs.outcomes.accuracy import AccuracyService
from mailsift.jobs.outcomes.receivers import ReceiverService
from mailsift.jobs.outcomes.service import OutcomeService
from mailsift.jobs.outcomes.suppressions import SuppressionService
from mailsift.jobs.plans import Planner
from mailsift.jobs.policies import PolicyService
from mailsift.jobs.schedules.service import ScheduleService
from mailsift.jobs.service import JobService
from mailsift.jobs.uploads import ListUploads
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.single import SingleValidator


@dataclass(frozen=True, slots=True)
class ProbingNotice:
    """What mail servers' owners are told: the name that asks them, and whom to write to."""

    helo_name: str
    contact: str


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything the operations use.

    Attributes:
        authenticator: keys and quotas.
        keys: what pages ask of API keys.
        people: who signs in to the pages.
        first_steps: what new accounts have to do.
        single: judges one address at a time.
        test_single: the same in test mode.
        jobs: what can be asked of jobs.
        drafts: lists that were uploaded but not started.
        uploads: lists that come in piece by piece.
        plans: what lists will take.
        webhooks, schedules: what can be asked of them.
        operations: what operators see and do.
        outcomes: what became of messages that accounts sent.
        policies: what accounts want done with verdicts.
        suppressions: to whom accounts may not send.
        receivers: where mail senders tell of it.
        floods: keeps off who floods those.
        accuracy: how verdicts held.
        holdings: what is kept of accounts.
        usage: what accounts use.
        budget: what keys may ask over MCP.
        widget: lets visitors of forms ask.
        answers: what requests with an Idempotency-Key were answered.
        ready: raises a MailsiftError when a server that is needed does not answer.
        clock: seconds since the epoch.
        max_bytes: what an uploaded list may have.
        doors: the doors that are open.
        probing: what mail servers' owners are told.
    """

    authenticator: Authenticator
    keys: KeyService
    people: People
    first_steps: FirstStepsService
    single: SingleValidator
    test_single: SingleValidator
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
    ready: Callable[[], Awaitable[None]]
    clock: Clock
    max_bytes: int
    doors: tuple[Door, ...]
    probing: ProbingNotice


def parts_of(request: Request) -> ApiParts:
    """Return the parts of the application that serves the request."""
    parts: ApiParts = request.app.state.parts
    return parts
