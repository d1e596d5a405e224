"""A change that may be refused: either way the browser goes on to a page that says what happened."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from api.errors import STATUS_OF
from api.pages.page import see
from pipeline.errors import MailsiftError

_PERSON_CAN_MEND: Final = frozenset({409, 422, 429})


async def attempt(request: Request, address: str, change: Awaitable[object], done: str) -> Response:
    """Make a change and go to a page of ours, which says `done` or why not.

    Raises:
        MailsiftError: whatever the person who asked cannot mend by asking otherwise.
    """
    try:
        await change
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return see(request, address, error.message, kind="bad")
    return see(request, address, done)


def is_mendable(error: MailsiftError) -> bool:
    """Say whether a form should be shown again with the error: it was filled in wrongly, or too early."""
    return STATUS_OF.get(error.code, 500) in _PERSON_CAN_MEND
