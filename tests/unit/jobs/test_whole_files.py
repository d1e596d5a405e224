"""Work on whole files of results has few threads, of which nobody takes all; all else has its own."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from uuid import uuid4

from mailsift.jobs.results.whole_files import in_thread
from mailsift.jobs.views import AccountId

ASKED_BY: ContextVar[str] = ContextVar("asked_by", default="nobody")
ALICE, BOB = AccountId(uuid4()), AccountId(uuid4())


async def test_many_who_want_whole_files_wait_for_each_other_and_nobody_else_does() -> None:
    gate, started = threading.Event(), []

    def work(n: int) -> int:
        started.append(n)
        gate.wait(30)
        return n

    try:
        waiting = [in_thread(AccountId(uuid4()), work, n) for n in range(40)]
        assert await asyncio.wait_for(asyncio.to_thread(len, "free"), 10) == 4
        few = len(started)
        assert 0 < few < 10
        assert waiting[-1].cancel()
        await asyncio.sleep(0)  # the loop tells the threads
    finally:
        gate.set()
    assert await asyncio.gather(*waiting[:-1]) == list(range(39))
    assert sorted(started) == list(range(39))


async def test_who_wants_many_whole_files_keeps_nobody_else_waiting() -> None:
    gate, started = threading.Event(), []

    def work(n: int) -> int:
        started.append(n)
        gate.wait(30)
        return n

    try:
        waiting = [in_thread(ALICE, work, n) for n in range(40)]
        assert await asyncio.wait_for(in_thread(BOB, len, "one"), 10) == 3
        assert len(started) < 4
        assert waiting[-1].cancel()
    finally:
        gate.set()
    assert await asyncio.gather(*waiting[:-1]) == list(range(39))
    assert sorted(started) == list(range(39))


async def test_who_asked_is_known_in_the_thread() -> None:
    ASKED_BY.set("alice")
    assert await in_thread(ALICE, ASKED_BY.get) == "alice"
