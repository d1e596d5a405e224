"""Our signatures, judged by two libraries nobody here wrote."""

from __future__ import annotations

import base64
import secrets
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mailsift.events.signing import KEY_BYTES, SECRET_BYTES, Vault, signed_headers, write_secret
from mailsift.pipeline.errors import MailsiftError
from tests.support.webhook_judges import JUDGES, judge, refusal

BODY = '{"id":"1","data":{"name":"Zoë"}}'.encode()


@pytest.fixture
def now() -> int:
    return int(time.time())  # noqa: TID251 - the judges read the wall clock themselves


@pytest.mark.parametrize("library", JUDGES)
def test_a_judge_verifies_the_signature(library: str, now: int) -> None:
    secret = secrets.token_bytes(32)
    judge(library, write_secret(secret), BODY.decode(), signed_headers(str(uuid4()), now, BODY, [secret]))


@pytest.mark.parametrize("library", JUDGES)
def test_during_a_rotation_both_secrets_verify(library: str, now: int) -> None:
    new, old = secrets.token_bytes(32), secrets.token_bytes(32)
    headers = signed_headers(str(uuid4()), now, BODY, [new, old])
    judge(library, write_secret(new), BODY.decode(), headers)
    judge(library, write_secret(old), BODY.decode(), headers)


@pytest.mark.parametrize("library", JUDGES)
@pytest.mark.parametrize("change", ["body", "id", "timestamp", "secret", "age"])
def test_a_judge_refuses_what_was_changed(library: str, change: str, now: int) -> None:
    secret = secrets.token_bytes(32)
    sent_at = now - 301 if change == "age" else now
    headers = signed_headers("msg", sent_at, BODY, [secret])
    if change in {"id", "timestamp"}:
        headers[f"webhook-{change}"] = str(now + 1)
    body = BODY.replace(b"1", b"2") if change == "body" else BODY
    if change == "secret":
        secret = secrets.token_bytes(32)
    with pytest.raises(refusal(library)):
        judge(library, write_secret(secret), body.decode(), headers)


def test_the_secret_is_base64_of_its_bytes_behind_a_prefix() -> None:
    secret = bytes(range(32))
    prefix, encoded = write_secret(secret)[:6], write_secret(secret)[6:]
    assert (prefix, base64.b64decode(encoded)) == ("whsec_", secret)


def test_a_sealed_secret_is_opened_by_its_key_for_its_owner_only() -> None:
    first, second = secrets.token_bytes(32), secrets.token_bytes(32)
    owner, secret = uuid4(), b"s" * 32
    old = Vault({"a": first}, token=secrets.token_bytes)
    both = Vault({"b": second, "a": first}, token=secrets.token_bytes)
    sealed = old.seal(owner, secret)
    assert secret not in sealed
    assert both.open(owner, sealed) == secret
    assert both.seal(owner, secret).startswith(b"b:")
    for vault, whose in ((old, uuid4()), (Vault({"b": second}, token=secrets.token_bytes), owner)):
        with pytest.raises(MailsiftError, match="secret_key_missing"):
            vault.open(whose, sealed)
    with pytest.raises(MailsiftError, match="secret_key_missing"):
        Vault({"a": second}, token=secrets.token_bytes).open(owner, sealed)


def test_a_sealed_secret_names_its_key_and_begins_with_its_nonce() -> None:
    asked: list[int] = []

    def token(size: int) -> bytes:
        asked.append(size)
        return b"n" * size

    sealed = Vault({"a": b"k" * KEY_BYTES}, token=token).seal(uuid4(), b"s" * SECRET_BYTES)
    assert asked == [12]  # what AES-GCM is made for (NIST SP 800-38D)
    assert sealed.startswith(b"a:" + b"n" * 12)
    assert len(sealed) == 2 + 12 + 32 + 16
    assert KEY_BYTES == 32  # AES-256; what operators have made with openssl rand


def test_the_secret_before_signs_until_its_time_is_over_and_no_longer() -> None:
    vault, owner = Vault({"a": b"k" * 32}, token=secrets.token_bytes), uuid4()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    new, old = vault.seal(owner, b"new"), vault.seal(owner, b"old")
    second = timedelta(seconds=1)

    def signing(previous: bytes | None, until: datetime | None) -> list[bytes]:
        return vault.signing_secrets(owner, new, previous, until=until, now=now)

    assert signing(old, now + second) == [b"new", b"old"]
    assert signing(old, now) == signing(old, now - second) == signing(old, None) == [b"new"]
    assert signing(None, now + second) == signing(None, None) == [b"new"]
