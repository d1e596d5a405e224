"""What operators do: every change is written into the audit log, with it or not at all.

To workers, leases, chunks and deliveries; to jobs; and to how providers and domains are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID

from mailsift.events import audit
from mailsift.jobs.admin.console import Console, InstallationReader, domain_of, provider_key
from mailsift.jobs.engine.end import cancel_job
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.metrics import JOBS_ENDED
from mailsift.jobs.rates import FleetConfig
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, Priority
from mailsift.jobs.waker import Waker
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import provider_by_name
from mailsift.storage.database import Connection, Database
from mailsift.storage.redis.connection import Client, ClientError, redis_unavailable
from mailsift.storage.redis.facts import FactInspector
from mailsift.storage.redis.throttle import ThrottleInspector
from mailsift.storage.sql import chunks, deliveries, jobs, people, throttles, workers
from mailsift.storage.sql.jobs import JobFilter
from mailsift.storage.sql.throttles import (
    ANY_PROVIDER,
    ANY_SOURCE,
    MOST_RAISE,
    OptedOut,
    ThrottleEdit,
    most_sessions,
)
from mailsift.storage.states import JobTransition


class Actions:
    """Changes workers, leases, chunks and deliveries; `actor` says who does: an address, or `cli`."""

    def __init__(self, *, database: Database, waker: Waker, clock: Clock) -> None:
        self._database = database
        self._waker = waker
        self._clock = clock

    async def drain(
        self,
        actor: str,
        *,
        drain: bool,
        owners: Collection[str] = (),
        hosts: Collection[str] = (),
        everywhere: bool = False,
    ) -> Sequence[str]:
        """Let whole workers claim nothing more, or claim again, from their next heartbeat on.

        Returns the processes that were told something new.
        """
        async with self._database.begin() as connection:
            changed = await workers.drain(
                connection, drain=drain, owners=owners, hosts=hosts, everywhere=everywhere
            )
            for owner in changed:
                action = "worker.drain" if drain else "worker.undrain"
                await people.audit_operation(connection, actor, action, owner)
        return changed

    async def take_back(self, actor: str, tokens: Sequence[UUID] | None = None) -> int:
        """End these leases, or all that have run out, so that somebody else claims the work at once.

        Who still works on it finds the lease gone and throws its work away. Returns how many there were.
        """

        async def transaction(connection: Connection) -> int:
            chosen = await chunks.expired_leases(connection) if tokens is None else tokens
            taken = await chunks.take_back_leases(connection, chosen)
            for job_id, n in taken:
                await people.audit_operation(connection, actor, "lease.take_back", str(job_id), chunk=n)
            return len(taken)

        count = await self._database.run(transaction)
        await self._waker.wake(count)
        return count

    async def start_afresh(self, actor: str, job_id: UUID, n: int) -> None:
        """Let a chunk that was given up again and again be tried now, with all its attempts.

        Raises:
            MailsiftError: `chunk_not_waiting`.
        """
        async with self._database.begin() as connection:
            if not await chunks.start_afresh(connection, job_id, n):
                raise MailsiftError("chunk_not_waiting", "This chunk is being worked on or is already done.")
            await people.audit_operation(connection, actor, "chunk.start_afresh", str(job_id), chunk=n)
        await self._waker.wake(1)

    async def replay(self, actor: str, endpoint_id: UUID, *, hours: float) -> int:
        """Make due what was given up at an endpoint in the last hours; returns how many deliveries.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_disabled`.
        """
        now = utc_datetime(self._clock())
        async with self._database.begin() as connection:
            endpoint = await deliveries.get_endpoint(connection, endpoint_id)
            if endpoint is None:
                raise MailsiftError("webhook_not_found", "There is no such endpoint.")
            if not endpoint["enabled"]:
                raise MailsiftError(
                    "webhook_disabled", "This endpoint is disabled, so nothing is sent to it."
                )
            count = await deliveries.redeliver_failed(
                connection, endpoint_id, since=now - timedelta(hours=hours), now=now
            )
            detail = {"deliveries": count, "hours": hours}
            await audit.record(
                connection, endpoint["account_id"], actor, "delivery.replay", str(endpoint_id), **detail
            )
        await self._waker.wake(min(count, 1))
        return count

    async def wake(self, actor: str, count: int) -> None:
        """Send wake-ups by hand; harmless, as a worker that finds nothing goes back to sleep."""
        await self._database.run(people.audit_operation, actor, "worker.wake", count=count)
        await self._waker.wake(count)


class JobAction(StrEnum):
    """What may be done."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    RAISE = "priority_high"
    LEVEL = "priority_normal"
    LOWER = "priority_low"


MOST_AT_ONCE: Final[Mapping[JobAction, int]] = dict.fromkeys(JobAction, 5_000) | {
    JobAction.RETRY: 50,
    JobAction.RESTART: 500,
}
"""How many jobs one order reaches: a retry reads the results of its job, a restart copies its list."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an order.

    Attributes:
        done: jobs that were changed.
        refused: jobs that could not be, by code: most are in a state that does not allow it.
    """

    done: int
    refused: Mapping[str, int]


class JobActions:
    """Changes jobs of any account; `actor` says who does: an address, or `cli`."""

    def __init__(self, *, database: Database, jobs: JobService, waker: Waker) -> None:
        self._database = database
        self._jobs = jobs
        self._waker = waker

    async def one(self, actor: str, action: JobAction, job_id: JobId) -> None:
        """Do it to one job.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`, and what a retry may raise.
        """
        row = await self._database.run(jobs.get, job_id)
        if row is None:
            raise jobs.job_not_found()
        await self._do(actor, action, JobId(row["id"]), AccountId(row["account_id"]))
        await self._waker.wake(1)

    async def all_matching(self, actor: str, action: JobAction, wanted: JobFilter) -> ActionResult:
        """Do it to every job that matches, oldest first; those it is not allowed for are counted.

        A restart reaches those only that failed for reasons of ours and were not run again.

        Raises:
            MailsiftError: `too_many_jobs`; nothing was done then.
        """
        if action is JobAction.RESTART:
            wanted = replace(wanted, broken_but=LIST_FAULTS)
        most = MOST_AT_ONCE[action]
        found = await self._database.run(jobs.matching_ids, wanted, limit=most + 1)
        if len(found) > most:
            text = f"More than {most:,} jobs match, the most one order may reach: narrow the filter."
            raise MailsiftError("too_many_jobs", text)
        done, refused = 0, Counter[str]()
        for job_id, account_id in found:
            try:
                await self._do(actor, action, JobId(job_id), AccountId(account_id))
                done += 1
            except MailsiftError as error:
                refused[error.code] += 1
        await self._database.run(
            people.audit_operation, actor, f"jobs.{action.value}", jobs=done, **_asked_for(wanted)
        )
        await self._waker.wake(min(done, 4))
        return ActionResult(done, dict(refused))

    async def _do(self, actor: str, action: JobAction, job_id: JobId, account: AccountId) -> None:
        line = (account, actor, f"job.{action.value}", str(job_id))
        if action in {JobAction.RETRY, JobAction.RESTART}:
            again = self._jobs.retry if action is JobAction.RETRY else self._jobs.restart
            made = await again(account, job_id)
            await self._database.run(audit.record, *line, job=str(made))
            return

        async def transaction(connection: Connection) -> None:
            if not await _CHANGES[action](connection, job_id):
                raise MailsiftError(
                    "job_state_conflict", f"This job can’t be changed like this now: {action.value}."
                )
            await audit.record(connection, *line)

        await self._database.run(transaction)
        if action is JobAction.CANCEL:
            JOBS_ENDED.labels(JobTransition.CANCEL.target).inc()


def _asked_for(wanted: JobFilter) -> dict[str, Any]:
    filters = {
        "states": list(wanted.states),
        "account": wanted.account,
        "text": wanted.text,
        "after": wanted.after and wanted.after.isoformat(timespec="seconds"),
        "before": wanted.before and wanted.before.isoformat(timespec="seconds"),
    }
    return {name: value for name, value in filters.items() if value}


_CHANGES: Final[Mapping[JobAction, Callable[[Connection, UUID], Awaitable[bool]]]] = {
    JobAction.PAUSE: jobs.pause,
    JobAction.RESUME: jobs.resume,
    JobAction.CANCEL: partial(cancel_job, by="an operator"),
    JobAction.RAISE: partial(jobs.set_priority, priority=Priority.HIGH),
    JobAction.LEVEL: partial(jobs.set_priority, priority=Priority.NORMAL),
    JobAction.LOWER: partial(jobs.set_priority, priority=Priority.LOW),
}


_LONGEST_NOTE: Final = 200
_OF_TABLE: Final = "as in the table"
_LONGEST_HOLD: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider is to be asked with; None = what its row says."""

    rate: float | None
    sessions: int | None
    note: str = ""


class ThrottleAdmin:
    """Changes what the throttle allows and what is remembered; `actor` says who does."""

    def __init__(self, *, database: Database, redis: Client, waker: Waker, fleet: FleetConfig) -> None:
        self._database = database
        self._waker = waker
        self._fleet = fleet
        self._desk = ThrottleInspector(redis)
        self._facts = FactInspector(redis)

    async def edit_limits(self, actor: str, provider: str, source: str, limits: ProviderLimits) -> None:
        """Change how a provider is asked from a source, in all processes within seconds.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `bad_limit` above what the table doubled allows.
        """
        edit = await self._edit(actor, self._asked(provider), source, limits.note)
        self._check(edit.provider, limits)
        async with self._database.begin() as connection:
            await throttles.put_edit(connection, replace(edit, rate=limits.rate, sessions=limits.sessions))
            recorded = {"rate": limits.rate or _OF_TABLE, "sessions": limits.sessions or _OF_TABLE}
            await _record(connection, "throttle.edit", edit, **recorded)

    async def hold(self, actor: str, provider: str, source: str, *, seconds: float, note: str = "") -> None:
        """Ask a provider nothing more for so many seconds, 0 = until `let_go`; sessions that run may end.

        The provider `*` is every one: that holds a source.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `bad_limit`.
        """
        if not 0 <= seconds <= _LONGEST_HOLD:
            raise MailsiftError("bad_limit", "A hold can last at most 30 days, or until somebody ends it.")
        edit = await self._edit(actor, self._asked(provider), source, note)
        async with self._database.begin() as connection:
            await throttles.hold(connection, edit, seconds=seconds)
            await _record(connection, "throttle.hold", edit, seconds=seconds)

    async def let_go(self, actor: str, provider: str, source: str) -> bool:
        """End a hold; what waits is looked at again once every process knows. False: it was not held.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`.
        """
        edit = await self._edit(actor, provider, source, "")
        async with self._database.begin() as connection:
            done = await throttles.let_go(
                connection, provider=edit.provider, source=edit.source, edited_by=actor
            )
            if done:
                await _record(connection, "throttle.let_go", edit)
        await self._waker.wake(int(done))
        return done

    async def reset(self, actor: str, provider: str, source: str) -> int:
        """Forget what was learned of a provider: rate, penalties, refusals; returns at how many sources.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `redis_unavailable`.
        """
        edit = await self._edit(actor, provider, source, "")
        everywhere = {*self._fleet.sources, *await self._database.run(self._fleet.identities)}
        places = everywhere if edit.source == ANY_SOURCE else {edit.source}
        try:
            known = [await self._desk.reset(edit.provider, one) for one in places]
        except ClientError:
            raise redis_unavailable() from None
        async with self._database.begin() as connection:
            await throttles.wake_sources(connection, provider=edit.provider, source=edit.source)
            await _record(connection, "throttle.reset", edit)
        return sum(known)

    async def forget(self, actor: str, name: str) -> int:
        """Forget what is remembered of a domain; returns how many facts there were.

        Raises:
            MailsiftError: `bad_domain`, `redis_unavailable`.
        """
        domain = domain_of(name)
        try:
            gone = await self._facts.forget(domain)
        except ClientError:
            raise redis_unavailable() from None
        await self._database.run(people.audit_operation, actor, "facts.forget", domain, facts=gone)
        return gone

    async def opt_outs(self) -> Sequence[OptedOut]:
        """Return the domains that do not want to be asked; those of the file are not among them."""
        return await self._database.run(throttles.opted_out)

    async def opt_out(self, actor: str, name: str, *, note: str) -> str:
        """Ask a domain, and what is below it, nothing more; returns it as it is written down.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain, short_note = domain_of(name), note.strip()[:_LONGEST_NOTE]
        async with self._database.begin() as connection:
            await throttles.add_opt_out(connection, domain, note=short_note, added_by=actor)
            await people.audit_operation(connection, actor, "opt_out.add", domain, note=short_note)
        return domain

    async def opt_in(self, actor: str, name: str) -> bool:
        """Let a domain be asked again. False: it had not opted out.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain = domain_of(name)
        async with self._database.begin() as connection:
            gone = await throttles.remove_opt_out(connection, domain)
            if gone:
                await people.audit_operation(connection, actor, "opt_out.remove", domain)
        return gone

    async def _edit(self, actor: str, provider: str, source: str, note: str) -> ThrottleEdit:
        await self._database.run(self._fleet.check_source, source)
        return ThrottleEdit(
            provider_key(provider), source, note=note.strip()[:_LONGEST_NOTE], edited_by=actor
        )

    def _asked(self, provider: str) -> str:
        """Return the key of a provider that may be asked: a change of any other would do nothing."""
        key, table = provider_key(provider), self._fleet.providers
        if key == ANY_PROVIDER or table.knows(key):
            return key
        meant = (provider_by_name(key) or table.key_of([key])) if "." in key else table.nearest(key)
        if meant != key:
            hint = f": do you mean {meant}?" if meant else "; name one of the table, or a mail host’s domain."
            raise MailsiftError("bad_provider", f"No mail server is asked under the name {key}{hint}")
        return key

    def _check(self, provider: str, limits: ProviderLimits) -> None:
        if provider == ANY_PROVIDER:
            raise MailsiftError(
                "bad_provider", "Limits belong to a provider. A source as a whole can only be held."
            )
        row = self._fleet.providers.row(provider)
        highest, most = row.rate * MOST_RAISE, most_sessions(row)
        if limits.rate is not None and not 0 < limits.rate <= highest:
            text = f"The rate is above 0 and at most {highest:g}, twice what the provider table allows."
            raise MailsiftError("bad_limit", text)
        if limits.sessions is not None and not 0 < limits.sessions <= most:
            text = f"There is at least 1 session and at most {most}, twice what the provider table allows."
            raise MailsiftError("bad_limit", text)


async def _record(connection: Connection, action: str, edit: ThrottleEdit, **detail: Any) -> None:
    """Write down what was done about a provider at a source, in the words of a place."""
    source = "every source" if edit.source == ANY_SOURCE else edit.source or "the default route"
    noted = detail | ({"note": edit.note} if edit.note else {})
    await people.audit_operation(connection, edit.edited_by, action, f"{edit.provider} at {source}", **noted)


@dataclass(frozen=True, slots=True)
class Operations:
    """What pages and terminal use.

    Attributes:
        reader: reads what the alarms look at.
        jobs, throttles, actions: to change jobs; providers and domains; workers, leases and deliveries.
    """

    console: Console
    reader: InstallationReader
    jobs: JobActions
    throttles: ThrottleAdmin
    actions: Actions
