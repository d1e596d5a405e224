"""One address through the whole pipeline, within a deadline: a list of one row.

Apart from pipeline.single, because a process that never looks further than the lists needs no frames.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import polars as pl

from pipeline import syntax
from pipeline.frames import VERDICTS
from pipeline.sift import Request, Sifter
from pipeline.single import Wish

_RESERVE: Final = 0.25  # seconds kept of a deadline, to judge what was found
_MAX_AGE: Final = 86_400.0  # seconds a mail server's answer is used again, as for lists


class SingleFrames:
    """Judges single addresses with a sifter."""

    def __init__(self, sifter: Sifter) -> None:
        self._sifter = sifter

    async def judge(self, email: str, wish: Wish) -> dict[str, Any]:
        """Return the 13 fields, and with `wish.evidence` the facts as JSON in `evidence`."""
        parsed = syntax.parse(pl.Series("raw", [email], pl.String))
        frame = parsed.with_columns(pl.lit(0, pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows"))
        seconds = max(wish.deadline - _RESERVE, wish.deadline / 2)
        request = Request(
            wish.mode,
            evidence=wish.evidence,
            max_age=_MAX_AGE,
            session_s=seconds,
            budget_s=seconds,
            owner=wish.owner,
        )
        try:
            async with asyncio.timeout(wish.deadline):
                sifted = await self._sifter.sift(frame, request)
        except TimeoutError:
            sifted = self._sifter.give_up(frame, wish.mode)
        fields = [*VERDICTS, "evidence"] if wish.evidence else list(VERDICTS)
        return sifted.finished.select(fields).row(0, named=True)
