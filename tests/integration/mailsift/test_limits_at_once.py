"""How much an account may have, asked for at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mailsift.accounts.keys import Caller
from mailsift.container import Container, open_container
from mailsift.jobs.schedules import ScheduleSpec
from mailsift.jobs.views import AccountId
from mailsift.pipeline.outcomes.senders import SenderKind
from tests.support.installation import settings_for

Make = Callable[[Container, AccountId, int], Awaitable[object]]


async def _public_key(container: Container, account: AccountId, _: int) -> object:
    caller = Caller(account, account, frozenset(), None)
    return await container.keys.create_public(
        caller, name="", origins=["https://www.example.com"], checks_per_minute=None
    )


MAKE: dict[str, tuple[int, Make]] = {
    "webhook_limit": (50, lambda c, account, n: c.webhooks.create(account, f"https://example.com/{n}")),
    "public_key_limit": (100, _public_key),
    "schedule_limit": (
        100,
        lambda c, account, n: c.schedules.create(
            account, None, ScheduleSpec("0 6 * * *"), source=f"https://example.com/{n}.csv"
        ),
    ),
    "receiver_limit": (
        50,
        lambda c, account, n: c.receivers.create(account, SenderKind.POSTMARK, name=str(n)),
    ),
}


@pytest.mark.parametrize("code", MAKE)
async def test_as_many_as_ask_at_once_get_no_more_than_there_may_be(
    code: str, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    most, make = MAKE[code]
    settings = settings_for(tmp_path, database_url=database_url, redis_url=redis_url, sandbox={})
    async with open_container(settings) as container:
        account = await container.jobs.account("acme")
        made = await asyncio.gather(
            *(make(container, account, n) for n in range(most + 20)), return_exceptions=True
        )
    codes = Counter(getattr(one, "code", "made") for one in made)
    assert codes == {"made": most, code: 20}
