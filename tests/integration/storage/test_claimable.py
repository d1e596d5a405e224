"""What a sweeper takes for work that waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mailsift.settings import Settings
from mailsift.storage.database import Database
from mailsift.storage.sql.stats import claimable
from tests.support.ready_jobs import Planter


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(sandbox={})


async def test_ready_chunks_and_free_steps_wait_and_nothing_else(
    settings: Settings, tmp_path: Path, database_url: str
) -> None:
    planter = Planter(settings, tmp_path)
    database = Database(database_url)

    async def waiting(most: int = 32) -> int:
        async with database.begin() as connection:
            return await claimable(connection, most=most)

    assert await waiting() == 0
    await planter.plant([f"user{n}@example.com" for n in range(7)], chunk=3)
    assert (await waiting(), await waiting(2)) == (3, 2)
    await planter.sql("UPDATE chunk SET ready_at = 'infinity' WHERE n = 0")
    assert await waiting() == 2
    await planter.sql("UPDATE job SET state = 'paused'")
    assert await waiting() == 0
    await planter.sql("UPDATE job SET state = 'finalizing'")
    assert await waiting() == 1
    await planter.sql(
        "UPDATE job SET step_token = gen_random_uuid(), step_until = clock_timestamp() + interval '1 h'"
    )
    assert await waiting() == 0
    await planter.sql("UPDATE job SET step_until = clock_timestamp()")
    assert await waiting() == 1
    await database.aclose()
