"""What must hold of a job that has ended, whatever happened on the way."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from mailsift.cli.demo import disagreements
from mailsift.jobs.results.export import export, format_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.sql import chunks
from mailsift.storage.states import JobState
from tests.support.job_states import events_of
from tests.support.parts import transaction


async def check_complete(
    settings: Settings, service: JobService, account: AccountId, view: JobView, source: Path
) -> None:
    """Every row once, in order, with the true status; exact counts; one event; no lease left."""
    assert view.state is JobState.COMPLETED, view
    out = source.with_name("out.csv")
    async with service.browser.results(account, view.id) as results:
        export(results, out, format=format_of(out))
    given = pl.read_csv(source, infer_schema=False)
    came = pl.read_csv(out, infer_schema=False)
    assert came["id"].to_list() == given["id"].to_list()
    wrong = disagreements(out, source.with_name("list.truth.csv"))
    assert wrong.is_empty(), wrong
    by_status = dict(came["mailsift_status"].value_counts().iter_rows())
    assert (view.valid, view.risky, view.invalid) == tuple(
        by_status.get(status, 0) for status in ("valid", "risky", "invalid")
    )
    assert view.processed == view.total == len(given)
    assert view.chunks_open == 0
    async with transaction(settings) as connection:
        terminal = await events_of(connection, view.id)
        assert await chunks.held_leases(connection, limit=1) == []
    (event,) = terminal
    body = json.loads(event.body)
    assert body["type"] == "bulk.validation.completed"
    assert (body["data"]["valid"], body["data"]["processed"]) == (view.valid, view.total)


async def submit(service: JobService, source: Path) -> tuple[AccountId, JobId]:
    account = await service.account("tests")
    return account, await service.submit(account, source, JobOptions(mode=Mode.DEEP))
