"""Distinct addresses through the service's validator, slice by slice."""

from __future__ import annotations

import asyncio
import math
from typing import Final

import polars as pl

from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.validator import ValidationRequest, Validator

_SLICE: Final = 50_000  # addresses validated at a time: bounds what lies between evidence and verdict
_AT_A_TIME: Final = 3  # while one slice waits for its slowest domain, others go on
_SESSION_SECONDS: Final = 45.0
_RESERVE: Final = 0.25  # seconds kept of a deadline, to judge what was found


class ManyValidator:
    """Validates a list of addresses now: nobody comes back for the rest."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    async def validate(
        self, addresses: pl.DataFrame, *, mode: Mode, deadline: float | None, max_age: float
    ) -> pl.DataFrame:
        """Judge every address.

        Args:
            addresses: frames.ADDRESSES, in the order of their numbers.
            mode: how far to look.
            deadline: seconds after which is judged what is known; None: no end.
            max_age: seconds a mail server's answer is used again.

        Returns:
            frames.VERDICTS, in the same order.
        """
        ends_at = math.inf if deadline is None else asyncio.get_running_loop().time() + deadline
        slices = addresses.iter_slices(_SLICE)
        parts = await asyncio.gather(*(self._validate(part, mode, ends_at, max_age) for part in slices))
        return pl.concat([pl.DataFrame(schema=dict(VERDICTS)), *parts])

    async def _validate(
        self, addresses: pl.DataFrame, mode: Mode, ends_at: float, max_age: float
    ) -> pl.DataFrame:
        async with self._turn:
            left = ends_at - asyncio.get_running_loop().time()
            seconds = max(left - _RESERVE, left / 2)
            request = ValidationRequest(
                mode,
                max_age=max_age,
                session_s=min(seconds, _SESSION_SECONDS),
                budget_s=seconds,
                ends_at=ends_at - left + seconds if left < math.inf else ends_at,
            )
            try:
                async with asyncio.timeout_at(ends_at if left < math.inf else None):
                    result = await self._validator.validate(addresses, request)
            except TimeoutError:
                result = self._validator.give_up(addresses, mode, request.domains_found)
        return result.finished.sort("n").select(*VERDICTS)
