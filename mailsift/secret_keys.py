"""The keys that seal webhook secrets: from the settings, else one of this machine's own."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from pathlib import Path

from events.vault import KEY_BYTES, Vault
from mailsift.settings import PREFIX, Settings
from pipeline.errors import MailsiftError

_LOCAL = "local"


def open_vault(settings: Settings) -> Vault:
    """Return the vault with SECRET_KEYS, or with the key in HOME/secret-key, which is made when missing.

    Raises:
        MailsiftError: `bad_settings`.
    """
    if settings.secret_keys is not None:
        return Vault(_read(settings.secret_keys.get_secret_value()), token=secrets.token_bytes)
    return Vault({_LOCAL: _local(settings.home / "secret-key")}, token=secrets.token_bytes)


def _read(text: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for piece in text.split(","):
        name, _, encoded = piece.strip().partition(":")
        try:
            keys[name] = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise _bad() from None
        if not name.isascii() or not name or len(keys[name]) != KEY_BYTES:
            raise _bad()
    return keys


def _local(file: Path) -> bytes:
    """Return the key in a file; of many processes that find none, one makes it and all use it."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - its mode matters
            out.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(fresh, file)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise MailsiftError("bad_settings", "HOME/secret-key does not hold 32 bytes.")
    return key


def _bad() -> MailsiftError:
    text = f"{PREFIX}SECRET_KEYS: expected name:base64 of 32 bytes, name:base64 ..."
    return MailsiftError("bad_settings", text)
