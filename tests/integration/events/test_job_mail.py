"""Members hear by mail of their jobs, as each of them chose: a real SMTP server (aiosmtpd) takes it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session
from pydantic import SecretStr
from sqlalchemy import text

from mailsift.container import Container, OtherParts, open_container
from mailsift.events import outbox as events_outbox
from mailsift.events.outbox import JobMailKind, MailRoute
from mailsift.jobs.engine.end import end_job
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, outbox, people
from mailsift.storage.sql.outbox import MAIL_RETRY_S, ClaimedJobMail
from mailsift.storage.states import JobTransition
from tests.support.installation import settings_for, until

NOW = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
ALL = tuple(kind.value for kind in JobMailKind)
CHOICES = {
    "all@example.com": ALL,
    "failed@example.com": ("failed",),
    "none@example.com": (),
}


_WAITS = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@dataclass
class Inbox:
    """What aiosmtpd hands over."""

    answer: str = "250 taken"
    mail: list[tuple[str, EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        if self.answer.startswith("2"):
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=policy.default)
            (recipient,) = envelope.rcpt_tos
            self.mail.append((recipient, message))
        return self.answer


@dataclass
class Office:
    """An account with members and jobs, and mail that goes out."""

    inbox: Inbox = field(default_factory=Inbox)
    now: datetime = NOW
    container: Container = field(init=False)
    account: UUID = field(init=False)

    @property
    def database(self) -> Database:
        return self.container.database

    async def sql(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        async with self.database.begin() as connection:
            found = await connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    async def job(self, name: str, state: str = "finalizing", **columns: object) -> UUID:
        job_id = uuid4()
        known = {"id": job_id, "account_id": self.account, "name": name, "state": state, **columns}
        names = ", ".join(known)
        await self.sql(
            f"INSERT INTO job ({names}, options, created_at)"  # noqa: S608 - names of this file
            f" VALUES ({', '.join(f':{one}' for one in known)}, '{{}}', :now)",
            now=self.now,
            **known,
        )
        return job_id

    async def end(self, job_id: UUID, transition: JobTransition, error: tuple[str, str] = ("", "")) -> None:
        async with self.database.begin() as connection:
            assert await end_job(connection, job_id, transition, error=error)
        await self.sql("UPDATE job_mail SET next_try_at = :now", now=self.now)

    async def is_somebody_waiting(self) -> bool:
        return bool(await self.sql(_WAITS))

    async def send(self) -> list[str]:
        """Send what is due; returns for whom."""
        before = len(self.inbox.mail)
        await self.container.job_mailer.send_due()
        return sorted(recipient for recipient, _ in self.inbox.mail[before:])


@asynccontextmanager
async def _smtp_server(inbox: Inbox) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(inbox, hostname="relay.test", loop=loop), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def office(database_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    office = Office()
    other = OtherParts(clock=lambda: office.now.timestamp())  # noqa: PLW0108 - `now` is not always this one
    async with _smtp_server(office.inbox) as port:
        settings = settings_for(
            tmp_path / "home",
            database_url=database_url,
            sandbox={},
            mail_relay=SecretStr(f"smtp://127.0.0.1:{port}"),
            mail_sender="mailsift@example.org",
            public_url="https://mail.example.org",
        )
        async with open_container(settings, other=other) as office.container:
            async with office.database.begin() as connection:
                office.account = await accounts.ensure_account(connection, "acme")
                other_account = await accounts.ensure_account(connection, "other")
                for email, kinds in CHOICES.items():
                    person = await people.add_person(connection, email=email, password="x")
                    assert person is not None
                    await people.put_member(connection, office.account, person, "member")
                    await outbox.choose_mail(connection, office.account, person, kinds)
                stranger = await people.add_person(connection, email="eve@example.com", password="x")
                assert stranger is not None
                await people.put_member(connection, other_account, stranger, "owner")
                await outbox.choose_mail(connection, other_account, stranger, ALL)
            yield office


async def test_each_hears_of_what_they_chose_once_in_plain_text_and_html(office: Office) -> None:
    done = await office.job(
        "<Spring> & Söhne", total=3_000, processed=3_000, valid=2_000, risky=600, invalid=400
    )
    await office.end(done, JobTransition.COMPLETE)
    failed = await office.job("Autumn", state="intake")
    await office.end(failed, JobTransition.FAIL, ("bad_csv", "A quote in line 3 is not closed."))
    stopped = await office.job("Winter", state="queued")
    await office.end(stopped, JobTransition.CANCEL, ("cancelled", "by hand"))
    assert await office.send() == ["all@example.com", "all@example.com", "failed@example.com"]
    assert await office.send() == []
    by_subject = {str(message["Subject"]): message for _, message in office.inbox.mail}
    message = by_subject["<Spring> & Söhne is validated"]
    plain, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    sentence = "3,000 addresses of <Spring> & Söhne are validated: 2,000 valid, 600 risky, 400 invalid."
    assert sentence in plain.get_content().replace("\n", " ")
    assert f"https://mail.example.org/jobs/{done}" in plain.get_content()
    assert "&lt;Spring&gt; &amp; Söhne" in html.get_content()
    assert "<Spring>" not in html.get_content()
    assert message["Auto-Submitted"] == "auto-generated"
    failure = by_subject["Autumn could not be validated"].get_body(("plain",))
    assert failure is not None
    assert "A quote in line 3 is not closed." in failure.get_content()


async def test_mail_about_one_address_speaks_of_one(office: Office) -> None:
    done = await office.job("Spring", total=1, processed=1, valid=1)
    await office.end(done, JobTransition.COMPLETE)
    await office.send()
    plain = office.inbox.mail[0][1].get_body(("plain",))
    assert plain is not None
    assert plain.get_content().startswith("1 address of Spring is validated: 1 valid")


async def test_a_list_that_ends_while_somebody_who_wants_to_hear_of_it_is_removed_ends(
    office: Office,
) -> None:
    done = await office.job("Spring")
    async with office.database.begin() as connection:
        await connection.execute(text("DELETE FROM person WHERE email = 'all@example.com'"))
        ending = asyncio.create_task(office.end(done, JobTransition.COMPLETE))
        await until(office.is_somebody_waiting, within=20)
    await ending
    assert await office.send() == []


async def test_a_list_that_waits_for_more_than_an_hour_is_told_of_once(office: Office) -> None:
    hour = timedelta(hours=1)
    times = {"waits": NOW + 2 * hour, "soon": NOW + timedelta(minutes=20)}
    jobs = {name: await office.job(name, "running", started_at=NOW, total=9) for name in times}
    jobs["late"] = await office.job("late", "queued")
    await office.sql("UPDATE job SET created_at = :at WHERE id = :id", at=NOW - 2 * hour, id=jobs["late"])
    times["late"] = NOW - 2 * hour  # its chunks are ready, and nobody takes them
    await office.job("new", "queued")
    for name, at in times.items():
        await office.sql(
            "INSERT INTO chunk (job_id, n, ready_at, addresses, source_key) VALUES (:job, 0, :at, 1, 'k')",
            job=jobs[name],
            at=at,
        )
    await office.sql("UPDATE person SET zone = 'Asia/Tokyo' WHERE email = 'all@example.com'")
    assert await office.send() == ["all@example.com", "all@example.com"]
    mails = {str(message["Subject"]): message.get_body(("plain",)) for _, message in office.inbox.mail}
    waiting = mails["waits is waiting"]
    assert waiting is not None
    assert "until 6 May 2031, 18:08 JST" in waiting.get_content().replace("\n", " ")
    late = mails["late is waiting"]
    assert late is not None
    assert "until" not in late.get_content()
    assert sorted(mails) == [
        "late is waiting",
        "waits is waiting",
    ]
    assert await office.send() == []


async def test_a_list_that_goes_in_three_days_is_told_of_once(office: Office) -> None:
    day = timedelta(days=1)
    kept = {
        "goes": (60 * day, 2 * day),
        "stays": (60 * day, 4 * day),
        "short": (2 * day, day),
        "gone": (60 * day, -day),
    }
    for name, (age, left) in kept.items():
        job = await office.job(name, "completed", finished_at=NOW, expires_at=NOW + left)
        await office.sql("UPDATE job SET created_at = :at WHERE id = :id", at=NOW + left - age, id=job)
    assert await office.send() == ["all@example.com"]
    ((_, message),) = office.inbox.mail
    assert message["Subject"] == "goes will be deleted soon"
    plain = message.get_body(("plain",))
    assert plain is not None
    assert "will be deleted on 8 May 2031, 07:08 UTC." in plain.get_content().replace("\n", " ")
    assert "schedule" not in plain.get_content()
    assert await office.send() == []


@pytest.mark.parametrize(
    ("fetches", "enabled", "warns"), [(False, True, True), (False, False, False), (True, True, False)]
)
async def test_who_hears_that_a_list_goes_hears_that_its_schedule_pauses(
    office: Office, *, fetches: bool, enabled: bool, warns: bool
) -> None:
    columns = {"finished_at": NOW, "expires_at": NOW + timedelta(days=2), "source_bytes": 9}
    job = await office.job("Spring", "completed", **columns)
    await office.sql("UPDATE job SET created_at = :at", at=NOW - timedelta(days=60))
    await office.sql(
        "INSERT INTO schedule (id, account_id, source_job_id, cron, zone, options, recheck, overlap,"
        " catch_up, fetches, enabled, next_run_at) VALUES (gen_random_uuid(), :account, :job, '0 6 * * 1',"
        " 'UTC', '{}', 'all', 'skip', 'latest', :fetches, :enabled, :now)",
        account=office.account,
        job=job,
        fetches=fetches,
        enabled=enabled,
        now=NOW,
    )
    assert await office.send() == ["all@example.com"]
    ((_, message),) = office.inbox.mail
    plain = message.get_body(("plain",))
    assert plain is not None
    assert ("its schedule pauses" in plain.get_content().replace("\n", " ")) is warns


async def test_a_relay_that_refuses_is_asked_again_and_who_changes_their_mind_hears_nothing(
    office: Office,
) -> None:
    await office.end(await office.job("Spring"), JobTransition.COMPLETE)
    office.inbox.answer = "451 later"
    assert await office.send() == []
    office.inbox.answer = "250 taken"
    assert await office.send() == [], "not before its time"
    office.now += timedelta(seconds=MAIL_RETRY_S[0] + 1)
    assert await office.send() == ["all@example.com"]
    await office.end(await office.job("Summer"), JobTransition.COMPLETE)
    await office.sql("UPDATE member SET mail = '{}'")
    assert await office.send() == []
    assert await office.sql("SELECT state FROM job_mail ORDER BY state") == [("sent",), ("skipped",)]


async def test_a_mail_that_cannot_be_written_is_given_up_and_holds_up_no_other(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = events_outbox.compose_job_mail

    def write(claimed: ClaimedJobMail, route: MailRoute, now: float) -> EmailMessage:
        if claimed.name == "odd":
            raise LookupError("the library stumbles over something")
        return written(claimed, route, now)

    monkeypatch.setattr(events_outbox, "compose_job_mail", write)
    for name in ("odd", "Spring"):
        await office.end(await office.job(name), JobTransition.COMPLETE)
    assert await office.send() == ["all@example.com"]
    for _ in range(len(MAIL_RETRY_S) + 1):
        office.now += timedelta(days=1)
        assert await office.send() == []
    assert await office.sql("SELECT state FROM job_mail ORDER BY state") == [("given_up",), ("sent",)]


async def test_what_is_erased_leaves_no_mail_behind(office: Office) -> None:
    job = await office.job("Spring")
    await office.end(job, JobTransition.COMPLETE)
    assert await office.sql("SELECT count(*) FROM job_mail") == [(1,)]
    await office.sql("DELETE FROM job WHERE id = :id", id=job)
    assert await office.sql("SELECT count(*) FROM job_mail") == [(0,)]
