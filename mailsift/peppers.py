"""The peppers of API keys: from the settings, else one of this machine's own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress

from api.key_format import Pepper, read_peppers
from mailsift.settings import Settings


def peppers(settings: Settings) -> Sequence[Pepper]:
    """Return KEY_PEPPERS, or the pepper in HOME/pepper, which is made when it is missing.

    Raises:
        MailsiftError: `bad_peppers`.
    """
    if settings.key_peppers is not None:
        return read_peppers(settings.key_peppers.get_secret_value())
    file = settings.home / "pepper"
    settings.home.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"pepper.{secrets.token_hex(8)}")
    if not file.exists():
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:  # noqa: PTH123 - its mode matters
            out.write(f"1:{secrets.token_urlsafe(32)}")
        with suppress(FileExistsError):
            os.link(draft, file)  # whole or not at all, and never over another one
        draft.unlink()
    return read_peppers(file.read_text())
