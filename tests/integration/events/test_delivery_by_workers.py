"""A job ends and somebody is told: real workers, also when they are killed before they have told it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.storage.database import Connection, Database
from tests.support.installation import ended, until
from tests.support.receiver import receiving
from tests.support.webhooks import installed_webhooks, settings_with_receiver, verify
from tests.support.workers import WorkerGroup, workers


async def test_a_worker_killed_between_the_end_of_a_job_and_its_delivery_costs_nothing(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_with_receiver(tmp_path, database_url, redis_url)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(settings) as jobs, installed_webhooks(settings) as (database, service):
        account = await jobs.account("a")
        async with receiving() as receiver:
            endpoint, secret = await service.create(account, receiver.url)
            job_id = await jobs.submit(account, source, JobOptions(mode=Mode.FAST))
            with workers(settings, 1, tmp_path / "workers.log") as group:
                async with database.begin() as connection:
                    await _keep_from_being_claimed(connection, endpoint.id)
                    await _end_and_kill(group, jobs, account, job_id)
                    (delivery,) = await service.deliveries(account, endpoint.id)
                    assert (delivery.state.value, delivery.attempts) == ("pending", 0)
                    assert not receiver.connections

                async def arrived() -> bool:
                    (delivery,) = await service.deliveries(account, endpoint.id)
                    return delivery.state.value == "succeeded"

                await until(arrived, within=60)
        (request,) = receiver.requests
        verify(secret, request)
        (delivery,) = await service.deliveries(account, endpoint.id)
        assert delivery.attempts == 1
        assert request.headers["webhook-id"] == str(delivery.event_id)
        assert json.loads(request.body)["data"]["job_id"] == str(job_id)


async def test_the_event_of_a_job_arrives_although_workers_die_before_and_while_they_send_it(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_with_receiver(tmp_path, database_url, redis_url)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\nnot an address\n")
    async with open_service(settings) as jobs, installed_webhooks(settings) as (database, service):
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
        body = json.loads(second.body)
        assert body["type"] == "bulk.validation.completed"
        assert body["data"]["job_id"] == str(job_id)
        assert (body["data"]["total_emails"], body["data"]["invalid"]) == (2, 1)
        assert b"example.com" not in second.body


async def test_the_event_of_a_job_that_ended_while_no_worker_ran_arrives_when_one_comes(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_with_receiver(tmp_path, database_url, redis_url)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(settings) as jobs, installed_webhooks(settings) as (_, service):
        account = await jobs.account("a")
        async with receiving() as receiver:
            await service.create(account, receiver.url)
            job_id = await jobs.submit(account, source, JobOptions(mode=Mode.FAST))
            await jobs.cancel(account, job_id)  # committed, and nobody there to tell it

            async def is_told() -> bool:
                return bool(receiver.requests)

            with workers(settings, 1, tmp_path / "workers.log"):
                await until(is_told, within=30)
        (request,) = receiver.requests
        assert json.loads(request.body)["data"]["error"].startswith("cancelled: ")


async def _keep_from_being_claimed(connection: Connection, endpoint_id: UUID) -> None:
    """Hold the lock a claim wants, until the transaction ends; events may be made meanwhile."""
    statement = text("SELECT FROM endpoint WHERE id = :id FOR NO KEY UPDATE")
    await connection.execute(statement, {"id": endpoint_id})


async def _end_and_kill(group: WorkerGroup, jobs: JobService, account: AccountId, job_id: JobId) -> None:
    view = await ended(jobs, account, job_id, within=60)
    assert view.state.value == "completed"
    group.kill(0, whole_group=True)


async def _let_leases_run_out(database: Database, endpoint_id: UUID) -> None:
    statement = text("UPDATE delivery SET lease_until = lease_until - :by WHERE endpoint_id = :id")
    async with database.begin() as connection:
        await connection.execute(statement, {"id": endpoint_id, "by": timedelta(minutes=2)})
