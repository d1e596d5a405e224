"""Postfix that asks the server behind it before it answers (reject_unverified_recipient)."""

from __future__ import annotations

import re

import pytest

from mailsift.pipeline.verdict import Result
from tests.external.chroot import Chroot
from tests.external.mta.postfix import SITES, log_of
from tests.external.mta.validation import Us, World, inquire

TRUTH = {
    "ann": Result.DELIVERABLE,
    "bob": Result.DELIVERABLE,
    "ghost": Result.MAILBOX_NOT_FOUND,
    "wraith": Result.MAILBOX_NOT_FOUND,
}
RISKY = {Result.UNVERIFIABLE, Result.DEFERRED, Result.PROBE_BLOCKED}
SAID = r"RCPT from probe\.test.* (?:unverified|undeliverable) address: "
_ROUNDS = 10


async def test_what_the_server_behind_knows_is_believed(postfix_world: World) -> None:
    found = await inquire(postfix_world, SITES["verify-550"].boxes(*TRUTH), Us(tries=20))
    assert found.by_local() == TRUTH, found


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("verify", "host .* said: 550 5.1.1 .*User unknown"),  # with 450, as Postfix ships
        ("verify-loop", "mail for .* loops back to myself"),
        ("verify-down", "connect to .* Connection refused"),
        ("verify-refused", "host .* said: 554 5.7.1 .*Access denied"),
    ],
)
async def test_what_it_could_not_learn_makes_nobody_invalid(
    postfix_world: World, chroot: Chroot, habit: str, words: str
) -> None:
    for _ in range(_ROUNDS):  # until it no longer says "in progress"
        found = await inquire(postfix_world, SITES[habit].boxes(*TRUTH), Us(tries=2))
        assert set(found.results.values()) <= RISKY, found
        if re.search(rf"{SAID}{words}.*@{re.escape(SITES[habit].domain)}", log_of(chroot)):
            return
    pytest.fail(f"it never said: {words}\n{log_of(chroot)}")
