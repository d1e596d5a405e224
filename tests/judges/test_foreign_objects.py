"""schemathesis with two accounts: nobody reads what another one made, and the judge would have seen it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import httpx
import uvicorn
from typing_extensions import override

from api.app import create_app
from events.endpoints import WebhookService
from events.views import EndpointView
from jobs.views import AccountId
from mailsift.serve import open_parts
from mailsift.settings import Settings
from pipeline.errors import MailsiftError
from tests.judges.house import House
from tests.judges.schemathesis_run import Report, schemathesis

CHECKS = "object_level_authorization,ignored_auth,not_a_server_error"
# Who makes objects, and who shows one: the judge replays these reads as the other account.
MAKERS = ("create_job", "create_webhook", "test_webhook", "create_schedule")
READERS = {
    "get_job": "GET /v1/bulk/jobs/{job_id}",
    "get_webhook": "GET /v1/webhooks/{webhook_id}",
    "get_delivery": "GET /v1/webhooks/deliveries/{delivery_id}",
    "get_schedule": "GET /v1/bulk/schedules/{schedule_id}",
}
CONFIG = """\
[auth.wfc]
path = "auth.json"
user = "owner"
peers = ["owner", "stranger"]
[[operations]]
include-operation-id = "get_job"
parameters = { "query.wait" = 0.2 }
[[operations]]
include-operation-id = "create_schedule"
[operations.parameters]
"body.job_id" = { dictionary = "jobs" }
"body.cron" = { dictionary = "crons" }
"body.zone" = { dictionary = "zones" }
"body.ends_at" = { dictionary = "ends" }
[dictionaries.crons]
values = ["0 6 * * 1"]
[dictionaries.zones]
values = ["UTC"]
[dictionaries.ends]
values = ["2099-12-31T00:00:00Z"]
[phases.stateful.inference]
algorithms = []
[phases.stateful.generation]
mode = "positive"
max-examples = 30
"""


async def _judged(folder: Path, url: str, owner: str, stranger: str, *options: str) -> Report:
    """Let it judge as the holder of one key who makes things, and of another who looks for them."""
    users = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}
        for name, key in (("owner", owner), ("stranger", stranger))
    ]
    (folder / "auth.json").write_text(json.dumps({"auth": users}))
    headers = {"Authorization": f"Bearer {owner}"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:
        job = (await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"]
    config = f'{CONFIG}[dictionaries.jobs]\nvalues = ["{job["job_id"]}"]\n'
    wanted = [f"--include-operation-id={one}" for one in (*MAKERS, *READERS)]
    return await schemathesis(folder, url, config, "--phases", "stateful", "-c", CHECKS, *wanted, *options)


async def test_nobody_reads_what_another_account_has_made(house: House, tmp_path: Path) -> None:
    alice, bob = house.keys["alice"], house.keys["bob"]
    report = await _judged(tmp_path, house.url, alice, bob)
    assert report.exit_code == 0, report.text
    assert not report.failed
    asked = {one.operation: one.status for one in report.sent if one.key == bob}
    assert asked == dict.fromkeys(READERS.values(), 404)


class Careless(WebhookService):
    """Shows every webhook to everybody."""

    accounts: tuple[AccountId, ...] = ()

    @override
    async def get(self, account_id: UUID, endpoint_id: UUID) -> EndpointView:
        for one in self.accounts:
            with suppress(MailsiftError):
                return await super().get(one, endpoint_id)
        return await super().get(account_id, endpoint_id)


@asynccontextmanager
async def _careless_api(settings: Settings) -> AsyncIterator[str]:
    async with open_parts(settings) as parts:
        careless = copy(parts.webhooks)
        careless.__class__ = Careless
        Careless.accounts = tuple([await parts.jobs.account(name) for name in ("carol", "dave")])
        app = create_app(replace(parts, webhooks=careless))
        config = uvicorn.Config(app, port=0, log_level="warning")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await serving


async def test_the_judge_sees_a_route_that_shows_foreign_objects(house: House, tmp_path: Path) -> None:
    carol, dave = house.keys["carol"], house.keys["dave"]
    async with _careless_api(house.settings) as url:
        report = await _judged(tmp_path, url, carol, dave, "--max-failures=1")
    assert report.exit_code == 1
    assert set(report.failed) == {"object_level_authorization"}, report.text
    assert "`stranger` received the" in report.text
    assert "GET /v1/webhooks/" in report.text
