"""A machine on the way answers on port 25 in the name of all mail servers, while DNS is true."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mailsift.pipeline.validator import Validator
from tests.integration.pipeline.test_network_lost import (
    PEOPLE,
    REQUEST,
    WAIT,
    Ahead,
    frame,
    pipeline,
    statuses,
    truths,
)
from tests.integration.pipeline.test_prober_sandbox import asking
from tests.support.mail_gate import Gate
from tests.unit.pipeline.smtp_stub import Mailer, mailing

REFUSES = Mailer(banner="220 fw.corp.test ESMTP", rcpt=lambda _address: "550 5.1.1 User unknown")
ACCEPTS = Mailer(banner="220 ******** ready", rcpt=lambda _address: "250 2.1.5 Ok")
TURNS_AWAY = Mailer(banner="554 fw.corp.test No SMTP service here")
LISTED = [*PEOPLE, "known@gmail.com", "nobody@gmx.net"]


@asynccontextmanager
async def behind_a_gate(
    mailer: Mailer, clock: Ahead
) -> AsyncIterator[tuple[Validator, Gate, dict[str, str]]]:
    async with mailing(mailer) as middlebox:
        gate = Gate(0, middlebox=middlebox)
        async with asking(port=gate.port) as (sandbox, facts, prober):
            gate.behind = sandbox.smtp_port
            try:
                yield pipeline(sandbox, facts, prober, clock, port=gate.port), gate, truths(sandbox)
            finally:
                await gate.close()


@pytest.mark.parametrize("mailer", [REFUSES, ACCEPTS, TURNS_AWAY], ids=["refuses", "accepts", "554"])
async def test_who_comes_after_the_look_makes_nothing_final_and_goes_on_by_itself(mailer: Mailer) -> None:
    clock = Ahead()
    async with behind_a_gate(mailer, clock) as (validator, gate, truth):
        await gate.turn("open")
        assert len((await validator.validate(frame(PEOPLE[:1]), REQUEST)).finished) == 1
        await gate.turn("middlebox")
        waiting = frame(PEOPLE)
        for clock.seconds in (20.0, 40.0, 400.0):
            lost = await validator.validate(waiting, REQUEST)
            assert lost.finished.is_empty()
            assert set(lost.waiting["reason"]) == {"our_network"}
            assert set(lost.waiting["tries"]) == {0}
            waiting = lost.waiting.drop(WAIT)
        await gate.turn("open")
        clock.seconds = 800.0
        back = await validator.validate(waiting, REQUEST)
        assert back.waiting.is_empty()
        assert statuses(back) == truth


async def test_where_it_was_there_from_the_start_nothing_is_invalid_or_valid() -> None:
    async with behind_a_gate(REFUSES, Ahead()) as (validator, gate, _):
        await gate.turn("middlebox")
        found = (await validator.validate(frame(LISTED), REQUEST)).finished
        assert set(found["result"]) == {"probe_unavailable"}
        assert len(found) == len(LISTED)
