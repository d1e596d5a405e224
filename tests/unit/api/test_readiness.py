"""Whoever watches a process is told in time whether it can serve requests."""

from __future__ import annotations

import asyncio

import pytest

from mailsift.api.health import Readiness
from mailsift.pipeline.errors import MailsiftError

NOT_MIGRATED = MailsiftError("database_not_migrated", "Run mailsift migrate.")


async def test_a_database_that_stands_still_is_not_ready_and_is_asked_once() -> None:
    asked, goes_on = 0, asyncio.Event()

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await goes_on.wait()

    readiness, began = Readiness(ask), asyncio.get_running_loop().time()
    for _ in range(3):
        with pytest.raises(MailsiftError) as caught:
            await readiness.check()
        assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
    assert asyncio.get_running_loop().time() - began < 10
    assert asked == 1
    goes_on.set()
    await readiness.check()
    await readiness.check()
    assert asked == 2


async def test_what_is_the_matter_is_said_to_everybody_who_asks_and_asked_anew() -> None:
    answers: list[MailsiftError | None] = [NOT_MIGRATED, None]

    async def ask() -> None:
        await asyncio.sleep(0)
        if error := answers.pop(0):
            raise error

    readiness = Readiness(ask)
    errors = await asyncio.gather(readiness.check(), readiness.check(), return_exceptions=True)
    assert list(errors) == [NOT_MIGRATED, NOT_MIGRATED]
    await readiness.check()
