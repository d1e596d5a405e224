"""When the prober does not believe what it hears, and when it is told to leave a provider alone."""

from __future__ import annotations

from structlog.testing import capture_logs
from typing_extensions import override

from mailsift.pipeline.facts import Answer, FactKind, Known, Wait, WaitReason
from mailsift.pipeline.probe.prober import ProbeRequest, ProbeResult
from mailsift.pipeline.throttle import Ask, Grant
from tests.unit.pipeline.smtp_stub import (
    Bench,
    Mailer,
    OpenDoors,
    mailing,
    providers,
    routed,
    targets,
    turning,
)

FACT = routed("a.test")
PEOPLE = tuple(f"user{n}" for n in range(600))
TRUSTED = 300


def found(probed: ProbeResult, answer: Answer) -> set[str]:
    return {address for address, fact in probed.mailboxes.items() if fact.answer is answer}


async def test_refusals_after_a_jump_are_not_believed_and_come_back_later() -> None:
    async with mailing(Mailer(rcpt=turning(TRUSTED))) as port:
        bench = Bench(port, providers=providers(50, 1))
        with capture_logs() as logs:
            probed = await bench.probe(targets(FACT, *PEOPLE))
    doubted = found(probed, Answer.DOUBTED)
    assert len(found(probed, Answer.ACCEPTED)) + len(found(probed, Answer.NOT_FOUND)) < TRUSTED + 10
    assert 60 <= len(found(probed, Answer.NOT_FOUND)) <= 80  # every fourth of those before
    assert len(doubted) > 600 - TRUSTED - 10
    assert probed.waits == dict.fromkeys(doubted, Wait(WaitReason.DEFERRED, 0.0))
    assert len(probed.mailboxes) == 600
    fact = probed.mailboxes[next(iter(doubted))]
    assert (fact.smtp_code, fact.rule) == (550, "refusals-jumped")
    assert "User unknown" in fact.text  # the evidence still says what was said
    assert probed.catch_alls["a.test"].catch_all is Known.NO
    assert [log["event"] for log in logs] == ["refusals.jumped"]
    assert "@" not in str(logs)
    assert len(bench.cache.values[FactKind.MAILBOX]) == 600 - len(doubted)


async def test_the_doubt_lives_on_in_the_same_list_and_not_in_another() -> None:
    async with mailing(Mailer(rcpt=turning(TRUSTED))) as port:
        bench = Bench(port, providers=providers(50, 1))
        first = await bench.prober.probe(
            targets(FACT, *PEOPLE[:400]), ProbeRequest(session_s=60, list_id="one")
        )
        again = await bench.prober.probe(
            targets(FACT, *PEOPLE[400:]), ProbeRequest(session_s=60, list_id="one")
        )
        other = await bench.prober.probe(
            targets(FACT, *PEOPLE[400:]), ProbeRequest(session_s=60, list_id="two")
        )
    assert found(first, Answer.DOUBTED)
    assert len(found(again, Answer.DOUBTED)) == len(again.waits) == 200
    assert len(found(other, Answer.NOT_FOUND)) == 200
    assert not other.waits


async def test_a_list_that_is_bad_from_the_start_is_believed() -> None:
    async with mailing(Mailer(rcpt=turning(0))) as port:
        probed = await Bench(port).probe(targets(FACT, *PEOPLE))
    assert len(found(probed, Answer.NOT_FOUND)) == 600
    assert not probed.waits


class Held(OpenDoors):
    """Leaves a provider alone after so many grants."""

    def __init__(self, grants: int) -> None:
        super().__init__(each=20)
        self.left = grants

    @override
    def _grant(self, ask: Ask) -> Grant:
        self.left -= 1
        return super()._grant(ask) if self.left >= 0 else Grant(0, retry_after=870.0, blocked=True)


async def test_who_stands_before_a_provider_that_refuses_us_waits_unasked() -> None:
    mailer = Mailer(rcpt=turning(10_000))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=Held(1), providers=providers(20, 1))
        probed = await bench.probe(targets(FACT, *PEOPLE[:100]))
    assert len(mailer.recipients) == 20
    refused = found(probed, Answer.REFUSED_US)
    assert len(refused) == 81
    assert probed.waits == dict.fromkeys(refused, Wait(WaitReason.BLOCKED, 870.0))
    assert {probed.mailboxes[address].rule for address in refused} == {"provider-refuses-us"}


async def test_a_held_provider_holds_nobody_else() -> None:
    class Picky(OpenDoors):
        @override
        def _grant(self, ask: Ask) -> Grant:
            return Grant(0, retry_after=9.0, blocked=True) if ask.provider == "sour" else super()._grant(ask)

    sour = routed("sour.test", ("mx.sour.test", ("127.0.0.1",)), provider="sour")
    async with mailing(Mailer(rcpt=turning(10_000))) as port:
        bench = Bench(port, throttle=Picky())
        probed = await bench.probe([*targets(sour, "user1", "user2"), *targets(FACT, "user1")])
    assert set(probed.waits) == {"user1@sour.test", "user2@sour.test"}
    assert found(probed, Answer.ACCEPTED) == {"user1@a.test"}
