"""Judges one address for those who wait; what is heavy is loaded when somebody asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from jobs.meters import ADDRESSES
from pipeline.facts import Mode
from pipeline.judge.row import Policy
from pipeline.lists import Lists
from pipeline.single import Wish, judge_fast
from pipeline.verdict import Verdict

if TYPE_CHECKING:
    from pipeline.single_frame import SingleFrames

_FIELDS = tuple(field.name for field in fields(Verdict))


class SingleValidator:
    """Judges single addresses.

    Args:
        lists, policy: all that mode fast needs.
        frames: opens the whole pipeline. It is called when the first address asks for more than the lists:
            frames are a fifth of the memory of a process, and many only take lists in.
    """

    def __init__(self, *, lists: Lists, policy: Policy, frames: Callable[[], SingleFrames]) -> None:
        self._lists = lists
        self._policy = policy
        self._open = frames
        self._opening = asyncio.Lock()
        self._frames: SingleFrames | None = None

    async def judge(self, email: str, wish: Wish) -> dict[str, Any]:
        """Return the 13 fields, and with `wish.evidence` the facts as JSON in `evidence`.

        When time runs out the verdict is the honest risky one, never an error.
        """
        if wish.mode is Mode.FAST and not wish.evidence:
            verdict, suggestion = judge_fast(email, self._lists, self._policy)
            told = {name: getattr(verdict, name) for name in _FIELDS} | {"suggestion": suggestion}
        else:
            told = await (await self._opened()).judge(email, wish)
        ADDRESSES.add(told["status"], told["result"])
        return told

    async def _opened(self) -> SingleFrames:
        async with self._opening:
            if self._frames is None:
                self._frames = await asyncio.to_thread(self._open)
            return self._frames
