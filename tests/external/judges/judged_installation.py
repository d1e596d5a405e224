"""An installation to be judged: API and worker as processes, real servers, and a mail internet in a box."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from mailsift.container import open_container
from mailsift.settings import Settings
from tests.support.serving import address, command
from tests.support.workers import WorkerGroup, workers


@dataclass(frozen=True)
class JudgedInstallation:
    """A running installation.

    Attributes:
        keys: a key with every scope of each account, by the account's name.
        crew: its worker.
    """

    url: str
    settings: Settings
    keys: dict[str, str]
    crew: WorkerGroup

    def client(self, account: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.keys[account]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def judged_installation(settings: Settings, *accounts: str) -> Iterator[JudgedInstallation]:
    """Run one worker and one API process until the block ends."""
    log = settings.home / "api.log"
    with workers(settings, 1, settings.home / "worker.log") as crew, asyncio.Runner() as runner:
        keys = runner.run(_keys(settings, accounts))
        api = command(settings, log, "api")
        runner.run(api.__aenter__())
        try:
            yield JudgedInstallation(runner.run(address(log)), settings, keys, crew)
        finally:
            runner.run(api.__aexit__(None, None, None))


async def _keys(settings: Settings, accounts: tuple[str, ...]) -> dict[str, str]:
    async with open_container(settings) as container:
        return {
            name: (await container.keys.create(await container.jobs.account(name), name="judge")).secret
            for name in accounts
        }
