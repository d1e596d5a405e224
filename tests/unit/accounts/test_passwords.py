"""Passwords: hashed slowly, checked with the same work whoever asks."""

from __future__ import annotations

import asyncio
import secrets
from typing import Literal

import pytest
from argon2 import PasswordHasher
from typing_extensions import override

from mailsift.accounts.sessions import Passwords, check_password
from mailsift.pipeline.errors import MailsiftError

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


async def test_a_password_is_stored_as_argon2id_of_rfc_9106() -> None:
    stored = await Passwords(secrets.token_bytes).hash("correct horse battery")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


async def test_only_the_right_password_is_right() -> None:
    passwords = Passwords(secrets.token_bytes, CHEAP)
    stored = await passwords.hash("correct horse battery")
    assert await passwords.verify(stored, "correct horse battery")
    assert not await passwords.verify(stored, "correct horse batterz")
    assert not await passwords.verify("rubbish", "correct horse battery")
    assert not await passwords.verify(None, "correct horse battery")


COMPOSED, DECOMPOSED = "caf\N{LATIN SMALL LETTER E WITH ACUTE} battery staple", "cafe\u0301 battery staple"
SPACED = "caf\N{LATIN SMALL LETTER E WITH ACUTE}\u00a0battery staple"


@pytest.mark.parametrize("chosen", [COMPOSED, DECOMPOSED, SPACED])
@pytest.mark.parametrize("typed", [COMPOSED, DECOMPOSED, SPACED])
async def test_a_password_is_the_same_on_every_keyboard(chosen: str, typed: str) -> None:
    passwords = Passwords(secrets.token_bytes, CHEAP)
    assert await passwords.verify(await passwords.hash(chosen), typed)
    assert not await passwords.verify(await passwords.hash(chosen), f"{typed}x")


@pytest.mark.parametrize(
    ("hashed", "typed"),
    [
        (COMPOSED, COMPOSED),
        (COMPOSED, DECOMPOSED),
        (DECOMPOSED, COMPOSED),
        (DECOMPOSED, DECOMPOSED),
        (SPACED, SPACED),
    ],
)
async def test_a_password_hashed_as_some_keyboard_wrote_it_opens_as_before(hashed: str, typed: str) -> None:
    assert await Passwords(secrets.token_bytes, CHEAP).verify(CHEAP.hash(hashed), typed)


class Counting(PasswordHasher):
    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.costs: list[str] = []

    @override
    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.costs.append(str(hash).split("$")[3])
        return super().verify(hash, password)


async def test_an_unknown_person_costs_the_same_work_as_a_wrong_password() -> None:
    hasher = Counting()
    passwords = Passwords(secrets.token_bytes, hasher)
    await passwords.verify(await passwords.hash("correct horse battery"), "wrong")
    await passwords.verify(None, "wrong")
    assert hasher.costs == ["m=8,t=1,p=1"] * 2


async def test_a_password_hashed_at_another_cost_is_outdated() -> None:
    stored = await Passwords(secrets.token_bytes, CHEAP).hash("correct horse battery")
    assert Passwords(secrets.token_bytes).is_outdated(stored)
    assert not Passwords(secrets.token_bytes, CHEAP).is_outdated(stored)


async def test_hashing_leaves_the_loop_free() -> None:
    passwords = Passwords(secrets.token_bytes)
    hashing = asyncio.create_task(passwords.hash("correct horse battery"))
    turns = 0
    while not hashing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


@pytest.mark.parametrize(
    "password", ["", "short", "aaaaaaaaaaaaaaaa", "abababababababab", "x" * 201, "ada@example.com"]
)
def test_what_is_easily_guessed_is_refused(password: str) -> None:
    with pytest.raises(MailsiftError, match="password_weak") as refused:
        check_password(password, email="ada@example.com")
    assert password not in str(refused.value) or not password


def test_length_is_all_that_is_asked() -> None:
    check_password("correct horse battery staple", email="ada@example.com")
    check_password("пароль из многих слов", email="ada@example.com")
