"""What is held of bodies whose senders nobody knows yet."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from fastapi import Request
from starlette.types import Message

from mailsift.api.http.auth import FloodGuard
from mailsift.api.v1.outcomes import WEBHOOK_BYTES, receive
from mailsift.jobs.outcomes.receivers import ReceivedPost
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.pipeline.errors import MailsiftError

PIECE = b"a" * WEBHOOK_BYTES


class NoRedis:
    async def take(self, *_: object, **__: object) -> None:
        """Count nothing."""


class Receivers:
    def __init__(self) -> None:
        self.received = list[int]()

    async def receive(self, _: UUID, posted: ReceivedPost) -> ImportCounts:
        self.received.append(len(posted.body))
        return ImportCounts()


class Post:
    """A request whose first piece is all of its body but the end, which comes when it is told to."""

    def __init__(self, app: object) -> None:
        self.end = asyncio.Event()
        self._pieces = [PIECE]
        scope = {"type": "http", "method": "POST", "headers": [], "client": ("192.0.2.1", 1), "app": app}
        self.request = Request(scope, self._next)

    async def _next(self) -> Message:
        if self._pieces:
            return {"type": "http.request", "body": self._pieces.pop(), "more_body": True}
        await self.end.wait()
        return {"type": "http.request", "body": b"", "more_body": False}


async def test_what_is_on_its_way_to_receivers_is_held_up_to_64_megabytes_and_no_more() -> None:
    receivers = Receivers()
    parts = SimpleNamespace(floods=FloodGuard(NoRedis()), receivers=receivers)  # type: ignore[arg-type]
    app = SimpleNamespace(state=SimpleNamespace(parts=parts))
    posts = [Post(app) for _ in range(16)]
    held = [asyncio.create_task(receive(post.request, uuid4())) for post in posts]
    await asyncio.sleep(0.1)
    with pytest.raises(MailsiftError, match="service_unavailable"):
        async with asyncio.timeout(1):
            await receive(Post(app).request, uuid4())
    for task in held[1:]:
        task.cancel()
    posts[0].end.set()
    for task in held:
        with suppress(asyncio.CancelledError):
            await task
    last = Post(app)
    last.end.set()
    await receive(last.request, uuid4())
    assert receivers.received == [WEBHOOK_BYTES] * 2
