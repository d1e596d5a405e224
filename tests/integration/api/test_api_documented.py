"""The receiver in docs/api.md knows a forged event; its session is run in tests/e2e/test_package.py."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import standardwebhooks

from mailsift.pipeline.clock import system_clock
from mailsift.settings import Settings
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/api.md").read_text()
PATH = f"{ROOT / '.venv/bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251 - for a child


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})


async def test_the_receiver_takes_a_signed_event_and_refuses_a_forged_one(client: httpx.AsyncClient) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 15
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    made = (await client.post("/v1/webhooks", json={"url": url})).json()["data"]
    environment = {"PATH": PATH, "WEBHOOK_SECRET": made["secret"], "PORT": str(port)}
    receiver = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _listening(port)
        for kind in ("test_webhook", "bulk_validate_success", "bulk_validate_failed"):
            wanted = {"test_type": kind, "webhook_id": made["id"]}
            outcome = (await client.post("/v1/webhooks/test", json=wanted)).json()["data"]
            assert (outcome["delivered"], outcome["status_code"]) == (True, 204)
        signed = [_signed(made["secret"], minutes=minutes) for minutes in (0, -6, 6)]
        statuses = [
            (await client.post(url, content=b"{}", headers=headers)).status_code for headers in signed
        ]
        assert statuses == [204, 401, 401]
        forged = {**signed[0], "webhook-signature": "v1,x v2,y"}
        other = {**signed[0], "webhook-id": "other"}
        for body, headers in ((b"{ }", signed[0]), (b"{}", forged), (b"{}", other)):
            assert (await client.post(url, content=body, headers=headers)).status_code == 401
    finally:
        receiver.kill()
        await receiver.wait()


def _signed(secret: str, *, minutes: int) -> dict[str, str]:
    """Sign the body `{}` with a library that is not ours."""
    at = datetime.fromtimestamp(system_clock(), UTC) + timedelta(minutes=minutes)
    signature = standardwebhooks.Webhook(secret).sign("msg", at, "{}")
    return {
        "webhook-id": "msg",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }


async def _listening(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        await writer.wait_closed()
        return
    raise AssertionError("the receiver does not listen")
