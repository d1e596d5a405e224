"""An installation after some weeks: people, keys, webhooks, schedules, and jobs in every state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from mailsift.accounts.keys import DAY, Scope
from mailsift.accounts.people import Role
from mailsift.api.parts import ApiParts
from mailsift.events.audit import act_as
from mailsift.events.payloads import SimulatedEvent
from mailsift.jobs.schedules import Recheck, ScheduleSpec
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.outcomes.senders import SenderKind
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from tests.support.installation import ended, open_parts, until
from tests.support.parts import open_database
from tests.support.receiver import receiving, status

ACCOUNT = "Analytical Engines"
OWNER, PASSWORD = "ada@example.com", "correct horse battery staple"
SEED, DOMAINS = 7, 300
OVERRIDES = """\
[limits]
rate = 30
burst = 60
"""
"""A rate at which a large list takes a while: there is always a job that runs."""

_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Things:
    """What is in the account, for the paths of its pages."""

    completed: JobId
    rerun: JobId
    running: JobId
    failed: JobId
    draft: JobId
    key: UUID
    webhook: UUID
    delivery: UUID
    schedule: UUID
    receiver: UUID


@asynccontextmanager
async def furnished(settings: Settings) -> AsyncIterator[Things]:
    """Fill the installation; a worker runs beside. The receivers of its webhooks live as long as this."""
    async with (
        open_parts(settings) as parts,
        receiving(status(200, body=b"ok")) as good,
        receiving(status(503, body=b"<h1>Service unavailable</h1>\nplease come back later")) as bad,
    ):
        account = await parts.jobs.account(ACCOUNT)
        await _people(parts)
        act_as("grace@example.com")
        webhook, delivery = await _webhooks(parts, account, good.url, bad.url)
        act_as(OWNER)
        key = await _keys(parts, account)
        completed, rerun, failed = await _ended_jobs(parts, account, settings.home)
        schedule = await _schedules(parts, account, completed)
        running = await _open_jobs(parts, account, settings.home)
        draft = await _draft(parts, account, settings.home)
        receiver, _ = await parts.receivers.create(account, SenderKind.BREVO, name="Newsletters")
        await _age(settings)
        yield Things(completed, rerun, running, failed, draft, key, webhook, delivery, schedule, receiver.id)


async def _people(parts: ApiParts) -> None:
    links = parts.people.links
    await links.add_member(ACCOUNT, OWNER, Role.OWNER, PASSWORD, operator=True)
    await links.add_member(ACCOUNT, "grace@example.com", Role.MEMBER, PASSWORD, operator=False)
    await links.add_member(ACCOUNT, "charles@example.com", Role.VIEWER, PASSWORD, operator=False)
    await links.invite_from_terminal(ACCOUNT, "mary@example.com", Role.MEMBER)


async def _keys(parts: ApiParts, account: AccountId) -> UUID:
    reading = (Scope.JOBS_READ, Scope.WEBHOOKS_READ)
    shop = await parts.keys.create(account, name="Sign-up form of the shop", scopes=(Scope.VALIDATE,))
    await parts.keys.find(shop.secret)
    await parts.keys.create(account, name="Reporting", scopes=reading, lifetime=90 * DAY)
    newsletter = await parts.keys.create(account, name="Newsletter server")
    await parts.keys.roll(account, newsletter.row.id)
    old = await parts.keys.create(account, name="Trial")
    await parts.keys.revoke(account, old.row.id)
    return shop.row.id


async def _webhooks(parts: ApiParts, account: AccountId, good: str, bad: str) -> tuple[UUID, UUID]:
    webhook, _ = await parts.webhooks.create(account, good)
    await parts.webhooks.create(account, bad, ["bulk.validation.failed"])
    off, _ = await parts.webhooks.create(account, f"{good}/old")
    await parts.webhooks.update(account, off.id, enabled=False)
    outcomes = [await parts.webhooks.test(account, webhook.id, kind) for kind in SimulatedEvent]
    return webhook.id, outcomes[-1].delivery_id


async def _ended_jobs(parts: ApiParts, account: AccountId, home: Path) -> tuple[JobId, JobId, JobId]:
    async def submit(name: str, rows: int, options: JobOptions) -> JobId:
        return await parts.jobs.submit(account, _list(home, name, rows), options)

    deep = JobOptions(mode=Mode.DEEP, evidence=True)
    first = await submit("customers-2026.csv", 1_200, deep)
    leads = await submit("trade-fair-leads.csv", 400, JobOptions(mode=Mode.MEDIUM))
    empty = home / "export-without-addresses.csv"
    empty.write_text("name,country\nAda,GB\nGrace,US\n")
    failed = await parts.jobs.submit(account, empty, deep)
    for job in (first, leads, failed):
        await ended(parts.jobs, account, job, within=_PATIENCE)
    again = await parts.jobs.rerun(
        account, first, JobOptions(mode=Mode.DEEP, max_age=0.0, name="customers-2026.csv")
    )
    await ended(parts.jobs, account, again, within=_PATIENCE)
    return first, again, failed


async def _open_jobs(parts: ApiParts, account: AccountId, home: Path) -> JobId:
    """Leave one job running, one paused and one cancelled, each with some verdicts; returns the first."""
    names = ("webinar-2024.csv", "old-crm-export.csv", "newsletter-subscribers.csv")
    cancelled, paused, running = [
        await parts.jobs.submit(account, _list(home, name, rows), JobOptions(mode=Mode.DEEP))
        for name, rows in zip(names, (6_000, 12_000, 40_000), strict=True)
    ]

    async def begun() -> bool:
        views = [await parts.jobs.get(account, job) for job in (cancelled, paused, running)]
        return all(view.processed > view.total * 0.1 > 0 for view in views)

    await until(begun, within=_PATIENCE)
    await parts.jobs.cancel(account, cancelled)
    await parts.jobs.pause(account, paused)
    return running


async def _draft(parts: ApiParts, account: AccountId, home: Path) -> JobId:
    async def pieces() -> AsyncIterator[bytes]:
        yield _list(home, "autumn-campaign.csv", 900).read_bytes()

    draft = await parts.drafts.receive(account, pieces(), "autumn-campaign.csv")
    return JobId(draft.id)


async def _schedules(parts: ApiParts, account: AccountId, job: JobId) -> UUID:
    weekly = ScheduleSpec("0 6 * * 1", zone="Europe/Berlin", name="Customers, every week")
    made = await parts.schedules.create(account, job, weekly)
    monthly = ScheduleSpec("0 5 1 * *", name="Risky ones again", recheck=Recheck.RISKY)
    paused = await parts.schedules.create(account, job, monthly)
    await parts.schedules.pause(account, paused.id)
    run = await parts.schedules.run_now(account, made.id)
    await ended(parts.jobs, account, run, within=_PATIENCE)
    return made.id


async def _age(settings: Settings) -> None:
    """Let what was made a moment ago have been there for a while."""
    statements = (
        "UPDATE member SET created_at = created_at - interval '40 days'",
        "UPDATE api_key SET created_at = created_at - interval '30 days'",
        "UPDATE endpoint SET created_at = created_at - interval '35 days'",
        "UPDATE schedule SET created_at = created_at - interval '20 days'",
        "UPDATE endpoint SET url = regexp_replace(url, '^http://[^/]+', 'https://hooks.analytical-engines.example')",
        "UPDATE person SET last_sign_in = now() - interval '3 days' WHERE email LIKE 'grace%'",
    )
    database = open_database(settings)
    try:
        async with database.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
    finally:
        await database.aclose()


def _list(home: Path, name: str, rows: int) -> Path:
    path = home / name
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), path, rows=rows)
    return path
