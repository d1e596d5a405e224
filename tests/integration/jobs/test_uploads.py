"""Lists that come in piece by piece: what ends late takes nothing away; what nobody finishes is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailsift.container import OtherParts, open_container
from mailsift.pipeline.errors import MailsiftError
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


class _Late:
    """The last bytes of a list, in a request that ends when it is told to."""

    def __init__(self) -> None:
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        self.asked.set()
        yield LIST[400:]
        await self.gate.wait()


async def test_a_list_stays_whole_that_two_requests_have_finished(settings: Settings) -> None:
    late = _Late()
    async with open_container(settings) as container, open_container(settings) as second:
        account = await container.jobs.account("alice")
        begun = await container.uploads.begin(account, "list.csv", len(LIST))
        await container.uploads.append(account, begun.id, 0, _pieces(LIST[:100]))
        (first,) = [path for path in _files(settings) if path.parent.name == "parts"]
        await container.uploads.append(account, begun.id, 100, _pieces(LIST[100:400]))
        async with asyncio.TaskGroup() as tasks:
            other = tasks.create_task(container.uploads.append(account, begun.id, 400, late.pieces()))
            await late.asked.wait()
            await second.uploads.append(account, begun.id, 400, _pieces(LIST[400:]))
            first.parent.mkdir(exist_ok=True)
            first.write_bytes(LIST[:100])  # as while its parts are being deleted
            late.gate.set()
        assert (await other).offset == len(LIST)
        (source,) = [path for path in _files(settings) if path.suffix != ".json"]
        assert source.read_bytes() == LIST


async def test_a_list_that_was_given_up_does_not_come_back_with_its_last_bytes(settings: Settings) -> None:
    late = _Late()
    async with open_container(settings) as container:
        account = await container.jobs.account("alice")
        begun = await container.uploads.begin(account, "list.csv", len(LIST))
        await container.uploads.append(account, begun.id, 0, _pieces(LIST[:400]))
        ending = asyncio.create_task(container.uploads.append(account, begun.id, 400, late.pieces()))
        await late.asked.wait()
        await container.drafts.discard(account, begun.id)
        late.gate.set()
        with pytest.raises(MailsiftError, match="draft_not_found"):
            await ending
        assert await container.drafts.waiting(account) == []
