"""The one error root of the house."""

from __future__ import annotations

import traceback
from pathlib import Path


class MailsiftError(Exception):
    """Something a caller can act on.

    Attributes:
        code: stable machine code in snake_case; part of the contract.
        message: one English sentence for people; may change; never holds an address, key or secret.
        retryable: whether the same call may succeed later without a change.
    """

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable


def error_fields(error: Exception) -> dict[str, str]:
    """Name an error and its place without its words: they may hold an address."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"error": f"{type(error).__module__}.{type(error).__qualname__}", "at": place}
