"""An installation on real servers, what operators have of it, and jobs whose lists have been taken in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mailsift.container import open_container
from mailsift.jobs.admin.service import Operations
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.installation import settings_for


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=20) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox=sandbox.env,
        heartbeat_seconds=0.3,
        sweep_seconds=0.3,
    )


@pytest.fixture
async def ops(settings: Settings) -> AsyncIterator[Operations]:
    async with open_container(settings) as container:
        opened = container.operations
        yield opened
