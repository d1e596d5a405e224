"""Exim as Debian ships it: its verifications, its access lists and its limits."""

from __future__ import annotations

import time

import pytest

from mailsift.pipeline.verdict import Result
from tests.external.mta.domains import CROWD, SHADY, STRANGER_HELO
from tests.external.mta.exim import BANNER_SECONDS, RATE, SITES
from tests.external.mta.validation import Us, World, inquire

TRUTH = {"ann": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND, "wraith": Result.MAILBOX_NOT_FOUND}
BLOCKED = dict.fromkeys(TRUTH, Result.PROBE_BLOCKED)
DEFERRED = dict.fromkeys(TRUTH, Result.DEFERRED)
GHOSTS = {f"ghost{number}": Result.MAILBOX_NOT_FOUND for number in range(8)}
UNKNOWN = {Result.UNVERIFIABLE, Result.DEFERRED, Result.PROBE_BLOCKED}
CROWDED = dict.fromkeys(CROWD, Result.DELIVERABLE) | GHOSTS


async def test_verification_of_recipients_tells_who_is_there(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["plain"].boxes(*TRUTH, "closed", "later"))
    assert found.by_local() == TRUTH | {
        "closed": Result.MAILBOX_DISABLED,
        "later": Result.DEFERRED,
    }, found


async def test_a_catch_all_is_found_by_a_name_that_cannot_exist(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["catch-all"].boxes(*TRUTH))
    assert set(found.results.values()) == {Result.CATCH_ALL}, found


async def test_a_server_that_will_not_relay_says_nothing_about_the_mailbox(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["elsewhere"].boxes(*TRUTH))
    assert found.by_local() == BLOCKED, found


@pytest.mark.parametrize(
    ("habit", "bad"),
    [
        ("listed", Us(source=SHADY)),
        ("reverse", Us(source=SHADY)),
        ("helo", Us(helo=STRANGER_HELO)),
    ],
)
async def test_what_is_wrong_with_us_is_never_held_against_a_mailbox(
    exim_world: World, habit: str, bad: Us
) -> None:
    blocked = await inquire(exim_world, SITES[habit].boxes(*TRUTH), bad)
    assert blocked.by_local() == BLOCKED, blocked
    welcome = await inquire(exim_world, SITES[habit].boxes(*TRUTH))
    assert welcome.by_local() == TRUTH, welcome


@pytest.mark.parametrize("habit", ["defer", "defer-helo"])
async def test_who_is_deferred_to_the_end_is_never_invalid(exim_world: World, habit: str) -> None:
    found = await inquire(exim_world, SITES[habit].boxes(*TRUTH), Us(tries=2))
    assert found.by_local() == DEFERRED, found
    assert found.waited == {"deferred"}


@pytest.mark.parametrize("habit", ["few-recipients", "few-sessions"])
async def test_limits_of_a_session_cost_sessions_but_no_verdicts(exim_world: World, habit: str) -> None:
    us = Us(recipients=6) if habit == "few-sessions" else Us()
    found = await inquire(exim_world, SITES[habit].boxes(*CROWDED), us)
    assert found.by_local() == CROWDED, found


async def test_a_rate_limit_costs_time_but_no_verdicts(exim_world: World) -> None:
    people = TRUTH | dict.fromkeys(CROWD[: RATE - len(TRUTH) + 1], Result.DELIVERABLE)
    found = await inquire(exim_world, SITES["rate"].boxes(*people), Us(tries=16))
    assert found.by_local() == people, found
    assert found.waited == {"deferred"}


async def test_a_rate_limit_that_refuses_for_good_makes_nobody_invalid(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["rate-denied"].boxes(*CROWDED), Us(tries=3))
    wrong = {box for box, result in found.by_local().items() if result not in {CROWDED[box], *UNKNOWN}}
    assert wrong == set(), found
    assert UNKNOWN & set(found.results.values())  # it did refuse


async def test_what_a_callout_learns_from_the_server_behind_is_believed(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["callout"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found


@pytest.mark.parametrize("habit", ["callout-down", "callout-refused"])
async def test_a_callout_that_learns_nothing_makes_nobody_invalid(exim_world: World, habit: str) -> None:
    found = await inquire(exim_world, SITES[habit].boxes(*TRUTH), Us(tries=2))
    assert set(found.results.values()) <= UNKNOWN, found


async def test_starttls_is_used_where_it_is_offered(exim_world: World) -> None:
    found = await inquire(exim_world, SITES["tls"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found


async def test_a_banner_that_takes_its_time_is_waited_for_in_silence(exim_world: World) -> None:
    """Exim calls it a synchronisation error, and hangs up, when a client talks before the banner."""
    started = time.monotonic()
    found = await inquire(exim_world, SITES["hesitant"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found
    assert time.monotonic() - started >= BANNER_SECONDS
