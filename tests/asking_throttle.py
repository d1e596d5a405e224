"""A process of its own that asks the throttle again and again and writes down every answer.

    python -m tests.asking_throttle PROVIDER

The settings come from the environment, as a worker's do.
"""

from __future__ import annotations

import asyncio
import sys

from mailsift.settings import Settings
from mailsift.wiring import _open_outside, open_database
from pipeline.ports import Ask, Outcome, Report
from storage.local_throttle import HELD


async def ask_on(provider: str) -> None:
    """Print `granted RECIPIENTS`, `held` or `denied` for every ask, ten times a second."""
    settings = Settings.from_env()
    database = open_database(settings)
    ask = Ask(provider, "", "192.0.2.1", 5)
    async with _open_outside(settings, database) as outside:
        while True:
            (grant,) = await outside.throttle.grant([ask])
            if grant.recipients:
                await outside.throttle.report([Report(ask, grant.lease, Outcome.FAILED)])
            refused = "held" if grant == HELD else "denied"
            print(f"granted {grant.recipients}" if grant.recipients else refused, flush=True)  # noqa: T201
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(ask_on(sys.argv[1]))
