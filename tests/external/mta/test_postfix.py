"""Postfix as Debian ships it: what its recipient tables and its refusals make of addresses."""

from __future__ import annotations

import pytest

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.probe.config import StartTls
from mailsift.pipeline.verdict import Result
from tests.external.chroot import Chroot
from tests.external.mta.domains import OTHERS, SHADY, STRANGER_HELO
from tests.external.mta.postfix import SITES, logged
from tests.external.mta.validation import Us, World, inquire

TRUTH = {"ann": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND, "wraith": Result.MAILBOX_NOT_FOUND}
BLOCKED = dict.fromkeys(TRUTH, Result.PROBE_BLOCKED)


@pytest.mark.parametrize("habit", ["plain", "local", "relay", "alias", "silent"])
async def test_every_recipient_table_tells_who_is_there(postfix_world: World, habit: str) -> None:
    found = await inquire(postfix_world, SITES[habit].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found
    assert not found.waited


async def test_a_catch_all_is_found_by_a_name_that_cannot_exist(postfix_world: World) -> None:
    found = await inquire(postfix_world, SITES["catch-all"].boxes(*TRUTH))
    assert set(found.results.values()) == {Result.CATCH_ALL}, found


async def test_an_access_map_tells_the_full_from_the_closed_from_the_choosy(postfix_world: World) -> None:
    found = await inquire(postfix_world, SITES["plain"].boxes("members", "full", "closed", "ghost"))
    assert found.by_local() == {
        "members": Result.PROBE_BLOCKED,  # "Access denied": it exists, but does not take mail from us
        "full": Result.MAILBOX_FULL,
        "closed": Result.MAILBOX_DISABLED,
        "ghost": Result.MAILBOX_NOT_FOUND,
    }, found


async def test_a_server_that_will_not_relay_says_nothing_about_the_mailbox(postfix_world: World) -> None:
    found = await inquire(postfix_world, SITES["elsewhere"].boxes(*TRUTH))
    assert found.by_local() == BLOCKED, found


@pytest.mark.parametrize(
    ("habit", "bad"),
    [
        ("reverse", Us(source=SHADY)),
        ("reverse-550", Us(source=SHADY)),
        ("reverse-at-once", Us(source=SHADY)),
        ("confirmed", Us(source=SHADY)),
        ("listed", Us(source=SHADY)),
        ("helo", Us(helo=STRANGER_HELO)),
        ("helo-550", Us(helo=STRANGER_HELO)),
        ("tls-only", Us(starttls=StartTls.NEVER)),
    ],
)
async def test_what_is_wrong_with_us_is_never_held_against_a_mailbox(
    postfix_world: World, habit: str, bad: Us
) -> None:
    blocked = await inquire(postfix_world, SITES[habit].boxes(*TRUTH), bad)
    assert blocked.by_local() == BLOCKED, blocked
    welcome = await inquire(postfix_world, SITES[habit].boxes(*TRUTH))
    assert welcome.by_local() == TRUTH, welcome


async def test_a_server_that_refuses_the_null_sender_says_nothing_about_the_mailbox(
    postfix_world: World,
) -> None:
    found = await inquire(postfix_world, SITES["sender"].boxes(*TRUTH))
    assert found.by_local() == BLOCKED, found


async def test_starttls_is_used_where_it_is_offered(postfix_world: World, chroot: Chroot) -> None:
    found = await inquire(postfix_world, SITES["tls"].boxes(*TRUTH), Us(source=OTHERS[0]))
    assert found.by_local() == TRUTH, found
    logged(chroot, rf"TLS connection established from unknown\[{OTHERS[0]}\]")


async def test_a_server_that_cannot_shake_hands_is_asked_in_the_clear(
    postfix_world: World, chroot: Chroot
) -> None:
    found = await inquire(postfix_world, SITES["tls-broken"].boxes(*TRUTH), Us(source=OTHERS[1]))
    assert found.by_local() == TRUTH, found
    logged(chroot, rf"lost connection after STARTTLS from unknown\[{OTHERS[1]}\]")


async def test_an_international_name_is_asked_for_where_smtputf8_is_offered(postfix_world: World) -> None:
    known = await inquire(postfix_world, SITES["utf8"].boxes("jürgen", "jörg", "ann"))
    assert known.by_local() == {
        "jürgen": Result.DELIVERABLE,
        "jörg": Result.MAILBOX_NOT_FOUND,
        "ann": Result.DELIVERABLE,
    }, known
    unasked = await inquire(postfix_world, SITES["ascii"].boxes("jürgen", *TRUTH))
    assert unasked.by_local() == TRUTH | {"jürgen": Result.UNVERIFIABLE}, unasked
    assert unasked.mailboxes[f"jürgen@{SITES['ascii'].domain}"].answer is Answer.NOT_ASKABLE
