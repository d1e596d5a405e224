"""Libraries nobody here wrote, which judge our signatures."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

JUDGES: Final = ("standardwebhooks", "svix")


def judge(library: str, secret: str, body: str, headers: Mapping[str, str]) -> None:
    """Let one of them verify; only whom it judges waits for its import, which takes svix a second.

    Raises:
        Exception: its WebhookVerificationError.
    """
    importlib.import_module(library).Webhook(secret).verify(body, dict(headers))


def refusal(library: str) -> type[Exception]:
    """Return what it raises."""
    error: type[Exception] = importlib.import_module(library).WebhookVerificationError
    return error
