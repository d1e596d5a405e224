"""What the processes of a worker need is loaded before they are forked, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.child_processes import environment_for
from tests.support.installation import settings_for

_PROGRAM = """
import asyncio, sys
from mailsift.lazy_import import import_lazily, without
import_lazily("polars")
with without("cffi", "pygments"):
    import mailsift.runtime.worker
from billiard.util import get_pdeathsig, set_pdeathsig
from mailsift.container import open_engine
from mailsift.settings import Settings

settings = Settings.from_env()  # as the command does, before it forks
loaded = set(sys.modules)
print(*(name for name in ("polars.dataframe", "httpx._main", "fastapi") if name in loaded))

async def open_one():
    async with open_engine(settings) as engine:
        await engine.drain()

asyncio.run(open_one())
set_pdeathsig(9)
late = set(sys.modules) - loaded
print(get_pdeathsig(), *(name for name in late if name.startswith(("mailsift.", "cffi"))))
"""


def test_the_processes_of_a_worker_have_nothing_of_ours_to_load(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={})
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment_for(settings.environment()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["", "9"]
