"""An installation for tests: settings on real servers and a sandbox, its service, and a way to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from mailsift.api.parts import ApiParts
from mailsift.container import API_POOL, open_container
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings

OVERRIDES = """\
[limits]
rate = 5000
burst = 500
"""
NO_NETWORK = {"MAILSIFT_SMTP_PORT": "9"}


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[ApiParts]:
    """Give the parts of the API."""
    async with open_container(settings, pool_size=API_POOL) as container:
        yield await container.api_parts()


def settings_for(
    home: Path,
    *,
    database_url: str | None = None,
    redis_url: str | None = None,
    sandbox: Mapping[str, str] = NO_NETWORK,
    overrides: str = OVERRIDES,
    **more: object,
) -> Settings:
    """Settings that know nothing but these servers, or the embedded ones; leases are short, for the dead."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "overrides.toml"
    file.write_text(overrides)
    values: dict[str, object] = {
        "home": home,
        "database_url": SecretStr(database_url) if database_url else None,
        "redis_url": SecretStr(redis_url) if redis_url else None,
        "overrides": file,
        "greylist_delays": (2.0, 4.0, 8.0),
        "lease_seconds": 4.0,
        "heartbeat_seconds": 1.0,
        "sweep_seconds": 1.0,
        "worker_processes": 1,
        "helo_name": "mailsift.sandbox.test",
        **{name.removeprefix("MAILSIFT_").lower(): value for name, value in sandbox.items()},
        **more,
    }
    return Settings(**values)  # type: ignore[arg-type]  # pydantic checks every one


async def ended(service: JobService, account: AccountId, job_id: JobId, *, within: float) -> JobView:
    """Return the job once it has ended."""
    await until(lambda: service.has_ended(account, job_id), within=within)
    return await service.get(account, job_id)


async def until(condition: Callable[[], Awaitable[bool]], *, within: float, every: float = 0.1) -> None:
    """Look until the condition holds; fail after `within` seconds."""
    limit = time.monotonic() + within
    while not await condition():
        assert time.monotonic() < limit, f"nothing happened within {within} s"
        await asyncio.sleep(every)


async def code_of(refused: Awaitable[object]) -> str:
    """Return the code a call is refused with, "" when it is not."""
    try:
        await refused
    except MailsiftError as error:
        return error.code
    return ""
