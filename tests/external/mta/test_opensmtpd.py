"""OpenSMTPD as Debian ships it: no pipelining, replies of its own, filters that hang up."""

from __future__ import annotations

import pytest

from mailsift.pipeline.verdict import Result
from tests.external.mta.domains import CROWD, SHADY, STRANGER_HELO
from tests.external.mta.opensmtpd import SITES
from tests.external.mta.validation import Us, World, inquire

TRUTH = {"ann": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND, "wraith": Result.MAILBOX_NOT_FOUND}
BLOCKED = dict.fromkeys(TRUTH, Result.PROBE_BLOCKED)
GHOSTS = {f"ghost{number}": Result.MAILBOX_NOT_FOUND for number in range(8)}


async def test_a_virtual_table_tells_who_is_there(opensmtpd_world: World) -> None:
    found = await inquire(opensmtpd_world, SITES["plain"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found


async def test_the_users_of_the_system_are_told_from_strangers(opensmtpd_world: World) -> None:
    found = await inquire(opensmtpd_world, SITES["system"].boxes("nobody", "ghost"))
    assert found.by_local() == {"nobody": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND}, found


async def test_a_catch_all_is_found_by_a_name_that_cannot_exist(opensmtpd_world: World) -> None:
    found = await inquire(opensmtpd_world, SITES["catch-all"].boxes(*TRUTH))
    assert set(found.results.values()) == {Result.CATCH_ALL}, found


async def test_at_a_domain_the_server_does_not_serve_nobody_exists(opensmtpd_world: World) -> None:
    """It has no words about relaying: "Invalid recipient" is what the MX of the domain says."""
    found = await inquire(opensmtpd_world, SITES["elsewhere"].boxes(*TRUTH))
    assert set(found.results.values()) == {Result.MAILBOX_NOT_FOUND}, found


@pytest.mark.parametrize(
    ("habit", "bad"),
    [
        ("reverse", Us(source=SHADY)),
        ("confirmed", Us(source=SHADY)),
        ("helo", Us(helo=STRANGER_HELO)),
    ],
)
async def test_what_is_wrong_with_us_is_never_held_against_a_mailbox(
    opensmtpd_world: World, habit: str, bad: Us
) -> None:
    blocked = await inquire(opensmtpd_world, SITES[habit].boxes(*TRUTH), bad)
    assert blocked.by_local() == BLOCKED, blocked
    welcome = await inquire(opensmtpd_world, SITES[habit].boxes(*TRUTH))
    assert welcome.by_local() == TRUTH, welcome


async def test_who_is_sent_away_for_now_is_never_invalid(opensmtpd_world: World) -> None:
    found = await inquire(opensmtpd_world, SITES["later"].boxes(*TRUTH), Us(tries=2))
    assert set(found.results.values()) == {Result.DEFERRED}, found
    assert found.waited == {"deferred"}


async def test_a_limit_of_recipients_costs_sessions_but_no_verdicts(opensmtpd_world: World) -> None:
    crowded = dict.fromkeys(CROWD, Result.DELIVERABLE) | GHOSTS
    found = await inquire(opensmtpd_world, SITES["few-recipients"].boxes(*crowded))
    assert found.by_local() == crowded, found


async def test_an_international_name_cannot_be_asked_for(opensmtpd_world: World) -> None:
    found = await inquire(opensmtpd_world, SITES["plain"].boxes("jürgen", "ann"))
    assert found.by_local() == {"jürgen": Result.UNVERIFIABLE, "ann": Result.DELIVERABLE}, found


async def test_an_offer_of_starttls_does_no_harm_even_if_the_handshake_fails(
    opensmtpd_world: World,
) -> None:
    """OpenSMTPD 6.8 built against OpenSSL 3 offers what it cannot do; later versions can."""
    found = await inquire(opensmtpd_world, SITES["tls"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found
