"""The prober over sockets: sizes of sessions, numbers of sessions, grants, deadlines and budgets."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Sequence

import pytest
from typing_extensions import override

from mailsift.pipeline.facts import Answer, Wait, WaitReason
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.prober import ProbeRequest
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


async def test_sessions_to_one_provider_stay_within_its_limit_and_in_use() -> None:
    mailer = Mailer(rcpt=knows(*USERS), latency=0.02)
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(recipients=5, sessions=4))
        await bench.probe(targets(FACT, *USERS))
    assert mailer.peak == 4
    assert 21 <= len(mailer.seen) <= 26  # some have a place kept for the random recipient, to be asked again


class OneAtATime(OpenDoors):
    """Has one session to give, and no idea when it will be back."""

    @override
    def _grant(self, ask: Ask) -> Grant:
        return Grant(0, retry_after=60.0, busy=True) if self.open else super()._grant(ask)


async def test_who_waits_for_a_session_asks_again_when_one_of_its_own_ends() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port, asyncio.timeout(20):
        patient = {"local_wait": 90.0}
        bench = Bench(port, OneAtATime(), providers=providers(recipients=5, sessions=4), settings=patient)
        probed = await bench.probe(targets(FACT, *USERS), budget_s=120.0)
    assert len(probed.mailboxes) == 100
    assert mailer.peak == 1


async def test_a_thousand_addresses_cost_few_throttle_calls() -> None:
    facts = [routed(f"d{n}.test", (f"mx{n}.test", ("127.0.0.1",)), provider=f"p{n}") for n in range(100)]
    mailer = Mailer(rcpt=knows(*USERS[:10]))
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe([target for fact in facts for target in targets(fact, *USERS[:10])])
    assert len(probed.mailboxes) == 1000
    assert len(bench.throttle.grants[0]) == 100
    assert len(bench.throttle.grants) + len(bench.throttle.reports) < 100


async def test_a_mailbox_with_too_many_messages_is_full_and_nobody_else_is() -> None:
    full = "452 4.2.2 User has too many messages on the server"
    known = knows(*USERS)
    for offers in ((), ("PIPELINING",)):
        mailer = Mailer(rcpt=lambda who: full if who.startswith("full@") else known(who), offers=offers)
        async with mailing(mailer) as port:
            bench = Bench(port)
            mailer.rcpt, says = knows(), mailer.rcpt
            await bench.probe(targets(FACT, "nobody"))  # so that no random recipient goes before
            mailer.rcpt = says
            mailer.seen.clear()
            probed = await bench.probe(targets(FACT, "full", *USERS[:3]), max_age=60)
        assert answers(probed) == {"full": Answer.FULL} | dict.fromkeys(USERS[:3], Answer.ACCEPTED)
        assert not probed.waits
        assert mailer.recipients.count("full@a.test") == 1


async def test_a_session_limit_is_learned_and_the_rest_gets_new_sessions() -> None:
    for too_many in (
        "452 4.5.3 Error: too many recipients",
        "421 4.7.0 Error: too many recipients",
        "552 Too many recipients",
        "552 5.5.3 No more, please",
    ):
        mailer = Mailer(rcpt=knows(*USERS), most_recipients=10, too_many=too_many)
        async with mailing(mailer) as port:
            bench = Bench(port)
            probed = await bench.probe(targets(FACT, *USERS[:45]))
            assert set(answers(probed).values()) == {Answer.ACCEPTED}
            assert not probed.waits
            before = len(mailer.seen)
            again = await bench.probe(targets(FACT, *USERS[45:84]), max_age=60)
            assert len(mailer.seen) - before == 4
            assert all(line.count("RCPT") <= 10 for line in mailer.verbs[before:])
        assert len(again.mailboxes) == 39
        assert SessionOutcome.RATE not in outcomes(bench)


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_a_server_that_names_its_limit_and_never_says_goodbye_is_not_asked_for_ever(most: int) -> None:
    mailer = Mailer(rcpt=knows(*USERS), offers=(), most_recipients=most, quit=DROP)
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *USERS[:6]))
    assert answers(probed) == dict.fromkeys(USERS[:6], Answer.ACCEPTED)
    assert not probed.waits
    assert len(mailer.seen) < 20


async def test_a_server_that_takes_nobody_is_not_asked_for_ever() -> None:
    mailer = Mailer(rcpt=lambda _: "452 4.5.3 Too many recipients")
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, *USERS[:5]))
    assert set(probed.waits.values()) == {Wait(WaitReason.DEFERRED, 0.0)}
    assert len(probed.mailboxes) == 5
    assert len(mailer.seen) == 1
    assert outcomes(bench) == [SessionOutcome.RATE]


async def test_recipients_of_several_domains_are_separated_where_a_server_says_so() -> None:
    domains: list[str] = []

    def one_domain(address: str) -> str:
        local, _, domain = address.partition("@")
        if mailer.verbs[-1][-2:].count("MAIL"):
            domains[:] = [domain]
        if domain not in domains:
            return "451-4.3.0 Multiple destination domains per transaction\r\n451 4.3.0 is unsupported."
        return "250 ok" if local == "ann" else NOT_FOUND

    mailer = Mailer(rcpt=one_domain)
    asked = [target for n in range(6) for target in targets(routed(f"d{n}.test"), "ann")]
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(asked)
    assert [fact.answer for fact in probed.mailboxes.values()] == [Answer.ACCEPTED] * 6
    assert not probed.waits
    assert mailer.verbs[-1].count("RSET") >= 1


async def test_a_crowded_server_gets_fewer_sessions_not_a_bad_verdict() -> None:
    mailer = Mailer(rcpt=knows(*USERS), most_sessions=2, latency=0.02)
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(recipients=10, sessions=5))
        probed = await bench.probe(targets(FACT, *USERS))
    assert set(answers(probed).values()) == {Answer.ACCEPTED}
    assert len(probed.mailboxes) == 100
    assert not probed.waits
    assert SessionOutcome.RATE not in outcomes(bench)


async def test_a_slow_session_waits_for_patience_and_then_counts_as_unreachable() -> None:
    replies = {"ann@a.test": "250 ok", "bob@a.test": SILENCE}
    async with mailing(Mailer(rcpt=lambda address: replies.get(address, NOT_FOUND), offers=())) as port:
        bench = Bench(port, settings={"session_seconds": 0.6})
        hasty = await bench.probe(targets(FACT, "ann", "bob"), session_s=0.3)
        patient = await bench.probe(targets(FACT, "bob"), session_s=0.6)
    assert answers(hasty) == {"ann": Answer.UNREACHABLE, "bob": Answer.UNREACHABLE}
    assert hasty.waits == dict.fromkeys(["ann@a.test", "bob@a.test"], Wait(WaitReason.SLOW, 0.0))
    assert answers(patient) == {"bob": Answer.UNREACHABLE}
    assert patient.mailboxes["bob@a.test"].rule == "session-deadline"
    assert not patient.waits
    assert outcomes(bench).count(SessionOutcome.FAILED) == len(outcomes(bench)) - 1 == 3


async def test_the_throttle_hears_how_long_a_session_may_take_and_whose_room_is_given_away_asks_nobody() -> (
    None
):
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=OpenDoors(seconds=0.0))
        late = await bench.probe(targets(FACT, "ann"), session_s=7.0)
        assert answers(late) == {"ann": Answer.UNREACHABLE}
        assert late.waits == {"ann@a.test": Wait(WaitReason.SLOW, 0.0)}
        assert {ask.seconds for asks in bench.throttle.grants for ask in asks} == {7.0}
        bench.throttle.seconds = 7.0
        assert answers(await bench.probe(targets(FACT, "ann"), session_s=7.0)) == {"ann": Answer.ACCEPTED}


async def test_a_patient_call_gives_a_slow_server_smaller_sessions() -> None:
    mailer = Mailer(rcpt=knows(*USERS), offers=(), latency=0.05)
    async with mailing(mailer) as port:
        bench = Bench(port, settings={"session_seconds": 0.6}, providers=providers(50, 1))
        probed = await bench.probe(targets(FACT, *USERS[:12]), session_s=0.6)
    assert set(answers(probed).values()) == {Answer.ACCEPTED}
    assert not probed.waits
    assert 2 < len(mailer.seen) < 12


async def test_when_the_budget_is_over_the_rest_is_handed_back() -> None:
    mailer = Mailer(rcpt=knows(*USERS), latency=0.05)
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(recipients=5, sessions=1))
        probed = await bench.probe(targets(FACT, *USERS), budget_s=1.0)
        none = await bench.probe(targets(FACT, *USERS[:3]), budget_s=0.0)
    assert 0 < len(probed.mailboxes) < 100
    assert len(probed.mailboxes) + len(probed.waits) == 100
    assert set(probed.waits.values()) == {Wait(WaitReason.BUDGET, 0.0)}
    assert len(none.waits) == 3


async def test_a_long_denial_hands_back_and_a_short_one_is_waited_for() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        denied = Bench(port, throttle=OpenDoors(denials=1, retry_after=30.0))
        probed = await denied.probe(targets(FACT, "ann"))
        assert probed.waits == {"ann@a.test": Wait(WaitReason.THROTTLED, 30.0)}
        assert not probed.mailboxes
        assert not mailer.seen
        patient = Bench(port, throttle=OpenDoors(denials=3, retry_after=0.1))
        assert answers(await patient.probe(targets(FACT, "ann"))) == {"ann": Answer.ACCEPTED}
        hopeless = Bench(port, throttle=OpenDoors(denials=10**9, retry_after=0.05))
        hopeless.settings["local_wait"] = 0.1
        probed = await hopeless.probe(targets(FACT, *USERS))
        assert {wait.reason for wait in probed.waits.values()} == {WaitReason.THROTTLED}
        assert len(probed.waits) == 100


async def test_who_was_denied_takes_what_there_is_and_all_others_wait_for_a_full_session() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=OpenDoors(denials=1), providers=providers(recipients=5, sessions=1))
        bench.settings["local_wait"] = 0.8
        await bench.probe(targets(FACT, *USERS[:8]))
        await bench.probe(targets(FACT, *USERS[8:9]), budget_s=0.5)
    asked = [ask.patience for asks in bench.throttle.grants for ask in asks]
    assert asked[:3] == [0.8, 0.0, 0.8]
    assert 0 < asked[-1] <= 0.5  # no longer than a session may still begin


async def test_of_sessions_that_waited_together_only_one_takes_what_there_is() -> None:
    async with mailing(Mailer(rcpt=knows(*USERS))) as port:
        bench = Bench(port, throttle=OpenDoors(), providers=providers(recipients=5, sessions=3, rate=70.0))
        bench.settings["local_wait"] = 0.8
        bench.throttle.denials = 3
        facts = [routed(f"d{n}.test", provider="a.test") for n in range(4)]
        await bench.probe([target for fact in facts for target in targets(fact, *USERS[:4])])
    assert [[ask.patience for ask in asks] for asks in bench.throttle.grants[:2]] == [
        [0.8] * 3,
        [0.0, 0.8, 0.8],
    ]


async def test_a_small_grant_is_kept_to() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        # one after the other: a session beside the first keeps a place for the random recipient
        bench = Bench(port, throttle=OpenDoors(each=3), providers=providers(sessions=1))
        probed = await bench.probe(targets(FACT, *USERS[:20]))
    assert set(answers(probed).values()) == {Answer.ACCEPTED}
    assert len(probed.mailboxes) == 20
    assert max(verbs.count("RCPT") for verbs in mailer.verbs) == 3
    assert all(report.unused == 0 for reports in bench.throttle.reports for report in reports)


async def test_when_the_pace_is_used_up_the_rest_comes_back_for_whole_sessions() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=OpenDoors(each=10, refill_s=10.0))
        probed = await bench.probe(targets(FACT, *USERS))
    assert len(mailer.recipients) == 10
    assert len(probed.mailboxes) == 9
    assert set(probed.waits.values()) == {Wait(WaitReason.THROTTLED, 10.0)}
    assert len(probed.waits) == 91


async def test_when_the_pace_is_used_up_the_last_ones_wait_for_what_they_need() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=OpenDoors(each=10, refill_s=10.0), providers=providers(recipients=20))
        probed = await bench.probe(targets(FACT, *USERS[:13]))
    assert len(probed.mailboxes) == 9
    assert len(probed.waits) == 4
    assert set(probed.waits.values()) == {Wait(WaitReason.THROTTLED, 4.0)}


async def test_a_grant_of_one_still_gets_everybody_asked() -> None:
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        probed = await Bench(port, throttle=OpenDoors(each=1)).probe(targets(FACT, *USERS[:4]))
    assert answers(probed) == dict.fromkeys(USERS[:4], Answer.ACCEPTED)


async def test_recipients_never_sent_are_reported_as_unused() -> None:
    mailer = Mailer(rcpt=lambda _: "250 ok")
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, *USERS[:10]))
    (reports,) = bench.throttle.reports
    assert [report.unused for report in reports] == [11]  # the ten, and the witness


async def test_a_grant_that_comes_when_the_server_has_turned_us_away_is_given_back() -> None:
    class Slow(OpenDoors):
        @override
        async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
            if self.grants:  # the second call hangs until the first session is over
                await refused.wait()
                await asyncio.sleep(0.1)
            return await super().grant(asks)

    refused = asyncio.Event()
    mailer = Mailer(rcpt=knows(*USERS))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=Slow(), providers=providers(5, 2))
        await bench.probe(targets(FACT, "user0"))
        bench.throttle.denials, bench.throttle.retry_after = 1, 0.01
        bench.throttle.grants.clear()
        mailer.mail, mailer.latency = "550 5.7.1 Client host blocked", 0.05
        asyncio.get_running_loop().call_later(0.3, refused.set)
        probed = await bench.probe(targets(FACT, *USERS[1:11]), max_age=60)
    assert {fact.answer for fact in probed.mailboxes.values()} == {Answer.REFUSED_US}
    assert len(probed.mailboxes) == 10
    assert len(mailer.seen) == 2
    assert bench.throttle.reports[-1][-1].unused == 5


async def test_no_more_sessions_than_the_process_may_have() -> None:
    mailer = Mailer(rcpt=knows("ann"), latency=0.01)
    facts = [routed(f"d{n}.test", (f"mx{n}.test", ("127.0.0.1",)), provider=f"p{n}") for n in range(40)]
    async with mailing(mailer) as port:
        bench = Bench(port, settings={"max_sessions": 6})
        halves = [[t for fact in part for t in targets(fact, "ann")] for part in (facts[:20], facts[20:])]
        both = await asyncio.gather(
            *(bench.prober.probe(h, ProbeRequest(budget_s=9, session_s=9)) for h in halves)
        )
    assert [len(probed.mailboxes) for probed in both] == [20, 20]
    assert mailer.peak <= 6


@pytest.mark.parametrize(
    ("files", "sessions"), [(256, 128), (1, 1), (1024, 500), (65_536, 500), (resource.RLIM_INFINITY, 500)]
)
def test_sessions_leave_half_of_the_descriptors_to_others(
    files: int, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more would be refused by this machine, and the server would count as unreachable."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert ProbeConfig(helo_name="probe.test").max_sessions == sessions
