"""The session of docs/api.md, in Python: python session.py URL KEY; it prints as JSON what it has found."""

from __future__ import annotations

import io
import json
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID

from typing_extensions import override

from mailsift_client import Mailsift, MailsiftError, WebhookError, unwrap, verify_webhook
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
    from collections.abc import Iterator

LIST = b"name,email\nJane,jane@example.com\nJoe,joe@@example.com\n"


def main(url: str, key: str) -> dict[str, Any]:
    """Go through it all."""
    with Mailsift(url, key) as mailsift:
        found: dict[str, Any] = addresses(mailsift)
        job_id = a_list(mailsift, found)
        again(mailsift, job_id, found)
        schedule(mailsift, job_id, found)
        webhook(mailsift, found)
        found["events"] = [
            event.type_ for event in mailsift.events(kinds=["bulk.validation.completed"], job_id=job_id)
        ]
        usage = unwrap(get_usage.sync_detailed(client=mailsift.api), EnvelopeUsageResponse).data
        found["rows_used"] = sum(day.rows for day in usage.days) > 0
    return found


def addresses(mailsift: Mailsift) -> dict[str, Any]:
    """Check one address, another, and some."""
    emails = ["jane@example.com", "joe@mailbox-not-found.example.com", "jane@example.com"]
    many = mailsift.check_many(emails, max_age=3_600)
    return {
        "suggestion": mailsift.check("jane@gmial.com", mode="fast").suggestion,
        "one": mailsift.check("jane@mailbox-full.example.com", max_age=0).result,
        "many": [one.result for one in many],
    }


def a_list(mailsift: Mailsift, found: dict[str, Any]) -> UUID:
    """Send a list twice with one key, follow it, fetch it as a file and by pages."""
    jobs = [
        mailsift.submit(io.BytesIO(LIST), mode="fast", name="first", idempotency_key="first-list")
        for _ in range(2)
    ]
    job_id = jobs[0].job_id
    found["one_job"] = jobs[1].job_id == job_id
    found["followed"] = [job.status for job in mailsift.follow(job_id)][-1]
    found["counted"] = (ended := mailsift.wait(job_id)).valid, ended.invalid
    found["csv"] = _file(mailsift, job_id).decode().splitlines()
    found["invalid"] = [json.loads(line) for line in _invalid(mailsift, job_id).splitlines()]
    rows = list(mailsift.results(job_id, sort="score", page=1, columns=["name"]))
    found["pages"] = [(row.row, row.cells["name"], row.result) for row in rows]
    return job_id


def _file(mailsift: Mailsift, job_id: UUID) -> bytes:
    file = io.BytesIO()
    mailsift.download(job_id, file, columns=["name", "email", "mailsift_result"])
    return file.getvalue()


def _invalid(mailsift: Mailsift, job_id: UUID) -> bytes:
    file = io.BytesIO()
    mailsift.download(job_id, file, kind="jsonl", status=["invalid"], columns=["email", "mailsift_result"])
    return file.getvalue()


def again(mailsift: Mailsift, job_id: UUID, found: dict[str, Any]) -> None:
    """Run it again, once for two requests; and delete what is not wanted."""
    made = [
        unwrap(
            rerun_job.sync_detailed(job_id, client=mailsift.api, idempotency_key="again-1"),
            EnvelopeJobResponse,
        ).data.job_id
        for _ in range(2)
    ]
    found["one_rerun"] = len(set(made)) == 1
    mailsift.wait(made[0])
    other = mailsift.submit(["jane@example.com"], mode="fast")
    mailsift.wait(other.job_id)
    mailsift.delete(other.job_id)
    try:
        mailsift.job(other.job_id)
    except MailsiftError as error:
        found["deleted"] = (error.status, error.code)


def schedule(mailsift: Mailsift, job_id: UUID, found: dict[str, Any]) -> None:
    """Run the list by the clock, and once now."""
    wanted = ScheduleRequest(
        job_id=job_id, cron="0 6 * * 1", zone="Europe/Berlin", recheck="stale", jitter_seconds=600
    )
    made = unwrap(create_schedule.sync_detailed(client=mailsift.api, body=wanted), EnvelopeScheduleResponse)
    id_ = made.data.schedule_id
    run = unwrap(run_schedule.sync_detailed(id_, client=mailsift.api), EnvelopeNewRunResponse)
    mailsift.wait(run.data.job_id)
    runs = unwrap(list_schedule_runs.sync_detailed(id_, client=mailsift.api), EnvelopeRunsResponse)
    found["runs"] = len(runs.data.runs)


def webhook(mailsift: Mailsift, found: dict[str, Any]) -> None:
    """Be told of something, and believe it only when it is signed."""
    with receiver() as (url, requests):
        made = create_webhook.sync_detailed(client=mailsift.api, body=WebhookRequest(url=url))
        hook = unwrap(made, EnvelopeNewWebhookResponse).data
        wanted = TestRequest(test_type="test_webhook", webhook_id=hook.webhook_id)
        test = unwrap(test_webhook.sync_detailed(client=mailsift.api, body=wanted), EnvelopeTestResponse)
        headers, body = requests.get(timeout=30)
    found["delivered"] = test.data.delivered
    found["event"] = verify_webhook(hook.secret, headers, body).type
    forgeries: list[tuple[bytes, dict[str, str]]] = [
        (body + b" ", {}),
        (body, {"webhook-timestamp": "1"}),
        (body, {"webhook-signature": "v1,x"}),
    ]
    found["forged"] = [is_refused(hook.secret, {**headers, **other}, text) for text, other in forgeries]


def is_refused(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Say whether a webhook is not believed."""
    try:
        verify_webhook(secret, headers, body)
    except WebhookError:
        return True
    return False


@contextmanager
def receiver() -> Iterator[tuple[str, Queue[tuple[dict[str, str], bytes]]]]:
    """Receive webhooks on loopback until the block ends."""
    requests: Queue[tuple[dict[str, str], bytes]] = Queue()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", requests
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - a program
