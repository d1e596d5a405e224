"""The session of docs/api.md, awaited: python async_session.py URL KEY; it prints what session.py prints."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from typing import TYPE_CHECKING, Any

from session import LIST, is_refused, receiver

from mailsift_client import AsyncMailsift, MailsiftError, unwrap, verify_webhook
from mailsift_client.generated.api.jobs import rerun_job
from mailsift_client.generated.api.schedules import create_schedule, list_schedule_runs, run_schedule
from mailsift_client.generated.api.usage import get_usage
from mailsift_client.generated.api.webhooks import create_webhook, test_webhook
from mailsift_client.generated.models import (
    EnvelopeJobResponse,
    EnvelopeNewRunResponse,
    EnvelopeNewWebhookResponse,
    EnvelopeRunsResponse,
    EnvelopeScheduleResponse,
    EnvelopeTestResponse,
    EnvelopeUsageResponse,
    ScheduleRequest,
    TestRequest,
    WebhookRequest,
)

if TYPE_CHECKING:
    from uuid import UUID


async def main(url: str, key: str) -> dict[str, Any]:
    """Go through it all."""
    async with AsyncMailsift(url, key) as mailsift:
        found = await addresses(mailsift)
        job_id = await a_list(mailsift, found)
        await again(mailsift, job_id, found)
        await schedule(mailsift, job_id, found)
        await webhook(mailsift, found)
        ends = mailsift.events(kinds=["bulk.validation.completed"], job_id=job_id)
        found["events"] = [event.type_ async for event in ends]
        usage = unwrap(await get_usage.asyncio_detailed(client=mailsift.api), EnvelopeUsageResponse).data
        found["rows_used"] = sum(day.rows for day in usage.days) > 0
    return found


async def addresses(mailsift: AsyncMailsift) -> dict[str, Any]:
    """Check one address, another and some, all at once."""
    some = ["jane@example.com", "joe@mailbox-not-found.example.com", "jane@example.com"]
    many, suggested, full = await asyncio.gather(
        mailsift.check_many(some),
        mailsift.check("jane@gmial.com", mode="fast"),
        mailsift.check("jane@mailbox-full.example.com", max_age=0),
    )
    return {"suggestion": suggested.suggestion, "one": full.result, "many": [one.result for one in many]}


async def a_list(mailsift: AsyncMailsift, found: dict[str, Any]) -> UUID:
    """Send a list twice with one key, follow it, fetch it as a file and by pages."""
    jobs = [
        await mailsift.submit(io.BytesIO(LIST), mode="fast", name="first", idempotency_key="first-list")
        for _ in range(2)
    ]
    job_id = jobs[0].job_id
    found["one_job"] = jobs[1].job_id == job_id
    found["followed"] = [job.status async for job in mailsift.follow(job_id)][-1]
    found["counted"] = (ended := await mailsift.wait(job_id)).valid, ended.invalid
    file = await _file(mailsift, job_id, columns=["name", "email", "mailsift_result"])
    found["csv"] = file.decode().splitlines()
    rows = mailsift.results(job_id, status=["invalid"])
    found["invalid"] = [{"email": row.email, "mailsift_result": row.result} async for row in rows]
    by_score = mailsift.results(job_id, sort="score", page=1, columns=["name"])
    found["pages"] = [(row.row, row.cells["name"], row.result) async for row in by_score]
    return job_id


async def _file(mailsift: AsyncMailsift, job_id: UUID, *, columns: list[str]) -> bytes:
    file = io.BytesIO()
    await mailsift.download(job_id, file, columns=columns)
    return file.getvalue()


async def again(mailsift: AsyncMailsift, job_id: UUID, found: dict[str, Any]) -> None:
    """Run it again, once for two requests; and delete what is not wanted."""
    made = [
        unwrap(
            await rerun_job.asyncio_detailed(job_id, client=mailsift.api, idempotency_key="again-1"),
            EnvelopeJobResponse,
        ).data.job_id
        for _ in range(2)
    ]
    found["one_rerun"] = len(set(made)) == 1
    await mailsift.wait(made[0])
    other = await mailsift.submit(["jane@example.com"], mode="fast")
    await mailsift.wait(other.job_id)
    await mailsift.delete(other.job_id)
    try:
        await mailsift.job(other.job_id)
    except MailsiftError as error:
        found["deleted"] = (error.status, error.code)


async def schedule(mailsift: AsyncMailsift, job_id: UUID, found: dict[str, Any]) -> None:
    """Run the list by the clock, and once now."""
    api, wanted = mailsift.api, ScheduleRequest(job_id=job_id, cron="0 6 * * 1", recheck="stale")
    made = unwrap(await create_schedule.asyncio_detailed(client=api, body=wanted), EnvelopeScheduleResponse)
    id_ = made.data.schedule_id
    run = unwrap(await run_schedule.asyncio_detailed(id_, client=api), EnvelopeNewRunResponse)
    await mailsift.wait(run.data.job_id)
    runs = unwrap(await list_schedule_runs.asyncio_detailed(id_, client=api), EnvelopeRunsResponse)
    found["runs"] = len(runs.data.runs)


async def webhook(mailsift: AsyncMailsift, found: dict[str, Any]) -> None:
    """Be told of something, and believe it only when it is signed."""
    with receiver() as (url, requests):
        made = await create_webhook.asyncio_detailed(client=mailsift.api, body=WebhookRequest(url=url))
        hook = unwrap(made, EnvelopeNewWebhookResponse).data
        wanted = TestRequest(test_type="test_webhook", webhook_id=hook.webhook_id)
        answer = await test_webhook.asyncio_detailed(client=mailsift.api, body=wanted)
        headers, body = await asyncio.to_thread(requests.get, timeout=30)
    found["delivered"] = unwrap(answer, EnvelopeTestResponse).data.delivered
    found["event"] = verify_webhook(hook.secret, headers, body).type
    others = ({"webhook-timestamp": "1"}, {"webhook-signature": "v1,x"})
    forged = [is_refused(hook.secret, {**headers, **other}, body) for other in others]
    found["forged"] = [is_refused(hook.secret, headers, body + b" "), *forged]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))  # noqa: T201 - a program
