"""Limits and extensions of the mail servers, seen through a raw socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mailsift.sandbox.server import Sandbox

Dial = Callable[[str], Awaitable[Any]]


async def test_421_ends_the_session_after_five_recipients(dial: Dial) -> None:
    talk = await dial("recipients-421")
    await talk.open_mail()
    talk.send(*(f"RCPT TO:<known{n}@recipients-421.sandbox.test>" for n in range(8)))
    assert [(await talk.reply())[0] for _ in range(7)] == [250] * 5 + [421, 0]


async def test_452_refuses_more_than_five_recipients_until_rset(dial: Dial) -> None:
    talk = await dial("recipients-452")
    await talk.open_mail()
    addresses = [f"known{n}@recipients-452.sandbox.test" for n in range(7)]
    assert [(await talk.rcpt(address))[0] for address in addresses] == [250] * 5 + [452] * 2
    await talk.say("RSET")
    await talk.say("MAIL FROM:<>")
    assert (await talk.rcpt(addresses[6]))[0] == 250


async def test_one_connection_too_many_is_sent_away(dial: Dial) -> None:
    first, second = await dial("connections"), await dial("connections")
    assert (await first.reply())[0] == 220
    assert (await second.reply())[0] == 421
    assert await second.reply() == (0, "")
    assert (await first.say("QUIT"))[0] == 221
    assert await first.reply() == (0, "")
    assert (await (await dial("connections")).reply())[0] == 220


async def test_more_than_five_recipients_a_second_are_too_many(dial: Dial) -> None:
    talk = await dial("rate")
    await talk.open_mail()
    talk.send(*(f"RCPT TO:<known{n}@rate.sandbox.test>" for n in range(8)))
    replies = [await talk.reply() for _ in range(8)]
    assert [code for code, _ in replies] == [250] * 5 + [450] * 3
    assert "too many recipients" in replies[7][1]


async def test_a_server_without_pipelining_throws_away_what_comes_too_early(dial: Dial) -> None:
    talk = await dial("no-pipelining")
    await talk.reply()
    assert "PIPELINING" not in (await talk.say("EHLO probe"))[1]
    talk.send("MAIL FROM:<>", "RCPT TO:<known@no-pipelining.sandbox.test>")
    assert (await talk.reply())[0] == 250
    assert (await talk.say("NOOP"))[1] == "250 2.0.0 Ok"
    assert (await talk.rcpt("known@no-pipelining.sandbox.test"))[1] == "250 2.1.5 Ok"


async def test_a_server_that_knows_only_helo(dial: Dial) -> None:
    talk = await dial("helo-only")
    await talk.reply()
    assert (await talk.say("EHLO probe"))[0] == 502
    assert (await talk.say("HELO probe"))[0] == 250
    await talk.say("MAIL FROM:<>")
    assert (await talk.rcpt("known@helo-only.sandbox.test"))[0] == 250


async def test_a_non_ascii_recipient_needs_smtputf8(dial: Dial) -> None:
    talk = await dial("ordinary")
    await talk.open_mail(parameters=" SMTPUTF8")
    replies = [await talk.rcpt(f"{name}@ordinary.sandbox.test") for name in ("josé", "françois", "山田太郎")]
    assert 250 in {code for code, _ in replies}
    assert (await talk.rcpt("nirgendwö@ordinary.sandbox.test"))[0] == 550
    await talk.say("RSET")
    await talk.say("MAIL FROM:<>")
    assert (await talk.rcpt("josé@ordinary.sandbox.test"))[1].startswith("553 5.6.7 ")


async def test_a_server_without_smtputf8_neither_offers_nor_takes_it(dial: Dial) -> None:
    talk = await dial("no-smtputf8")
    await talk.reply()
    assert "SMTPUTF8" not in (await talk.say("EHLO probe"))[1]
    assert (await talk.say("MAIL FROM:<> SMTPUTF8"))[0] == 555


@pytest.mark.parametrize("scenario", ["starttls", "starttls-required"])
async def test_starttls_starts_over_inside_tls(dial: Dial, sandbox: Sandbox, scenario: str) -> None:
    talk = await dial(scenario)
    await talk.reply()
    assert "STARTTLS" in (await talk.say("EHLO probe"))[1]
    assert (await talk.say("STARTTLS"))[0] == 220
    await talk.start_tls()
    assert (await talk.say("MAIL FROM:<>"))[0] == 503
    assert "STARTTLS" not in (await talk.say("EHLO probe"))[1]
    await talk.say("MAIL FROM:<>")
    assert (await talk.rcpt(f"known@{scenario}.sandbox.test"))[0] == 250
    assert (await talk.rcpt(f"nobody@{scenario}.sandbox.test"))[0] == 550
    assert (await talk.say("QUIT"))[0] == 221
    assert sandbox.counters.snapshot()["starttls"] == 1


async def test_what_is_sent_before_the_handshake_is_dropped(dial: Dial) -> None:
    talk = await dial("starttls")
    await talk.reply()
    await talk.say("EHLO probe")
    talk.send("STARTTLS", "RSET", "NOOP")
    assert (await talk.reply())[0] == 220
    await talk.start_tls()
    assert (await talk.say("EHLO probe"))[1].startswith("250-mx.starttls-host.test")


async def test_tls_may_be_required_or_broken(dial: Dial) -> None:
    required, broken = await dial("starttls-required"), await dial("starttls-broken")
    for talk in (required, broken):
        await talk.reply()
        await talk.say("EHLO probe")
    assert (await required.say("MAIL FROM:<>"))[1] == "530 5.7.0 Must issue a STARTTLS command first"
    assert (await broken.say("STARTTLS"))[0] == 454
    assert (await broken.say("MAIL FROM:<>"))[0] == 250
