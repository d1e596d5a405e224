"""A job ends and somebody is told: real workers, also when they are killed before they have told it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from events.endpoints import WebhookService
from jobs.service import JobService
from jobs.views import JobOptions
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, open_service, open_waker
from mailsift.wiring_webhooks import Stores, open_sender, webhook_service
from pipeline.facts import Mode
from storage.database import Database
from tests.installation import ended, settings_for, until
from tests.receiver import receiving
from tests.webhook_house import verify
from tests.workers import workers


@asynccontextmanager
async def webhooks(settings: Settings, jobs: JobService) -> AsyncIterator[tuple[Database, WebhookService]]:
    """Give the service of webhooks of an installation, and its database."""
    database = open_database(settings)
    stores = Stores(database, open_blobs(settings), open_waker(settings), jobs)
    try:
        async with open_sender(settings) as sender:
            yield database, webhook_service(settings, stores, sender)
    finally:
        await database.aclose()


def settled(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_ALLOW_NON_PUBLIC": "true"},
        webhook_allow_http=True,
    )


async def test_the_event_of_a_job_arrives_although_workers_die_before_and_while_they_send_it(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settled(tmp_path, database_url, redis_url)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\nnot an address\n")
    async with open_service(settings) as jobs, webhooks(settings, jobs) as (database, service):
        account = await jobs.account("a")

        async def hang(_writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(60)

        async with receiving(hang) as receiver:
            endpoint, secret = await service.create(account, receiver.url)
            job_id = await jobs.submit(account, source, JobOptions(mode=Mode.FAST))

            async def reached() -> bool:
                return bool(receiver.requests)

            async def arrived() -> bool:
                (delivery,) = await service.deliveries(account, endpoint.id)
                return delivery.state.value == "succeeded"

            with workers(settings, 1, tmp_path / "first.log") as group:
                await ended(jobs, account, job_id, within=40)
                await until(reached, within=5, every=0.02)
                group.kill(0, whole_group=True)
                assert not await service.attempts(
                    account, (await service.deliveries(account, endpoint.id))[0].id
                )
                receiver.answer = b"HTTP/1.1 204 X\r\n\r\n"
                await _let_leases_run_out(database, endpoint.id)
                await until(arrived, within=20)
        first, second = receiver.requests
        assert first.body == second.body
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        verify(secret, second)
        told = json.loads(second.body)
        assert told["type"] == "bulk.validation.completed"
        assert told["data"]["job_id"] == str(job_id)
        assert (told["data"]["total_emails"], told["data"]["invalid"]) == (2, 1)
        assert b"example.com" not in second.body


async def test_the_event_of_a_job_that_ended_while_no_worker_ran_arrives_when_one_comes(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settled(tmp_path, database_url, redis_url)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(settings) as jobs, webhooks(settings, jobs) as (_, service):
        account = await jobs.account("a")
        async with receiving() as receiver:
            await service.create(account, receiver.url)
            job_id = await jobs.submit(account, source, JobOptions(mode=Mode.FAST))
            await jobs.cancel(account, job_id)  # committed, and nobody there to tell it

            async def told() -> bool:
                return bool(receiver.requests)

            with workers(settings, 1, tmp_path / "workers.log"):
                await until(told, within=30)
        (request,) = receiver.requests
        assert json.loads(request.body)["data"]["error"].startswith("cancelled: ")


async def _let_leases_run_out(database: Database, endpoint_id: UUID) -> None:
    statement = text("UPDATE delivery SET lease_until = lease_until - :by WHERE endpoint_id = :id")
    async with database.begin() as connection:
        await connection.execute(statement, {"id": endpoint_id, "by": timedelta(minutes=2)})
