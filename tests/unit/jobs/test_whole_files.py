"""Work on whole files of results has few threads, of which nobody takes all; all else has its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from uuid import uuid4

import pytest

from mailsift.jobs.results.browse import in_thread
from mailsift.jobs.views import AccountId

ASKED_BY: ContextVar[str] = ContextVar("asked_by", default="nobody")
ALICE, BOB = AccountId(uuid4()), AccountId(uuid4())


class HeldWork:
    """Work that takes until the gate is opened; `started` names what has begun."""

    def __init__(self) -> None:
        self.gate, self.started = threading.Event(), list[int]()

    def __call__(self, n: int) -> int:
        self.started.append(n)
        self.gate.wait(30)
        return n


@pytest.fixture
def work() -> Iterator[HeldWork]:
    held = HeldWork()
    yield held
    held.gate.set()


async def test_many_who_want_whole_files_wait_for_each_other_and_nobody_else_does(work: HeldWork) -> None:
    waiting = [in_thread(AccountId(uuid4()), work, n) for n in range(40)]
    assert await asyncio.wait_for(asyncio.to_thread(len, "free"), 10) == 4
    assert 0 < len(work.started) < 10
    assert waiting[-1].cancel()
    await asyncio.sleep(0)  # the loop tells the threads
    work.gate.set()
    assert await asyncio.gather(*waiting[:-1]) == list(range(39))
    assert sorted(work.started) == list(range(39))


async def test_who_wants_many_whole_files_keeps_nobody_else_waiting(work: HeldWork) -> None:
    waiting = [in_thread(ALICE, work, n) for n in range(40)]
    assert await asyncio.wait_for(in_thread(BOB, len, "one"), 10) == 3
    assert len(work.started) < 4
    assert waiting[-1].cancel()
    work.gate.set()
    assert await asyncio.gather(*waiting[:-1]) == list(range(39))
    assert sorted(work.started) == list(range(39))


async def test_who_asked_is_known_in_the_thread() -> None:
    ASKED_BY.set("alice")
    assert await in_thread(ALICE, ASKED_BY.get) == "alice"
