"""Questions that come together go together; each has its own answer, and none an old one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

from mailsift.storage.shared_calls import SharedCalls


class Asked:
    """Answers with the number of the call; what was asked is kept, and a call waits until it may go on."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, questions: Sequence[int]) -> Sequence[tuple[int, int]]:
        self.calls.append(list(questions))
        self.begun.set()
        await self.may_go_on.wait()
        if -1 in questions:
            raise LookupError
        return [(len(self.calls), question) for question in questions]


async def test_what_comes_while_a_call_is_under_way_shares_the_next_one() -> None:
    asked = Asked()
    shared = SharedCalls(asked, most=3)
    first = asyncio.create_task(shared.ask(1))
    await asked.begun.wait()
    others = [asyncio.create_task(shared.ask(n)) for n in range(2, 7)]
    await asyncio.sleep(0)
    asked.may_go_on.set()
    assert await first == (1, 1)
    assert await asyncio.gather(*others) == [(2, 2), (2, 3), (2, 4), (3, 5), (3, 6)]
    assert asked.calls == [[1], [2, 3, 4], [5, 6]]


async def test_who_comes_turn_after_turn_of_the_loop_shares_a_call_and_no_more_than_it_takes() -> None:
    asked = Asked()
    asked.may_go_on.set()
    shared = SharedCalls(asked, most=3)
    tasks = []
    for n in range(4):
        tasks.append(asyncio.create_task(shared.ask(n)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert asked.calls == [[0, 1, 2], [3]]


async def test_a_failure_is_for_those_who_share_it_and_who_has_gone_takes_nobody_along() -> None:
    asked = Asked()
    asked.may_go_on.set()
    shared = SharedCalls(asked, most=2)
    tasks = [asyncio.create_task(shared.ask(n)) for n in (1, -1, 2, 3)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [LookupError, LookupError, asyncio.CancelledError, tuple]
    assert await shared.ask(4) == (3, 4)


async def test_a_call_that_answers_too_few_is_a_failure_and_leaves_nobody_waiting() -> None:
    async def forgets(questions: Sequence[int]) -> Sequence[int]:
        return list(questions)[1:]

    shared = SharedCalls(forgets, most=2)
    found = await asyncio.gather(*map(shared.ask, range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [int, ValueError, ValueError]


async def test_a_call_that_some_share_is_in_the_context_of_none() -> None:
    asker, seen = ContextVar("asker", default="nobody"), list[str]()

    async def call(questions: Sequence[int]) -> Sequence[int]:
        seen.append(asker.get())
        return questions

    shared = SharedCalls(call, most=3)
    asker.set("first")
    assert [*await asyncio.gather(shared.ask(1), shared.ask(2))] == [1, 2]
    assert seen == ["nobody"]
