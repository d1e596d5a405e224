"""Postfix that says "later": Postgrey, postscreen and limits; everybody gets the true verdict in the end."""

from __future__ import annotations

import re
import socket
import time

import pytest

from mailsift.pipeline.verdict import Result
from tests.external.chroot import Chroot
from tests.external.mta.domains import CLEAN, CROWD, SHADY
from tests.external.mta.postfix import GREET_SECONDS, SITES, logged
from tests.external.mta.validation import Us, World, inquire

TRUTH = {"ann": Result.DELIVERABLE, "bob": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND}
GHOSTS = {f"ghost{number}": Result.MAILBOX_NOT_FOUND for number in range(8)}
CROWDED = dict.fromkeys(CROWD, Result.DELIVERABLE) | GHOSTS


async def test_greylisted_addresses_wait_and_then_get_their_true_verdict(postfix_world: World) -> None:
    boxes = SITES["grey"].boxes(*TRUTH)
    impatient = await inquire(postfix_world, boxes, Us(source=CLEAN))
    assert set(impatient.results.values()) == {Result.DEFERRED}, impatient
    patient = await inquire(postfix_world, boxes, Us(tries=8))
    assert patient.by_local() == TRUTH, patient
    assert patient.waited == {"greylisted"}


async def test_postscreen_lets_us_through_for_we_wait_for_the_whole_banner(
    postfix_world: World, chroot: Chroot
) -> None:
    started = time.monotonic()
    found = await inquire(postfix_world, SITES["screen"].boxes(*TRUTH))
    assert found.by_local() == TRUTH, found
    assert time.monotonic() - started >= GREET_SECONDS
    log = logged(chroot, rf"PASS NEW \[{CLEAN}\]")
    assert not re.search(rf"PREGREET .* from \[{CLEAN}\]", log)


def test_postscreen_does_catch_who_talks_before_the_banner(postfix_world: World, chroot: Chroot) -> None:
    with socket.create_connection((SITES["screen"].address, postfix_world.port), 10, (SHADY, 0)) as hasty:
        hasty.sendall(b"EHLO hasty.test\r\nQUIT\r\n")
        while hasty.recv(4096):
            pass
    logged(chroot, rf"PREGREET .* from \[{SHADY}\]")


async def test_postscreen_with_deep_tests_defers_us_once(postfix_world: World) -> None:
    found = await inquire(postfix_world, SITES["deep-screen"].boxes(*TRUTH), Us(tries=8))
    assert found.by_local() == TRUTH, found
    assert found.waited == {"deferred"}


@pytest.mark.parametrize("habit", ["few-recipients", "few-errors", "few-sessions"])
async def test_limits_of_a_session_cost_sessions_but_no_verdicts(postfix_world: World, habit: str) -> None:
    us = Us(recipients=6) if habit == "few-sessions" else Us()
    found = await inquire(postfix_world, SITES[habit].boxes(*CROWDED), us)
    assert found.by_local() == CROWDED, found


@pytest.mark.parametrize(
    ("habit", "us", "people"),
    [
        ("slow-sessions", Us(recipients=12, tries=16), CROWDED),
        ("slow-recipients", Us(tries=16), TRUTH | GHOSTS),
    ],
)
async def test_rates_cost_time_but_no_verdicts(
    postfix_world: World, habit: str, us: Us, people: dict[str, Result]
) -> None:
    found = await inquire(postfix_world, SITES[habit].boxes(*people), us)
    assert found.by_local() == people, found
    assert "deferred" in found.waited


async def test_soft_bounce_leaves_the_missing_undecided_and_does_not_silence_those_who_are_there(
    postfix_world: World,
) -> None:
    found = await inquire(postfix_world, SITES["soft-bounce"].boxes(*TRUTH), Us(tries=3))
    assert found.by_local() == {
        "ann": Result.UNVERIFIABLE,
        "bob": Result.UNVERIFIABLE,
        "ghost": Result.DEFERRED,
    }, found
