"""Every behaviour of the mail servers, seen through a raw socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.smtp_replies import WORDINGS
from mailsift.sandbox.world import SandboxConfig

Dial = Callable[[str], Awaitable[Any]]

FAMILIES = {
    "ordinary": (550, "User unknown"),
    "exim": (550, "No Such User Here"),
    "exchange": (550, "5.1.1 User unknown"),
    "exchange-online": (550, "5.1.10 RESOLVER.ADR.RecipientNotFound"),
    "google-like": (550, "5.1.1 The email account that you tried to reach does not exist"),
    "outlook-like": (550, "5.5.0 Requested action not taken: mailbox unavailable"),
    "sendmail": (550, "... User unknown"),
    "qmail": (550, "no mailbox here by that name"),
    "opensmtpd": (550, "Invalid recipient"),
}


@pytest.mark.parametrize("scenario", FAMILIES)
async def test_an_ordinary_server_knows_its_mailboxes(dial: Dial, scenario: str) -> None:
    talk = await dial(scenario)
    await talk.open_mail()
    domain = f"{scenario}.sandbox.test"
    code, words = FAMILIES[scenario]
    assert (await talk.rcpt(f"known@{domain}"))[0] == 250
    refusal = await talk.rcpt(f"nobody@{domain}")
    assert refusal[0] == code
    assert words in refusal[1]
    assert (await talk.rcpt(f"full@{domain}"))[0] in {452, 552, 554}
    disabled = await talk.rcpt(f"disabled@{domain}")
    assert disabled[0] == 550
    assert disabled[1].startswith(("550 5.2.1", "550-5.2.1", "550 sorry, this account has been disabled"))
    assert (await talk.say("QUIT"))[0] == 221
    assert await talk.reply() == (0, "")


def test_every_family_of_wordings_is_tested() -> None:
    assert len(FAMILIES) == len(WORDINGS)


async def test_pipelined_commands_get_their_replies_in_order(dial: Dial, sandbox: Sandbox) -> None:
    talk = await dial("ordinary")
    await talk.reply()
    _, offers = await talk.say("EHLO probe.sandbox.test")
    assert "250-PIPELINING" in offers.splitlines()
    names = [f"{name}{n}" for n in range(20) for name in ("known", "nobody")]
    talk.send("MAIL FROM:<>", *(f"RCPT TO:<{name}@ordinary.sandbox.test>" for name in names))
    assert (await talk.reply())[0] == 250
    assert [(await talk.reply())[0] for _ in names] == [250, 550] * 20
    assert sandbox.counters.snapshot()["pipelined"] == 1


async def test_another_domains_recipients_are_not_relayed(dial: Dial) -> None:
    talk = await dial("ordinary")
    await talk.open_mail()
    for address in ("known@gmail.com", "known@nowhere.example", "known@exim.sandbox.test"):
        assert (await talk.rcpt(address))[1] == f"554 5.7.1 <{address}>: Relay access denied"


async def test_customers_of_one_provider_share_its_servers(dial: Dial, sandbox: Sandbox) -> None:
    customers = [
        d for d in sandbox.world.ranked if d.exchangers and d.exchangers[0][1] == "aspmx.l.google.com"
    ]
    assert len(customers) > 5
    talk = await dial("aspmx.l.google.com")
    await talk.open_mail()
    for domain in customers:
        assert (await talk.rcpt(f"known@{domain.name}"))[0] == 250
        assert (await talk.rcpt(f"nobody@{domain.name}"))[0] == 550


async def test_yahoo_accepts_everybody(dial: Dial) -> None:
    talk = await dial("mta5.am0.yahoodns.net")
    await talk.open_mail()
    assert (await talk.rcpt("nobody@yahoo.com"))[0] == 250


@pytest.mark.parametrize("address", ["nobody@catch-all.sandbox.test", "x7q2kd83jfhs@catch-all.sandbox.test"])
async def test_a_catch_all_accepts_everybody(dial: Dial, address: str) -> None:
    talk = await dial("catch-all")
    await talk.open_mail()
    assert (await talk.rcpt(address))[0] == 250


async def test_a_blanket_refusal_is_the_same_text_for_everybody(dial: Dial) -> None:
    talk = await dial("blanket")
    await talk.open_mail()
    replies = {await talk.rcpt(f"{name}@blanket.sandbox.test") for name in ("known", "nobody", "full")}
    assert replies == {(550, "550 5.4.1 Recipient address rejected: Access denied")}


async def test_a_stamped_blanket_refusal_differs_only_in_its_stamp(dial: Dial) -> None:
    talk = await dial("blanket-stamped")
    await talk.open_mail()
    replies = [await talk.rcpt(f"{name}@blanket-stamped.sandbox.test") for name in ("known", "nobody")]
    assert replies[0] != replies[1]
    assert len({text.partition("[")[0] for _, text in replies}) == 1


async def test_a_blocked_client_is_told_so_instead_of_a_banner(dial: Dial, sandbox: Sandbox) -> None:
    talk = await dial("blocked-banner")
    code, text = await talk.reply()
    assert code == 554
    assert "Client host [127.0.0.1] blocked using" in text
    assert await talk.reply() == (0, "")
    assert sandbox.counters.snapshot()["turned_away"] == 1


async def test_a_blocked_client_is_refused_at_ehlo_and_helo(dial: Dial) -> None:
    talk = await dial("blocked-ehlo")
    await talk.reply()
    assert (await talk.say("EHLO probe"))[0] == 550
    assert (await talk.say("HELO probe"))[0] == 550
    assert (await talk.say("MAIL FROM:<>"))[0] == 503


async def test_a_blocked_client_is_refused_at_mail(dial: Dial) -> None:
    talk = await dial("blocked-mail")
    await talk.reply()
    await talk.say("EHLO probe")
    assert (await talk.say("MAIL FROM:<>"))[1].startswith("553 5.1.8 ")
    assert (await talk.rcpt("known@blocked-mail.sandbox.test"))[0] == 503


@pytest.mark.parametrize(
    ("scenario", "words"), [("blocked-rcpt", "blocked using"), ("blocked-policy", "reverse hostname")]
)
async def test_a_blocked_client_is_refused_at_rcpt_whoever_it_asks_for(
    dial: Dial, scenario: str, words: str
) -> None:
    talk = await dial(scenario)
    await talk.open_mail()
    for name in ("known", "nobody"):
        code, text = await talk.rcpt(f"{name}@{scenario}.sandbox.test")
        assert code in {550, 554}
        assert words in text


@pytest.mark.parametrize(
    ("scenario", "code", "words"),
    [
        (
            "greylist",
            450,
            "450 4.2.0 <known@greylist.sandbox.test>: Recipient address rejected: Greylisted, see",
        ),
        ("greylist-named", 450, "Greylisted, please try again in 1 seconds"),
        ("greylist-vague", 451, "Internal resources are temporarily unavailable"),
    ],
)
async def test_a_greylisting_server_takes_the_second_try_after_the_delay(
    dial: Dial, scenario: str, code: int, words: str
) -> None:
    talk = await dial(scenario)
    await talk.open_mail()
    known = f"known@{scenario}.sandbox.test"
    began = time.monotonic()
    reply = await talk.rcpt(known)
    assert reply[0] == code
    assert words in reply[1]
    async with asyncio.timeout(30):
        while (await talk.rcpt(known))[0] != 250:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.02)
    assert time.monotonic() - began >= 0.4
    assert (await talk.rcpt(f"nobody@{scenario}.sandbox.test"))[0] == code  # a contact of its own


async def test_greylisting_remembers_client_and_sender_too(dial: Dial) -> None:
    talk = await dial("greylist")
    await talk.open_mail()
    known = "known@greylist.sandbox.test"
    async with asyncio.timeout(30):
        while (await talk.rcpt(known))[0] != 250:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.02)
    await talk.say("RSET")
    await talk.say("MAIL FROM:<another@sandbox.test>")
    assert (await talk.rcpt(known))[0] == 450


async def test_a_temporary_failure_and_an_unclear_refusal_stay_what_they_are(dial: Dial) -> None:
    for scenario, code in (("tempfail", 451), ("unclear", 554)):
        talk = await dial(scenario)
        await talk.open_mail()
        assert [(await talk.rcpt(f"known@{scenario}.sandbox.test"))[0] for _ in range(3)] == [code] * 3


async def test_replies_leave_one_latency_after_their_commands_however_many_there_are() -> None:
    async with Sandbox(SandboxConfig(domains=10, latency=0.2)) as sandbox:
        address = sandbox.world.hosts["mx.ordinary-host.test"].address
        began = time.monotonic()
        reader, writer = await asyncio.open_connection(address, sandbox.smtp_port)
        await reader.readline()
        assert time.monotonic() - began > 0.19
        began = time.monotonic()
        recipients = b"".join(b"RCPT TO:<known%d@ordinary.sandbox.test>\r\n" % n for n in range(50))
        writer.write(b"HELO probe\r\nMAIL FROM:<>\r\n" + recipients + b"QUIT\r\n")
        replies = (await reader.read()).decode().splitlines()
        writer.close()
        assert [line[:3] for line in replies] == ["250"] * 52 + ["221"]
        assert 0.19 < time.monotonic() - began < 53 * 0.2
