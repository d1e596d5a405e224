"""One machine answers in the name of all mail servers: the API and `check` believe nothing of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, WorldMix
from tests.integration.api.conftest import running
from tests.support.commands import CommandLine
from tests.support.installation import settings_for
from tests.support.middlebox import Interception, Middlebox

ASKED = ["known@ordinary.sandbox.test", "nobody@exim.sandbox.test", "nobody@gmail.com"]


@pytest.mark.parametrize("middlebox", Middlebox)
async def test_api_and_check_believe_nothing_that_one_machine_says_for_all(
    tmp_path: Path, database_url: str, redis_url: str, middlebox: Middlebox
) -> None:
    async with Sandbox(SandboxConfig(domains=1, mix=WorldMix.CALM)) as sandbox:
        interception = Interception(sandbox, middlebox)
        await interception.begin()
        settings = settings_for(
            tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox=sandbox.env, api_port=0
        )
        async with running(settings) as api, api.client(await api.key("alice")) as client:
            for address in ASKED:
                answer = await client.post(
                    "/v1/email/single-validate", json={"email": address, "mode": "deep"}
                )
                data = answer.json()["data"]
                assert (data["status"], data["result"]) == ("risky", "probe_unavailable")
        checked = await asyncio.to_thread(CommandLine(settings).run, "check", *ASKED, "--json")
        interception.end()
    assert {json.loads(line)["result"] for line in checked.out.splitlines()} == {"probe_unavailable"}
    assert checked.err.count("Warning: probe_unavailable: ") == 1
