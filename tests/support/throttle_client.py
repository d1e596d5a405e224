"""A process of its own that asks the throttle again and again and writes down every answer.

    python -m tests.support.throttle_client PROVIDER

The settings come from the environment, as a worker's do.
"""

from __future__ import annotations

import asyncio
import sys

from mailsift.container import open_container
from mailsift.pipeline.throttle import Ask, Report, SessionOutcome
from mailsift.settings import Settings
from mailsift.storage.redis.local_throttle import HELD


async def ask_on(provider: str) -> None:
    """Print `granted RECIPIENTS`, `held` or `denied` for every ask, ten times a second."""
    settings = Settings.from_env()
    ask = Ask(provider, "", "192.0.2.1", 5)
    async with open_container(settings) as container:
        throttle = await container.throttle(edited=True)
        while True:
            (grant,) = await throttle.grant([ask])
            if grant.recipients:
                await throttle.report([Report(ask, grant.lease, SessionOutcome.FAILED)])
            refused = "held" if grant == HELD else "denied"
            print(f"granted {grant.recipients}" if grant.recipients else refused, flush=True)  # noqa: T201
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(ask_on(sys.argv[1]))
