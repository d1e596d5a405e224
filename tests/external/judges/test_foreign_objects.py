"""schemathesis with two accounts: nobody reads what another one made, and the judge would have seen it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from tests.external.judges.judged_installation import JudgedInstallation
from tests.external.judges.schemathesis_run import Report, schemathesis

CHECKS = "object_level_authorization,ignored_auth,not_a_server_error"
# Who makes objects, and who shows one: the judge replays these reads as the other account. It goes its way by
# chance, so it is given few operations at a time.
MAKERS = {
    ("create_job",): {"get_job": "GET /v1/bulk/jobs/{job_id}"},
    ("create_schedule",): {"get_schedule": "GET /v1/bulk/schedules/{schedule_id}"},
    ("create_webhook", "test_webhook"): {
        "get_webhook": "GET /v1/webhooks/{webhook_id}",
        "get_delivery": "GET /v1/deliveries/{delivery_id}",
    },
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
"header.Idempotency-Key" = ""  # the judge takes one key for many requests, and all but the first make nothing
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
max-examples = 10
"""


async def _judged(folder: Path, url: str, owner: str, stranger: str, operations: Iterable[str]) -> Report:
    """Let it judge operations as the holder of one key who makes things, and of another who looks."""
    users = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}
        for name, key in (("owner", owner), ("stranger", stranger))
    ]
    (folder / "auth.json").write_text(json.dumps({"auth": users}))
    headers = {"Authorization": f"Bearer {owner}"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:
        job = (await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"]
    config = f'{CONFIG}[dictionaries.jobs]\nvalues = ["{job["job_id"]}"]\n'
    wanted = [f"--include-operation-id={one}" for one in operations]
    return await schemathesis(folder, url, config, "--phases", "stateful", "-c", CHECKS, *wanted)


@pytest.mark.parametrize("makers", MAKERS, ids="-".join)
async def test_nobody_reads_what_another_account_has_made(
    judged: JudgedInstallation, tmp_path: Path, makers: tuple[str, ...]
) -> None:
    alice, bob = judged.keys["alice"], judged.keys["bob"]
    report = await _judged(tmp_path, judged.url, alice, bob, (*makers, *MAKERS[makers]))
    assert report.exit_code == 0, report.text
    assert not report.failed
    asked = {one.operation: one.status for one in report.sent if one.key == bob}
    assert asked == dict.fromkeys(MAKERS[makers].values(), 404)
