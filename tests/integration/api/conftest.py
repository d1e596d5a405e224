"""The API on a real socket, over real servers; a worker beside it where a test asks for one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial

import httpx
import pytest
from argon2 import PasswordHasher

from mailsift.accounts import sessions
from mailsift.accounts.keys import Scope
from mailsift.container import open_container
from mailsift.runtime.api_server import RequestLimits, listening, serve
from mailsift.settings import Settings
from tests.support.serving import NO_TLS
from tests.support.workers import worker_beside


@pytest.fixture(scope="module", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hashes are slow by intent; their real cost is looked at in tests/unit/accounts/test_passwords.py."""
    cheap = partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "PasswordHasher", cheap)
        yield


@dataclass(frozen=True)
class Api:
    """A running API and what belongs to it."""

    url: str
    settings: Settings

    async def key(self, account: str, *scopes: Scope) -> str:
        async with open_container(self.settings) as container:
            return (await container.keys.create(await container.jobs.account(account), scopes=scopes)).secret

    def client(self, key: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, verify=NO_TLS)


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_port=0, dns_servers=("127.0.0.1:9",))


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Api]:
    async with running(settings) as found:
        yield found


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with api.client(await api.key("alice")) as alice:
        yield alice


@pytest.fixture
def worker(settings: Settings) -> Iterator[None]:
    with worker_beside(settings):
        yield


class running:  # noqa: N801 - reads as a word
    """Serve the API on this loop until the block ends.

    No answer waits for the client's ACK, as none does on uvloop, where the product serves: asyncio's loop
    leaves TCP_NODELAY as it is where a socket does not name its protocol, and every answer came 40 ms late.
    """

    def __init__(self, settings: Settings, limits: RequestLimits | None = None) -> None:
        self._settings = settings
        self._limits = limits or RequestLimits()

    async def __aenter__(self) -> Api:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._serve(address.set_result))

        def over(task: asyncio.Task[None]) -> None:
            if not address.done():
                address.set_exception(task.exception() or RuntimeError("the API stopped before it served"))

        self._task.add_done_callback(over)
        return Api(await address, self._settings)

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task

    async def _serve(self, started: Callable[[str], None]) -> None:
        with listening(self._settings) as sockets:
            for one in sockets:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # who is accepted has it, too
            await serve(
                self._settings, sockets=sockets, started=started, stop=self._stop, limits=self._limits
            )
