"""A task beside lists that fails stops no other; it is counted, unless what it needs is away."""

from __future__ import annotations

import asyncio
import errno
from typing import Any, cast

from mailsift.events.delivery import Deliverer
from mailsift.jobs.engine.maintenance import Maintenance, Sweeper
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.metrics import UPKEEP_ERRORS
from tests.support.captured_metrics import Counted


class NothingDue:
    """Stands for what sends webhooks."""

    async def sweep(self) -> int:
        return 0


async def test_a_task_that_fails_by_itself_is_counted_and_stops_no_other() -> None:
    done = []

    async def broken() -> None:
        raise ValueError

    async def while_the_database_is_away() -> None:
        raise MailsiftError("database_unavailable", "The database is away.", retryable=True)

    async def on_a_full_disk() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def sound() -> None:
        done.append("sound")

    maintenance = Maintenance(
        deliverer=cast("Deliverer", NothingDue()),
        periodic={
            "measure": broken,
            "retention": while_the_database_is_away,
            "tidy": on_a_full_disk,
            "drafts": sound,
        },
    )
    counts = Counted(UPKEEP_ERRORS)
    for _ in range(2):
        await maintenance.sweep()
        await maintenance.aclose(5.0)
    assert dict(counts) == {("upkeep_errors_total", "measure"): 2}
    assert done == ["sound", "sound"]


async def test_a_turn_of_the_sweeper_that_fails_by_itself_is_counted_and_is_not_the_last() -> None:
    class Broken:
        turns = 0
        draining = False

        def note_sweep(self) -> None:
            self.turns += 1
            if self.turns == 3:
                stop.set()
            raise ValueError

        async def stop(self, _: object) -> None:
            """Nothing is reported."""

    stop, broken = asyncio.Event(), Broken()
    nothing = Maintenance(deliverer=cast("Deliverer", NothingDue()), periodic={})
    parts: dict[str, Any] = dict.fromkeys(("database", "top_up")) | {"heartbeat": broken}
    counts = Counted(UPKEEP_ERRORS)
    await Sweeper(maintenance=nothing, sweep_s=0.0, **parts).run(stop)
    assert dict(counts) == {("upkeep_errors_total", "sweeper"): 3}
