"""Lists that come in piece by piece: what ends late takes nothing away; what nobody finishes is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from mailsift.container import OtherParts, open_container
from mailsift.settings import Settings

DAY = 86_400.0
LIST = b"email\n" + b"".join(b"p%d@shop.example\n" % n for n in range(100))


class _Hours:
    """A clock that a test moves."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def _pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def _files(settings: Settings) -> list[Path]:
    return [path for path in (settings.home / "blobs").rglob("*") if path.is_file()]


async def test_what_nobody_finishes_is_forgotten_and_goes_with_its_account(settings: Settings) -> None:
    clock = _Hours()
    async with open_container(settings, other=OtherParts(clock=clock)) as container:
        uploads, account = container.uploads, await container.jobs.account("alice")
        old = await uploads.begin(account, "list.csv", len(LIST))
        await uploads.append(account, old.id, 0, _pieces(LIST[:100], b"", LIST[100:200]))
        assert [(one.name, one.offset) for one in await uploads.waiting(account)] == [("list.csv", 200)]
        assert await container.drafts.waiting(account) == []
        clock.now += 2 * DAY
        assert await uploads.waiting(account) == []
        assert await container.drafts.sweep() == 1
        assert _files(settings) == []
        young = await uploads.begin(account, "list.csv", len(LIST))
        await uploads.append(account, young.id, 0, _pieces(LIST[:100]))
        await container.eraser.account(account)
        assert _files(settings) == []


async def test_a_request_that_ends_late_takes_nothing_away(settings: Settings) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def silent() -> AsyncIterator[bytes]:
        asked.set()
        yield LIST[:100]
        await gate.wait()

    async with open_container(settings) as container, asyncio.TaskGroup() as tasks:
        other = container.uploads
        account = await container.jobs.account("alice")
        begun = await other.begin(account, "list.csv", len(LIST))
        late = tasks.create_task(other.append(account, begun.id, 0, silent()))
        await asked.wait()
        async with open_container(settings) as second:  # another process takes the next request
            await second.uploads.append(account, begun.id, 0, _pieces(LIST[:400]))
            gate.set()
            await late
            assert (await second.uploads.find(account, begun.id)).offset == 400
            done = await second.uploads.append(account, begun.id, 400, _pieces(LIST[400:]))
            assert done.offset == done.length == len(LIST)
        (source,) = [path for path in _files(settings) if path.name == "source"]
        assert source.read_bytes() == LIST
        assert [path for path in _files(settings) if path.parent.name == "parts"] == []
