"""What is told of jobs is counts and ids: whatever a list or a request holds, no event holds an address."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from sqlalchemy import select

from mailsift.container import open_service
from mailsift.events.payloads import EventType, SimulatedEvent
from mailsift.jobs.views import JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.storage.sql.tables import event
from tests.support.installation import ended, until
from tests.support.receiver import receiving
from tests.support.webhooks import installed_webhooks, settings_with_receiver, verify
from tests.support.workers import worker_beside

CANARY = "canary.person@canary-domain.example"
FAST = JobOptions(mode=Mode.FAST, name=CANARY, metadata={CANARY: CANARY})

LISTS = {
    "good.csv": (f"email,name\n{CANARY},{CANARY}\nnot an address\n", FAST),
    "header.csv": (f"{CANARY},{CANARY}\n1,2\n", FAST),
    "no column.csv": (f"a,b\n1,{CANARY} and more words\n" + "3,4\n" * 20, FAST),
    "wrong column.csv": (f"a,{CANARY}\n1,2\n", replace(FAST, column=CANARY)),
    f"{CANARY}.csv": (f'email\n"{CANARY}\n', FAST),
    "broken.jsonl": (f'{{"email": "{CANARY}"\n', FAST),
    "blank.csv": ("\n\n\n", FAST),
}

COMPLETED = {
    "completed_at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "invalid": r"\d+",
    "job_id": r"[0-9a-f-]{36}",
    "processed": r"\d+",
    "started_at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "status": "completed",
    "total_emails": r"\d+",
    "valid": r"\d+",
}
FAILED = {
    "error": r"[a-z_]+: [^@]+\.",
    "job_id": r"[0-9a-f-]{36}",
    "processed": r"\d+",
    "status": "failed",
    "total_emails": r"\d+",
}
FIELDS = {EventType.COMPLETED: COMPLETED, EventType.FAILED: FAILED, EventType.TEST: {"message": r"[\w .]+"}}


def judge(body: bytes) -> EventType:
    """Check that every field of an event is what it may be, and return its type."""
    assert b"canary" not in body.lower()
    assert b"@" not in body
    payload = json.loads(body)
    assert set(payload) == {"id", "type", "created_at", "data"}
    type_ = EventType(payload["type"])
    fields = FIELDS[type_]
    assert set(payload["data"]) == set(fields)
    wrong = {
        name: payload["data"][name] for name, form in fields.items() if not _is(form, payload["data"][name])
    }
    assert wrong == {}
    return type_


def _is(form: str, value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number == (form == r"\d+") and re.fullmatch(form, str(value)) is not None


async def test_no_event_of_any_job_holds_an_address(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_with_receiver(tmp_path, database_url, redis_url)
    async with open_service(settings) as jobs, installed_webhooks(settings) as (database, service):
        account = await jobs.account(CANARY)
        async with receiving() as receiver:
            endpoint, secret = await service.create(account, f"{receiver.url}/canary")
            made: list[JobId] = []
            for name, (text, options) in LISTS.items():
                (tmp_path / name).write_text(text)
                made.append(await jobs.submit(account, tmp_path / name, options))
            await jobs.cancel(account, made.pop(0))
            made.append(await jobs.submit(account, tmp_path / "good.csv", FAST))

            async def is_told() -> bool:
                return len(receiver.requests) == len(LISTS) + 1

            with worker_beside(settings):
                for job_id in made:
                    await ended(jobs, account, job_id, within=90)
                await until(is_told, within=60)
            for kind in SimulatedEvent:
                await service.test(account, endpoint.id, kind)
        for request in receiver.requests:
            verify(secret, request)
        payloads = [judge(request.body) for request in receiver.requests]
        assert set(payloads) == set(EventType) - {EventType.AUDIT}  # a person did nothing here
        assert payloads.count(EventType.FAILED) >= 5
        async with database.begin() as connection:
            stored = (await connection.execute(select(event.c.id, event.c.body))).all()
        assert {id_ for id_, _ in stored} == {
            UUID(request.headers["webhook-id"]) for request in receiver.requests
        }
        assert {body for _, body in stored} == {request.body for request in receiver.requests}
