"""What the API is made of; mailsift.container puts it together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request

from mailsift.accounts.doors import Door
from mailsift.accounts.first_steps import FirstStepsService
from mailsift.accounts.keys import Caller, KeyService
from mailsift.accounts.links import Links
from mailsift.accounts.people import Members
from mailsift.accounts.sessions import Sessions
from mailsift.accounts.usage import Budget, UsageMeter
from mailsift.accounts.widget import WidgetGate
from mailsift.api.http.auth import Authenticator, FloodGuard
from mailsift.api.http.idempotency import AnswerStore
from mailsift.events.endpoints import WebhookService
from mailsift.jobs.admin.service import Operations
from mailsift.jobs.drafts import Drafts
from mailsift.jobs.erasure import Holdings
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
from mailsift.storage.redis.rate_limit import RateLimit

if TYPE_CHECKING:
    from mailsift.accounts.sso import SingleSignOn


@dataclass(frozen=True, slots=True)
class People:
    """Everything about people.

    Attributes:
        sessions: signing in and out, passwords.
        links: one-time links, invitations among them, are made and used.
        members: roles, retention, the audit log.
        limit: counts what must not be asked too often.
        sso: signs people in by a provider, where one is configured.
        sso_name: what the provider is called on the button.
        public_url: how browsers reach the pages, without a slash at its end; "" = as the browser says.
    """

    sessions: Sessions
    links: Links
    members: Members
    limit: RateLimit
    public_url: str = ""
    sso: SingleSignOn | None = None
    sso_name: str = ""


@dataclass(frozen=True, slots=True)
class ProbingNotice:
    """What mail servers' owners are told: the name that asks them, and whom to write to."""

    helo_name: str
    contact: str


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything the operations use.

    Attributes:
        single, test_single: judge one address at a time; the other one in test mode.
        ready: raises a MailsiftError when a server that is needed does not answer.
        max_bytes: what an uploaded list may have.
        doors: the doors that are open.
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

    def single_of(self, caller: Caller) -> SingleValidator:
        """Return what judges one address at a time for this caller."""
        return self.test_single if caller.test else self.single


def parts_of(request: Request) -> ApiParts:
    """Return the parts of the application that serves the request."""
    parts: ApiParts = request.app.state.parts
    return parts
