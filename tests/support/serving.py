"""Servers of ours as a service manager would run them: a log, a SIGTERM, an end."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mailsift.settings import Settings
from tests.support.child_processes import start_service
from tests.support.installation import until
from tests.support.workers import kill_group

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: to load whom the system trusts takes longer than what most of them ask."""


@asynccontextmanager
async def command(settings: Settings, log: Path, *words: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a server of ours for the time of the block, and stop it as a service manager would."""
    with log.open("wb") as out:
        process = start_service(settings, out, "mailsift", *words)
    try:
        yield process
        process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0
    finally:
        kill_group(process.pid)
        process.wait()


async def address(log: Path) -> str:
    """Return where the API listens, once it does."""

    async def is_told() -> bool:
        return "listens on" in log.read_text()  # noqa: ASYNC240 - a small file

    await until(is_told, within=60)
    (found,) = re.findall(r"listens on (\S+)", log.read_text())  # noqa: ASYNC240 - same
    return str(found)
