"""The prober over sockets: facts, routes, refusals, drops and what never reaches the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer, Known, Wait, WaitReason
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.prober import ProbeRequest, ProbeResult
from mailsift.pipeline.throttle import Ask, Grant, SessionOutcome
from tests.unit.pipeline.smtp_stub import (
    DROP,
    NOT_FOUND,
    SILENCE,
    USERS,
    Bench,
    Mailer,
    OpenDoors,
    answers,
    knows,
    mailing,
    outcomes,
    providers,
    routed,
    targets,
)

FACT = routed("a.test")


async def test_a_fact_says_who_was_asked_and_what_was_said() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, "ann", "bob"))
    assert answers(probed) == {"ann": Answer.ACCEPTED, "bob": Answer.NOT_FOUND}
    bob = probed.mailboxes["bob@a.test"]
    assert (bob.smtp_code, bob.enhanced, bob.stage) == (550, "5.1.1", "rcpt")
    assert (bob.host, bob.address, bob.source) == ("mx.stub.test", "127.0.0.1", "")
    assert (bob.asked_at, bob.cached, bob.blanket) == (1_000_000.0, False, False)
    assert "bob" not in bob.text
    assert "User unknown" in bob.text
    assert bob.rule
    assert probed.catch_alls["a.test"].catch_all is Known.NO
    assert not probed.waits


async def test_many_recipients_share_a_session_and_their_random_one_is_asked_once() -> None:
    mailer = Mailer(rcpt=knows(*USERS[::2]))
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, *USERS))
    assert answers(probed) == {
        user: Answer.ACCEPTED if n % 2 == 0 else Answer.NOT_FOUND for n, user in enumerate(USERS)
    }
    assert len(set(mailer.recipients)) == 101
    assert len(mailer.recipients) <= 101 + 3  # a witness a session at most
    assert len(mailer.seen) == 3
    assert mailer.peak <= 5
    assert outcomes(bench) == [SessionOutcome.CLEAN] * 3


async def test_domains_behind_one_route_share_sessions() -> None:
    facts = [routed(f"d{n}.test") for n in range(20)]
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe([target for fact in facts for target in targets(fact, "ann")])
    assert len(mailer.seen) == 1
    assert len(mailer.recipients) == 40
    assert all(fact.catch_all is Known.NO for fact in probed.catch_alls.values())
    assert len(probed.mailboxes) == 20


@pytest.mark.parametrize(
    "first",
    [
        Mailer(banner="421 4.3.2 busy"),
        Mailer(banner="450 later"),
        Mailer(mail="452 4.3.1 Insufficient system storage"),
        None,
    ],
)
async def test_the_next_mx_is_asked_when_the_first_cannot_be(first: Mailer | None) -> None:
    second = Mailer(rcpt=knows("ann"))
    fact = routed("a.test", ("mx1.test", ("127.0.0.2",)), ("mx2.test", ("127.0.0.3",)))
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(mailing(second, host="127.0.0.3"))
        if first is not None:
            await stack.enter_async_context(mailing(first, host="127.0.0.2", port=port))
        probed = await Bench(port).probe(targets(fact, "ann"))
    assert answers(probed) == {"ann": Answer.ACCEPTED}
    assert probed.mailboxes["ann@a.test"].host == "mx2.test"
    assert first is None or len(first.seen) == 1


async def test_a_backup_that_takes_anybody_makes_nobody_deliverable_by_what_the_first_server_refused() -> (
    None
):
    def refuse(_address: str) -> str:
        first.banner = "421 4.3.2 busy"  # from the next session on
        return NOT_FOUND

    first, backup = Mailer(rcpt=refuse), Mailer(rcpt=lambda _: "250 ok")
    fact = routed("a.test", ("mx1.test", ("127.0.0.2",)), ("mx2.test", ("127.0.0.3",)))
    async with mailing(first, host="127.0.0.2") as port, mailing(backup, host="127.0.0.3", port=port):
        bench = Bench(port, providers=providers(recipients=1, sessions=1))
        probed = await bench.probe(targets(fact, "ann", "bob"))
    assert probed.catch_alls["a.test"].catch_all is Known.YES
    assert set(answers(probed).values()) == {Answer.NOT_ASKED}


async def test_a_permanent_refusal_is_not_shopped_around() -> None:
    first, second = Mailer(banner="554 no, blocked using spamhaus"), Mailer()
    fact = routed("a.test", ("mx1.test", ("127.0.0.2",)), ("mx2.test", ("127.0.0.3",)))
    async with mailing(first, host="127.0.0.2") as port, mailing(second, host="127.0.0.3", port=port):
        bench = Bench(port)
        probed = await bench.probe(targets(fact, "ann", "bob"))
    assert answers(probed) == {"ann": Answer.REFUSED_US, "bob": Answer.REFUSED_US}
    assert probed.mailboxes["ann@a.test"].stage == "banner"
    assert not second.seen
    assert outcomes(bench) == [SessionOutcome.BLOCKED]


async def test_when_no_server_can_be_reached_the_fact_says_so() -> None:
    async with mailing(Mailer()) as port:
        pass
    fact = routed("a.test", *((f"mx{n}.test", ("127.0.0.1",)) for n in range(1000)))
    bench = Bench(port)
    probed = await bench.probe(targets(fact, *USERS[:60]))
    assert set(answers(probed).values()) == {Answer.UNREACHABLE}
    assert {fact.rule for fact in probed.mailboxes.values()} == {"no-connection"}
    assert not probed.waits
    assert sum(map(len, bench.throttle.grants)) <= 10
    assert set(outcomes(bench)) == {SessionOutcome.FAILED}


async def test_a_server_that_hangs_up_in_silence_was_never_reached() -> None:
    async with mailing(Mailer(banner=DROP)) as port:
        probed = await Bench(port).probe(targets(FACT, "ann"))
    assert answers(probed) == {"ann": Answer.UNREACHABLE}


async def test_addresses_the_guard_refuses_see_no_connection() -> None:
    mailer, public = Mailer(rcpt=knows("ann")), AddressGuard()
    fact = routed("a.test", ("mx.test", ("127.0.0.1", "10.0.0.1", "::ffff:127.0.0.1", "169.254.169.254")))
    async with mailing(mailer) as port:
        bench = Bench(port, guard=public)
        probed = await bench.probe(targets(fact, "ann"))
    assert answers(probed) == {"ann": Answer.NOT_ALLOWED}
    assert probed.mailboxes["ann@a.test"].rule == "no-allowed-address"
    assert not mailer.seen
    assert not bench.throttle.grants


async def test_a_drop_defers_one_recipient_and_keeps_the_rest() -> None:
    mailer = Mailer(rcpt=lambda address: DROP if address.startswith("user2@") else knows(*USERS)(address))
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, *USERS[:6]))
    assert answers(probed) == dict.fromkeys(USERS[:6], Answer.ACCEPTED) | {"user2": Answer.TEMPORARY}
    assert probed.waits == {"user2@a.test": Wait(WaitReason.DEFERRED, 0.0)}
    assert len(mailer.seen) == 8  # one for all, then one for each and for the random recipient


async def test_a_server_that_keeps_dropping_is_left_alone() -> None:
    mailer = Mailer(rcpt=lambda address: NOT_FOUND if len(address) > 16 else DROP)
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *USERS))
    assert set(answers(probed).values()) == {Answer.TEMPORARY}
    assert len(probed.waits) == 100
    assert len(mailer.seen) <= 8


async def test_injected_commands_never_reach_the_wire() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    evil = ["ann\r\nRCPT TO:<eve", 'x"\r\nDATA\r\n"', "a\x00b", "a>b", "a\u2028b", '"a<b>c"']
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, "ann", "bob", *evil))
    assert len(mailer.recipients) == 3
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RCPT", "RCPT", "QUIT"]]
    assert {probed.mailboxes[f"{local}@a.test"].answer for local in evil} == {Answer.NOT_ASKABLE}
    assert len(probed.mailboxes) == 8


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"helo_name": "a\r\nQUIT"}, "unsafe_command"),
        ({"mail_from": "a@b.test>\r\nDATA"}, "unsafe_command"),
        ({"sources": ("192.0.2.1 as a b",)}, "unsafe_command"),
        ({"sources": ("example.org",)}, "bad_source"),
        ({"sources": ("http://127.0.0.1:1",)}, "bad_source"),
        ({"sources": ("socks5://127.0.0.1:99999",)}, "bad_source"),
        ({"sources": ("socks5://[::1:1080",)}, "bad_source"),
    ],
)
async def test_a_configuration_that_cannot_go_on_the_wire_is_refused_at_the_start(
    settings: dict[str, object], code: str
) -> None:
    bench = Bench(25, settings=settings)
    with pytest.raises(MailsiftError, match=code):
        bench.prober  # noqa: B018 - made on first use


async def test_providers_with_nothing_to_say_are_not_asked() -> None:
    mailer = Mailer()
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(routed("a.test", provider="silent"), "ann"))
    assert probed == ProbeResult({}, {}, {})
    assert not mailer.seen


async def test_a_fault_inside_is_raised_and_leases_are_given_back() -> None:
    class Broken(OpenDoors):
        @override
        async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
            if self.grants:
                raise RuntimeError("no more")
            return await super().grant(asks)

    mailer = Mailer(rcpt=knows(*USERS), latency=0.02)
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=Broken(), providers=providers(5, 1))
        with pytest.raises(RuntimeError, match="no more"):
            await bench.probe(targets(FACT, *USERS))
    assert not bench.throttle.open


async def test_cancelling_gives_the_leases_back() -> None:
    asked = asyncio.Event()

    def hang(_: str) -> str:
        asked.set()
        return SILENCE

    async with mailing(Mailer(rcpt=hang, offers=())) as port:
        bench = Bench(port)
        call = asyncio.create_task(bench.probe(targets(FACT, "ann")))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert bench.throttle.reports
    assert not bench.throttle.open


async def test_nothing_to_do_costs_nothing() -> None:
    bench = Bench(25)
    assert await bench.probe([]) == ProbeResult({}, {}, {})
    assert not bench.throttle.grants


@pytest.mark.parametrize("international", [1, 9])
async def test_a_list_with_international_addresses_costs_its_others_nothing_where_smtputf8_is_refused(
    international: int,
) -> None:
    mailer = Mailer(rcpt=knows("ann"), mail_utf8="555 5.5.4 Unsupported option: SMTPUTF8")
    odd = [f"jürgen{n}" for n in range(international)]
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *odd, "ann", "bob"))
    assert answers(probed) == {
        "ann": Answer.ACCEPTED,
        "bob": Answer.NOT_FOUND,
        **dict.fromkeys(odd, Answer.NOT_ASKABLE),
    }


@pytest.mark.parametrize("closed", [(), ("::1",), ("127.0.0.1",)])
async def test_a_server_is_asked_from_a_source_that_reaches_it(closed: tuple[str, ...]) -> None:
    fact = routed("a.test", ("mx.a.test", ("::1",)))
    async with mailing(Mailer(rcpt=knows(*USERS)), host="::1") as port:
        bench = Bench(port, settings={"sources": ("127.0.0.1", "::1")})
        probed = await bench.prober.probe(
            targets(fact, *USERS[:9]), ProbeRequest(session_s=60, closed=closed)
        )
    assert answers(probed) == dict.fromkeys(USERS[:9], Answer.ACCEPTED)
    assert set(probed.asked_from.values()) == {"::1"}


@pytest.mark.parametrize("count", [1, 3, 9])
async def test_a_server_that_loses_commands_which_come_together_is_asked_one_by_one(count: int) -> None:
    mailer = Mailer(rcpt=knows(*USERS[::2]), loses=True)
    async with mailing(mailer) as port:
        bench = Bench(port, settings={"reply_timeout": 0.2, "session_seconds": 5.0})
        probed = await bench.probe(targets(FACT, *USERS[:count]), session_s=5.0)
    assert answers(probed) == {
        user: Answer.NOT_FOUND if n % 2 else Answer.ACCEPTED for n, user in enumerate(USERS[:count])
    }
    assert not probed.waits
