"""The keys of this installation: from the settings, else of this machine's own.

Those are in files below HOME that are made when they are missing.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mailsift.accounts.keys import Pepper, read_peppers
from mailsift.events.signing import KEY_BYTES, Vault
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings

_LOCAL = "local"


def read_key_peppers(settings: Settings) -> Sequence[Pepper]:
    """Return the peppers of API keys: KEY_PEPPERS, or the one in HOME/pepper.

    Raises:
        MailsiftError: `bad_peppers`.
    """
    if settings.key_peppers is not None:
        return read_peppers(settings.key_peppers.get_secret_value())
    new = f"1:{secrets.token_urlsafe(32)}"
    return read_peppers(_read_or_make(settings.home / "pepper", new.encode()).decode())


def open_vault(settings: Settings) -> Vault:
    """Return what seals the secrets of webhooks, with SECRET_KEYS or the key in HOME/secret-key.

    Raises:
        MailsiftError: `bad_settings`.
    """
    if settings.secret_keys is not None:
        return Vault(_read_keys(settings.secret_keys.get_secret_value()), token=secrets.token_bytes)
    key = _read_or_make(settings.home / "secret-key", secrets.token_bytes(KEY_BYTES))
    if len(key) != KEY_BYTES:
        raise MailsiftError("bad_settings", "HOME/secret-key does not hold 32 bytes.")
    return Vault({_LOCAL: key}, token=secrets.token_bytes)


def _read_keys(text: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for piece in text.split(","):
        name, _, encoded = piece.strip().partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            raise _bad_keys() from None
        if not name.isascii() or not name or name in keys or len(key) != KEY_BYTES:
            raise _bad_keys()
        keys[name] = key
    return keys


def _bad_keys() -> MailsiftError:
    text = "MAILSIFT_SECRET_KEYS: expected name:base64 of 32 bytes, ... with distinct names."
    return MailsiftError("bad_settings", text)


def _read_or_make(file: Path, new: bytes) -> bytes:
    """Return what is in a file; of many processes that find none, one makes it and all use it."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - its mode matters
            out.write(new)
        with suppress(FileExistsError):
            os.link(fresh, file)  # whole or not at all, and never over another one
        fresh.unlink()
    return file.read_bytes()
