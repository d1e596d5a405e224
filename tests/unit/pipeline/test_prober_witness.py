"""Refusals are believed only while the server still knows somebody it has accepted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mailsift.pipeline.facts import Answer, DomainFact, FactKind, Known, WaitReason
from mailsift.pipeline.probe.prober import ProbeRequest, ProbeResult
from tests.unit.pipeline.smtp_stub import (
    DROP,
    NOT_FOUND,
    Bench,
    Mailer,
    OpenDoors,
    answers,
    harvest_defence,
    knows,
    mailing,
    providers,
    routed,
    targets,
)

FACT = routed("a.test")
REAL = tuple(f"real{n}" for n in range(10))
GONE = tuple(f"gone{n}" for n in range(10))
MIXED = tuple(name for pair in zip(GONE, REAL, strict=True) for name in pair)


def answered(probed: ProbeResult, answer: Answer) -> list[str]:
    return [address for address, fact in probed.mailboxes.items() if fact.answer is answer]


def found(probed: ProbeResult, answer: Answer) -> set[str]:
    return {address.partition("@")[0] for address in answered(probed, answer)}


@pytest.mark.parametrize("recipients", [1, 4, 8, 50])
@pytest.mark.parametrize("offers", [("PIPELINING",), ()])
async def test_a_harvest_defence_makes_nobody_invalid_who_is_there(
    recipients: int, offers: tuple[str, ...]
) -> None:
    mailer = Mailer(rcpt=harvest_defence(knows(*REAL)), offers=offers)
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(recipients, 1))
        probed = await bench.probe(targets(FACT, *MIXED))
        assert found(probed, Answer.NOT_FOUND) <= set(GONE)
        doubted = found(probed, Answer.DOUBTED)
        assert doubted & set(REAL)
        assert {probed.waits[f"{name}@a.test"].reason for name in doubted} == {WaitReason.DEFERRED}
        mailer.rcpt = knows(*REAL)  # it has forgotten us
        later = await bench.probe(targets(FACT, *doubted), max_age=86_400)
    assert found(later, Answer.ACCEPTED) == doubted & set(REAL)
    assert found(later, Answer.NOT_FOUND) == doubted & set(GONE)


@pytest.mark.parametrize("offers", [("PIPELINING",), ()])
async def test_the_third_refusal_is_checked_although_somebody_was_accepted_after_the_first(
    offers: tuple[str, ...],
) -> None:
    mailer = Mailer(rcpt=harvest_defence(knows(*REAL), 2), offers=offers)  # the random one is the first
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, "real0", "gone0", "real1"))
    assert found(probed, Answer.ACCEPTED) == {"real0"}
    assert found(probed, Answer.DOUBTED) == {"gone0", "real1"}


async def test_with_a_witness_from_an_earlier_call_the_first_refusal_is_checked() -> None:
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "real0"), max_age=60)
        missing = await bench.probe(targets(FACT, "gone0"), max_age=60)
        mailer.rcpt = knows()  # it has had enough of us
        there = await bench.probe(targets(FACT, "real1"), max_age=60)
        mailer.rcpt = knows("real1")
        left = await bench.probe(targets(FACT, "real0"))
    assert [answers(probed) for probed in (missing, there, left)] == [
        {"gone0": Answer.NOT_FOUND},
        {"real1": Answer.DOUBTED},
        {"real0": Answer.NOT_FOUND},  # one who was accepted does not speak against its own refusal
    ]


@pytest.mark.parametrize("seed", range(20))
async def test_once_somebody_was_accepted_nobody_is_missing_who_is_there(seed: int) -> None:
    dice = random.Random(seed)
    people = [*REAL[1:], *GONE]
    dice.shuffle(people)
    size = dice.choice([1, 2, 3, 5, 19])
    async with mailing(Mailer(rcpt=harvest_defence(knows(*REAL), dice.randint(2, 8)))) as port:
        bench = Bench(port, providers=providers(dice.choice([1, 3, 8]), dice.choice([1, 3])))
        await bench.probe(targets(FACT, "real0"), max_age=86_400)
        for start in range(0, len(people), size):
            waiting: Sequence[str] = people[start : start + size]
            for _ in range(3):
                probed = await bench.probe(targets(FACT, *waiting), max_age=86_400)
                assert not found(probed, Answer.NOT_FOUND) & set(REAL)
                waiting = [address.partition("@")[0] for address in probed.waits]


async def test_who_was_accepted_before_is_asked_in_a_later_call_too() -> None:
    mailer = Mailer(rcpt=harvest_defence(knows(*REAL)))
    async with mailing(mailer) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, *MIXED))
        waiting = [address.partition("@")[0] for address in first.waits]
        assert found(first, Answer.ACCEPTED) & set(waiting)  # the witness comes back with them
        again = await bench.probe(targets(FACT, *waiting), max_age=86_400)
        strict = await bench.probe(targets(FACT, *waiting), max_age=0)
    assert not found(again, Answer.NOT_FOUND)
    assert not found(strict, Answer.NOT_FOUND) & set(REAL)


@pytest.mark.parametrize("sessions", [1, 3])
@pytest.mark.parametrize("recipients", [1, 2, 4])
@pytest.mark.parametrize("max_age", [0, 86_400])
async def test_a_defence_that_outlasts_all_tries_makes_nobody_invalid_who_is_there(
    recipients: int, sessions: int, max_age: int
) -> None:
    mailer = Mailer(rcpt=harvest_defence(knows(*REAL), 3))
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(recipients, sessions))
        waiting: Sequence[str] = [REAL[0], *MIXED[:1], *MIXED[2:]]
        for _ in range(4):
            probed = await bench.probe(targets(FACT, *waiting), max_age=max_age)
            assert not found(probed, Answer.NOT_FOUND) & set(REAL)
            waiting = [address.partition("@")[0] for address in probed.waits]


@pytest.mark.parametrize("offers", [("PIPELINING",), ()])
@pytest.mark.parametrize("farewell", [DROP, "421 4.7.0 Error: too many errors", "421 4.3.2 bye"])
async def test_who_was_accepted_before_a_server_hung_up_speaks_against_refusals_of_everybody(
    offers: tuple[str, ...], farewell: str
) -> None:
    refused = 0

    def defend(address: str) -> str:
        nonlocal refused
        if refused < 4:
            is_there = address.startswith("real")
            refused += not is_there
            return "250 ok" if is_there else farewell if refused == 4 else NOT_FOUND
        return NOT_FOUND

    async with mailing(Mailer(rcpt=defend, offers=offers)) as port:
        bench = Bench(port)
        waiting: Sequence[str] = ["real0", *GONE[:6], *REAL[1:5]]
        for _ in range(3):
            probed = await bench.probe(targets(FACT, *waiting), max_age=86_400)
            assert not found(probed, Answer.NOT_FOUND) & set(REAL)
            waiting = [address.partition("@")[0] for address in probed.waits]
    assert "real1" in waiting


async def test_an_acceptance_that_does_not_count_makes_a_witness_and_no_verdict() -> None:
    mailer = Mailer(rcpt=knows("real0"), quit=DROP)
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "nobody"), max_age=86_400)  # what random recipients get is known
        mailer.rcpt = harvest_defence(knows("real0"), 3)
        first = await bench.probe(targets(FACT, "real0", *GONE), max_age=86_400)
        mailer.rcpt = knows()
        again = await bench.probe(targets(FACT, "real0"), max_age=86_400)
    assert found(first, Answer.DOUBTED) == {"real0", *GONE}
    assert not found(again, Answer.ACCEPTED)


async def test_a_witness_that_is_still_known_confirms_the_refusals() -> None:
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port, throttle=OpenDoors(each=len(GONE) + 2))  # all of them, and the random one
        probed = await bench.probe(targets(FACT, "real0", *GONE))
    assert found(probed, Answer.NOT_FOUND) == set(GONE)
    assert not probed.waits
    assert mailer.recipients.count("real0@a.test") == 2
    assert [(one.unused, one.beyond) for reports in bench.throttle.reports for one in reports] == [(0, 1)]
    assert probed.catch_alls["a.test"].catch_all is Known.NO


async def test_where_nothing_depends_on_it_nobody_is_asked_twice() -> None:
    for script in (knows(*REAL), knows()):
        mailer = Mailer(rcpt=script)
        async with mailing(mailer) as port:
            await Bench(port).probe(targets(FACT, *REAL))
        assert len(mailer.recipients) == len(set(mailer.recipients)) == 11


async def test_a_witness_that_cannot_be_asked_now_makes_nobody_invalid() -> None:
    asked: set[str] = set()

    def busy_later(address: str) -> str:
        again = address in asked
        asked.add(address)
        return "451 4.3.0 later" if again else "250 ok" if address.startswith("real") else NOT_FOUND

    async with mailing(Mailer(rcpt=busy_later)) as port:
        probed = await Bench(port).probe(targets(FACT, "real0", *GONE))
    assert found(probed, Answer.ACCEPTED) == {"real0"}
    assert found(probed, Answer.DOUBTED) == set(GONE)


@pytest.mark.parametrize("refusal", ["451 4.3.0 later", "550 5.7.1 too curious, go away"])
async def test_a_witness_whose_transaction_is_refused_makes_nobody_invalid(refusal: str) -> None:
    mailer = Mailer(rcpt=knows(*REAL))

    def defend(address: str) -> str:
        mailer.mail = refusal  # from the next transaction on
        return "250 ok" if address.startswith("real0") else NOT_FOUND

    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "nobody"))  # so that no random recipient is waited for
        mailer.rcpt = defend
        probed = await bench.probe(targets(FACT, *REAL[:8]), max_age=60)
    assert found(probed, Answer.ACCEPTED) == {"real0"}
    assert found(probed, Answer.DOUBTED) == set(REAL[1:8])


@pytest.mark.parametrize("rset", ["421 4.0.0 bye", "451 4.5.0 one message a session", "550 no"])
async def test_a_server_of_one_transaction_a_session_is_believed_at_the_second_try(rset: str) -> None:
    async with mailing(Mailer(rcpt=knows("real0"), rset=rset)) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, "real0", *GONE), max_age=86_400)
        waiting = [address.partition("@")[0] for address in first.waits]
        second = await bench.probe(targets(FACT, *waiting), max_age=86_400)
    assert found(first, Answer.DOUBTED)
    assert found(second, Answer.NOT_FOUND) == found(first, Answer.DOUBTED)
    assert not second.waits


async def test_a_server_without_rset_is_believed() -> None:
    async with mailing(Mailer(rcpt=knows("real0"), rset="502 5.5.1 not implemented")) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "nobody"))
        probed = await bench.probe(targets(FACT, "real0", *GONE), max_age=60)
    assert found(probed, Answer.NOT_FOUND) == set(GONE)


async def test_a_blanket_refusal_of_a_witness_too_is_taken_back_with_all_others() -> None:
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "real0"))
        mailer.rcpt = lambda _: "550 5.4.1 Recipient address rejected: Access denied."
        probed = await bench.probe(targets(FACT, "real0", *GONE))
    assert found(probed, Answer.DOUBTED) == {"real0", *GONE}
    assert "a.test" not in probed.catch_alls


async def test_a_refused_witness_takes_back_the_random_recipients_of_earlier_sessions_too() -> None:
    host = ("mx.stub.test", ("127.0.0.1",))
    facts = [routed(f"{name}.test", host) for name in ("first", "second", "third")]
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(2, 1))
        await bench.probe(targets(facts[2], "real0"))
        bench.cache.values[FactKind.CATCH_ALL].clear()
        mailer.rcpt = knows()
        asked = [*targets(facts[0], "gone"), *targets(facts[1], "gone"), *targets(facts[2], "real0")]
        probed = await bench.probe(asked)
    assert {fact.answer for fact in probed.mailboxes.values()} == {Answer.DOUBTED}
    assert not probed.catch_alls
    assert not bench.cache.values[FactKind.CATCH_ALL]


async def test_whom_a_process_has_heard_accepted_is_a_witness_for_the_rest_of_the_list() -> None:
    mailer = Mailer(rcpt=knows(*REAL))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "real0", "gone0"), max_age=86_400)
        mailer.rcpt = knows()  # it has had enough of us
        rest = await bench.probe(targets(FACT, *GONE[1:5], *REAL[1:5]), max_age=86_400)
        asked = targets(FACT, *GONE[1:5], *REAL[1:5])
        other = await bench.prober.probe(asked, ProbeRequest(session_s=60, max_age=86_400, owner="another"))
        bench.now += 86_401
        later = await bench.probe(targets(FACT, *GONE[1:5], *REAL[1:5]), max_age=86_400)
    assert found(rest, Answer.DOUBTED) == {*GONE[1:5], *REAL[1:5]}
    assert found(other, Answer.NOT_FOUND) == found(rest, Answer.DOUBTED)
    assert found(later, Answer.NOT_FOUND) == found(rest, Answer.DOUBTED)  # nobody has been accepted for long


async def test_who_was_accepted_at_the_same_server_is_a_witness_for_other_domains() -> None:
    """A server that turns against us after the first domain, before it has accepted anybody at the second."""
    facts = {name: routed(f"{name}.test", (f"{name}.stub.test", ("127.0.0.1",))) for name in ("one", "two")}
    mailer = Mailer(rcpt=harvest_defence(knows("real0", "real1"), 4))
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(8, 1))
        asked = [*targets(facts["one"], "real0"), *targets(facts["two"], "gone0", "gone1", "real1")]
        probed = await bench.probe(asked)
        mailer.rcpt = knows("real0", "real1")
        later = await bench.probe(targets(facts["two"], "gone0", "gone1", "real1"))
    assert found(probed, Answer.DOUBTED) == {"gone0", "gone1", "real1"}
    assert (found(later, Answer.NOT_FOUND), found(later, Answer.ACCEPTED)) == ({"gone0", "gone1"}, {"real1"})


async def test_a_server_that_looks_up_only_the_first_recipient_of_a_session_makes_nobody_invalid() -> None:
    mailer = Mailer(rcpt=knows(*REAL), most_recipients=1, too_many=NOT_FOUND)
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(4, 1))
        probed = await bench.probe(targets(FACT, *REAL))
    assert len(found(probed, Answer.ACCEPTED)) == 1
    assert not found(probed, Answer.NOT_FOUND)


def at_one_server(count: int) -> list[DomainFact]:
    """Domains with an exchanger of their own name each, all of them at one address, as hosters have it."""
    return [routed(f"{n}.test", (f"mail.{n}.test", ("127.0.0.1",))) for n in range(count)]


async def test_refusals_are_counted_by_server_where_each_domain_has_a_name_of_its_own_for_it() -> None:
    asked = [target for fact in at_one_server(12) for target in targets(fact, "real0")]
    async with mailing(Mailer(rcpt=harvest_defence(knows("real0"), 5))) as port:
        probed = await Bench(port, providers=providers(8, 1)).probe(asked)
    assert found(probed, Answer.ACCEPTED)
    assert not [fact for fact in probed.mailboxes.values() if fact.answer is Answer.NOT_FOUND]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_whom_a_server_accepted_is_a_witness_for_its_other_domains_in_later_calls_too(
    elsewhere: bool,
) -> None:
    first, second = at_one_server(2)
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(first, "real0"), max_age=86_400)
        mailer.rcpt = knows()  # it has had enough of us
        if elsewhere:  # a process that knows of it what the cache knows
            bench = Bench(port, cache=bench.cache)
        asked = [*targets(first, *["real0"] * elsewhere), *targets(second, "real1", "real2")]
        probed = await bench.probe(asked, max_age=86_400)
    assert {probed.mailboxes[f"{name}@1.test"].answer for name in ("real1", "real2")} == {Answer.DOUBTED}


async def test_a_random_recipient_that_was_accepted_is_a_witness_for_other_domains_too() -> None:
    first, second = at_one_server(2)
    mailer = Mailer(rcpt=lambda _: "250 ok")
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(first, "real0"), max_age=86_400)  # a catch-all, for all that is known
        mailer.rcpt = knows()
        probed = await bench.probe(targets(second, "real1", "real2"), max_age=86_400)
    assert {fact.answer for fact in probed.mailboxes.values()} == {Answer.DOUBTED}


async def test_somebody_of_a_catch_all_is_no_witness_where_somebody_was_looked_up() -> None:
    first, second, third = at_one_server(3)

    def away(address: str) -> str:
        return "250 ok" if address.endswith("@1.test") else NOT_FOUND

    mailer = Mailer(rcpt=lambda address: "250 ok" if address == "real0@0.test" else away(address))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(first, "real0"), max_age=86_400)
        await bench.probe(targets(second, "anybody"), max_age=86_400)
        mailer.rcpt = away  # what it looks people up in
        probed = await bench.probe(targets(third, "real1", "real2"), max_age=86_400)
    assert {fact.answer for fact in probed.mailboxes.values()} == {Answer.DOUBTED}


async def test_a_server_that_accepts_nobody_behind_a_refusal_makes_nobody_invalid() -> None:
    mailer = Mailer()
    refused_in = -1

    def one_mistake(address: str) -> str:
        nonlocal refused_in
        if refused_in == len(mailer.seen) or not address.startswith("real"):
            refused_in = len(mailer.seen)
            return NOT_FOUND
        return "250 ok"

    mailer.rcpt = one_mistake
    async with mailing(mailer) as port:
        probed = await Bench(port, providers=providers(6, 1)).probe(targets(FACT, *REAL))
    assert found(probed, Answer.ACCEPTED)
    assert not found(probed, Answer.NOT_FOUND)


async def test_nor_does_one_that_looks_up_only_the_first_two() -> None:
    mailer = Mailer(rcpt=knows(*REAL), most_recipients=2, too_many=NOT_FOUND)
    async with mailing(mailer) as port:
        probed = await Bench(port, providers=providers(5, 1)).probe(targets(FACT, "gone0", *REAL))
    assert found(probed, Answer.ACCEPTED)
    assert found(probed, Answer.NOT_FOUND) <= set(GONE)


async def test_a_server_that_refused_a_witness_is_not_believed_about_domains_that_were_asked_beside() -> None:
    facts = {name: routed(f"{name}.test", (f"{name}.stub.test", ("127.0.0.1",))) for name in ("one", "two")}
    accepted: list[str] = []

    def turning(address: str) -> str:
        is_known = address == "real0@one.test" and not accepted
        accepted.extend([address] * is_known)
        return "250 ok" if is_known else NOT_FOUND

    async with mailing(Mailer(rcpt=turning)) as port:
        bench = Bench(port, providers=providers(8, 2))
        asked = [*targets(facts["one"], "real0", "gone0", "gone2"), *targets(facts["two"], "gone1", "real1")]
        probed = await bench.probe(asked)
    assert accepted
    assert found(probed, Answer.DOUBTED) == {"gone0", "gone1", "gone2", "real1"}
    assert probed.catch_alls.keys() <= {"one.test"}


@pytest.mark.parametrize("sessions", [1, 3])
async def test_who_was_refused_before_a_server_accepted_anybody_is_asked_again(sessions: int) -> None:
    mailer = Mailer()
    mailer.rcpt = lambda address: knows(*REAL)(address) if len(mailer.seen) > sessions else NOT_FOUND
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(5, sessions))
        asked = [target for fact in at_one_server(4) for target in targets(fact, *REAL[:4], "gone0")]
        probed = await bench.probe(asked)
    assert {name.partition("@")[0] for name in answered(probed, Answer.NOT_FOUND)} == {"gone0"}
    assert len(answered(probed, Answer.ACCEPTED)) == 16
    assert not probed.waits


async def test_where_one_of_them_is_accepted_now_those_who_were_not_asked_again_come_back() -> None:
    mailer, people = Mailer(), [f"real{n}" for n in range(20)]
    mailer.rcpt = lambda address: knows(*people)(address) if len(mailer.seen) > 1 else NOT_FOUND
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(16, 1))
        probed = await bench.probe(targets(FACT, *people))
    assert found(probed, Answer.ACCEPTED) == {*people[:10], *people[15:]}
    assert found(probed, Answer.DOUBTED) == set(people[10:15])
    assert probed.waits.keys() == {f"{name}@a.test" for name in people[10:15]}


async def test_who_cannot_be_asked_again_comes_back() -> None:
    mailer = Mailer()
    mailer.rcpt = lambda address: knows(*REAL)(address) if len(mailer.seen) == 2 else NOT_FOUND
    async with mailing(mailer) as port:
        probed = await Bench(port, providers=providers(4, 1)).probe(targets(FACT, *REAL))
    assert found(probed, Answer.ACCEPTED)
    assert not found(probed, Answer.NOT_FOUND)


async def test_who_is_to_be_asked_again_is_not_missing_meanwhile() -> None:
    mailer = Mailer()
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(4, 1))

        def say(address: str) -> str:
            if len(mailer.seen) == 1:
                return NOT_FOUND
            bench.throttle.denials, bench.throttle.retry_after = 99, 60.0  # from the next session on
            return knows(*REAL)(address)

        mailer.rcpt = say
        probed = await bench.probe(targets(FACT, *REAL[:6]))
    assert found(probed, Answer.DOUBTED) == set(REAL[:3])
    assert {probed.waits[f"{name}@a.test"].reason for name in REAL[:3]} == {WaitReason.THROTTLED}


async def test_of_those_who_are_still_refused_nobody_is_asked_a_third_time() -> None:
    mailer = Mailer(rcpt=knows("real0"))
    async with mailing(mailer) as port:
        bench = Bench(port, providers=providers(16, 1))
        probed = await bench.probe(targets(FACT, *(f"gone{n}" for n in range(20)), "real0"))
    assert len(found(probed, Answer.NOT_FOUND)) == 20
    assert not probed.waits
    times = Counter(mailer.recipients)
    assert sorted(times[f"gone{n}@a.test"] for n in range(20)) == [1] * 10 + [2] * 10


@pytest.mark.parametrize(
    ("domains", "otherwise", "answer"),
    [(10, NOT_FOUND, Answer.DOUBTED), (9, NOT_FOUND, Answer.NOT_FOUND), (10, "250 ok", Answer.NOT_FOUND)],
)
async def test_a_server_that_knows_nobody_at_any_of_many_domains_is_not_believed(
    domains: int, otherwise: str, answer: Answer
) -> None:
    others = at_one_server(domains + 1)
    last = others.pop().domain
    mailer = Mailer(rcpt=lambda address: otherwise if address.endswith(last) else NOT_FOUND)
    async with mailing(mailer) as port:
        asked = [target for fact in others for target in targets(fact, "ann", "bob")]
        if otherwise != NOT_FOUND:
            asked += targets(at_one_server(domains + 1)[-1], "ann")
        probed = await Bench(port).probe(asked)
    assert len(answered(probed, answer)) == 2 * domains
    assert bool(probed.waits) is (answer is Answer.DOUBTED)
    assert bool(probed.catch_alls) is (answer is not Answer.DOUBTED)
