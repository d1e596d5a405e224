"""An installation on real servers, what operators have of it, and jobs whose lists have been taken in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from mailsift.container import open_container
from mailsift.jobs.admin.actions import Operations
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=20) as running:
        yield running


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env, heartbeat_seconds=0.3, sweep_seconds=0.3)


@pytest.fixture
async def ops(settings: Settings) -> AsyncIterator[Operations]:
    async with open_container(settings) as container:
        opened = container.operations
        yield opened
