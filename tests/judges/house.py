"""A house to be judged: API and worker as processes, real servers, and a mail internet in a box."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from mailsift.serve import open_keyring
from mailsift.settings import Settings
from tests.api_process import api_process
from tests.workers import workers


@dataclass(frozen=True)
class House:
    """A running installation.

    Attributes:
        keys: a key with every scope of each account, by the account's name.
    """

    url: str
    settings: Settings
    keys: dict[str, str]

    def client(self, account: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.keys[account]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def open_house(settings: Settings, *accounts: str) -> Iterator[House]:
    """Run one worker and one API process until the block ends."""
    keys = asyncio.run(_keys(settings, accounts))
    with (
        workers(settings, 1, settings.home / "worker.log"),
        api_process(settings, settings.home / "api.log") as api,
    ):
        yield House(api.url, settings, keys)


async def _keys(settings: Settings, accounts: tuple[str, ...]) -> dict[str, str]:
    async with open_keyring(settings) as ring:
        return {
            name: (await ring.keys.create(await ring.jobs.account(name), name="judge")).secret
            for name in accounts
        }
