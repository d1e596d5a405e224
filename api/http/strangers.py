"""Bodies of whom nobody knows yet who they are: how much of them is held, all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request

from mailsift.pipeline.errors import MailsiftError


class Strangers:
    """What the bodies may take, all together, of whom nobody knows yet who they are.

    Clients of some services send their key within the body, behind a list, and mail senders sign theirs; so
    whoever has no key could fill memory and disk.

    Args:
        most: bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[Callable[[int], None]]:
        """Give what is to be called with the size of each piece of a body; it is forgotten with the block.

        Raises:
            MailsiftError: `service_unavailable`, when it is called and there is no room left.
        """
        own = 0

        def take(size: int) -> None:
            nonlocal own
            if self._taken + size > self._most:
                text = "Too much is on its way in. Try again later."
                raise MailsiftError("service_unavailable", text, retryable=True)
            self._taken += size
            own += size

        try:
            yield take
        finally:
            self._taken -= own


async def read_body(request: Request, take: Callable[[int], None]) -> bytes:
    """Return the body of a request; `take` is called with the size of each piece of it.

    Raises:
        MailsiftError: what `take` raises.
    """
    body = bytearray()
    async for piece in request.stream():
        take(len(piece))
        body += piece
    return bytes(body)
