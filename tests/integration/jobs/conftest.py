"""An installation on real servers with a small sandbox, and jobs whose lists have been taken in already.

A module that needs another sandbox or other settings has its own fixture of that name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mailsift.container import Container, open_container, open_service
from mailsift.jobs.service import JobService
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.ready_jobs import Planter
from tests.support.schedules import Scheduling


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env)


@pytest.fixture
def planter(settings: Settings, tmp_path: Path) -> Planter:
    return Planter(settings, tmp_path)


@pytest.fixture
async def service(settings: Settings) -> AsyncIterator[JobService]:
    async with open_service(settings) as opened:
        yield opened


@pytest.fixture
async def container(settings: Settings) -> AsyncIterator[Container]:
    async with open_container(settings) as opened:
        yield opened


@pytest.fixture
async def scheduling(make_settings: Callable[..., Settings], tmp_path: Path) -> AsyncIterator[Scheduling]:
    async with AsyncExitStack() as closing:
        yield Scheduling(make_settings(sandbox={}), tmp_path, closing)
