"""Catch-all domains, blanket refusals, greylisting and what is remembered, over sockets."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mailsift.pipeline.facts import Answer, FactKind, Known, MailboxFact, Wait, WaitReason
from mailsift.pipeline.probe.prober import ProbeResult
from tests.unit.pipeline.smtp_stub import (
    NOT_FOUND,
    Bench,
    Mailer,
    Script,
    knows,
    mailing,
    providers,
    routed,
    targets,
)

FACT = routed("a.test")
MANY = tuple(f"user{n}" for n in range(10))
DENIED = "550 5.4.1 Recipient address rejected: Access denied. AS(201806281) [TK{n}.prod.outlook.com]"


def answers(probed: ProbeResult) -> set[Answer]:
    return {fact.answer for fact in probed.mailboxes.values()}


def is_random(address: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9]{11,19}@.*", address) is not None


def to_random(reply: str, otherwise: str = "250 ok") -> Script:
    return lambda address: reply if is_random(address) else otherwise


@pytest.mark.parametrize("count", [1, 10])
async def test_a_domain_that_takes_anybody_is_catch_all(count: int) -> None:
    mailer = Mailer(rcpt=lambda _: "250 ok")
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, *MANY[:count]))
        again = await bench.probe(targets(FACT, "eve"), max_age=60)
    assert probed.catch_alls["a.test"].catch_all is Known.YES
    assert again.catch_alls["a.test"].catch_all is Known.YES
    assert answers(probed) == answers(again) == {Answer.NOT_ASKED}
    assert len(probed.mailboxes) == count
    assert len(mailer.seen) == 1
    assert count == 1 or len(mailer.recipients) == 1


async def test_the_random_recipient_looks_human_and_is_remembered_for_a_week() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, "ann"))
        await bench.probe(targets(FACT, "bob"), max_age=8 * 86_400)
        assert mailer.recipients[1:] == ["ann@a.test", "bob@a.test", "ann@a.test"]
        assert is_random(mailer.recipients[0])
        bench.now += 7 * 86_400 + 1
        await bench.probe(targets(FACT, "eve"), max_age=8 * 86_400)
    assert len(mailer.recipients) == 6
    assert mailer.recipients[4] != mailer.recipients[0]
    fact = first.catch_alls["a.test"]
    assert (fact.catch_all, fact.smtp_code) == (Known.NO, 550)
    assert fact.expires_at - fact.learned_at == 7 * 86_400
    assert mailer.recipients[0].partition("@")[0] not in fact.text


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize(
    ("reply", "answer", "reason"),
    [
        ("550 5.7.1 Client host [127.0.0.1] blocked using zen.spamhaus.org", Answer.REFUSED_US, None),
        ("451 4.3.0 Temporary lookup failure", Answer.TEMPORARY, WaitReason.DEFERRED),
        ("450 4.7.1 Rate limit exceeded, slow down", Answer.RATE_LIMITED, WaitReason.DEFERRED),
        ("450 4.2.0 Greylisted, try again in 90 seconds", Answer.GREYLISTED, WaitReason.GREYLISTED),
    ],
)
async def test_whatever_else_meets_the_random_recipient_leaves_the_domain_unknown(
    reply: str, answer: Answer, reason: WaitReason | None, count: int
) -> None:
    mailer = Mailer(rcpt=lambda _: reply)
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *MANY[:count]))
    assert probed.catch_alls["a.test"].catch_all is Known.UNKNOWN
    assert answers(probed) == {answer}
    assert all(fact.rule and fact.smtp_code for fact in probed.mailboxes.values())
    assert {wait.reason for wait in probed.waits.values()} == ({reason} if reason else set())
    assert len(probed.waits) == (count if reason else 0)
    if answer is not Answer.GREYLISTED and count > 3:
        assert len(mailer.recipients) == 1
    if answer is Answer.GREYLISTED:
        assert set(probed.waits.values()) == {Wait(WaitReason.GREYLISTED, 90.0)}
        assert len(mailer.recipients) == count + 1


async def test_greylisting_is_met_again_with_the_same_random_recipient_and_ends() -> None:
    known: set[str] = set()

    def greylist(address: str) -> str:
        if address in known:
            return "250 ok" if address.startswith("user") else NOT_FOUND
        known.add(address)
        return "450 4.2.0 <{address}>: Recipient address rejected: Greylisted"

    mailer = Mailer(rcpt=greylist)
    async with mailing(mailer) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, *MANY))
        second = await bench.probe(targets(FACT, *MANY))
    assert answers(first) == {Answer.GREYLISTED}
    assert len(first.waits) == 10
    assert answers(second) == {Answer.ACCEPTED}
    assert not second.waits
    assert second.catch_alls["a.test"].catch_all is Known.NO


async def test_an_acceptance_waits_while_the_random_recipient_is_put_off() -> None:
    mailer = Mailer(rcpt=to_random("450 4.2.0 Greylisted"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, "ann"))
        mailer.rcpt = knows()
        again = await bench.probe(targets(FACT, "ann"), max_age=86_400)
    assert answers(probed) == {Answer.ACCEPTED}
    assert probed.waits == {"ann@a.test": Wait(WaitReason.GREYLISTED, 0.0)}
    assert answers(again) == {Answer.NOT_FOUND}  # the acceptance was not used again


async def test_full_for_the_random_recipient_says_nothing_about_anybody() -> None:
    mailer = Mailer(rcpt=to_random("552 5.2.2 Mailbox full", otherwise=NOT_FOUND))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, "ann"))
    assert probed.catch_alls["a.test"].catch_all is Known.UNKNOWN
    assert answers(probed) == {Answer.NOT_FOUND}


def stamped(address: str) -> str:
    return DENIED.format(n=abs(hash(address)))


@pytest.mark.parametrize("count", [1, 10])
async def test_the_same_refusal_for_everybody_is_a_blanket_refusal(count: int) -> None:
    async with mailing(Mailer(rcpt=stamped)) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, *MANY[:count]))
    assert len(probed.mailboxes) == count
    assert all(fact.blanket for fact in probed.mailboxes.values())
    assert probed.catch_alls["a.test"].blanket
    assert not bench.cache.values[FactKind.MAILBOX]


@pytest.mark.parametrize(
    "refusal",
    [
        "550 5.2.1 This mail account is disabled",
        "550 5.2.1 user:{local} is disabled",
        "550 5.2.1 {local}'s mail account is disabled",
        "550 5.4.1 {local} Recipient address rejected: Access denied",
    ],
)
async def test_a_blanket_refusal_is_known_again_whatever_the_mailbox_is_called(refusal: str) -> None:
    people = ("mail", "account", "_ann", "ann-b", "access", "user", "s", "is")
    mailer = Mailer(rcpt=lambda address: refusal.replace("{local}", address.partition("@")[0]))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *people))
    assert {address: fact.blanket for address, fact in probed.mailboxes.items()} == {
        f"{name}@a.test": True for name in people
    }


async def test_a_blanket_refusal_stands_once_somebody_was_accepted() -> None:
    mailer = Mailer(rcpt=lambda address: "250 ok" if address.startswith("ann@") else stamped(address))
    async with mailing(mailer) as port:
        bench = Bench(port)
        probed = await bench.probe(targets(FACT, "ann", *MANY))
        later = await bench.probe(targets(FACT, "eve"), max_age=60)
    for fact in (*probed.mailboxes.values(), *later.mailboxes.values()):
        assert not fact.blanket
    assert later.mailboxes["eve@a.test"].answer is Answer.NOT_FOUND
    assert probed.catch_alls["a.test"].blanket == ""


async def test_user_unknown_is_never_a_blanket_refusal() -> None:
    async with mailing(Mailer(rcpt=lambda _: NOT_FOUND)) as port:
        probed = await Bench(port).probe(targets(FACT, "ann", "bob"))
    assert [fact.blanket for fact in probed.mailboxes.values()] == [False, False]
    assert answers(probed) == {Answer.NOT_FOUND}


async def test_what_rfc_5321_writes_for_550_shows_nothing_until_somebody_is_accepted() -> None:
    refused = "550 Requested action not taken: mailbox unavailable"
    async with mailing(Mailer(rcpt=lambda _: refused)) as port:
        everybody = await Bench(port).probe(targets(FACT, "ann", "bob"))
    async with mailing(Mailer(rcpt=knows("ann", otherwise=refused))) as port:
        all_but_ann = await Bench(port).probe(targets(FACT, "ann", "bob"))
    assert {fact.blanket for fact in everybody.mailboxes.values()} == {True}
    bob = all_but_ann.mailboxes["bob@a.test"]
    assert (bob.answer, bob.blanket) == (Answer.NOT_FOUND, False)


async def test_definite_answers_are_used_again_while_young_enough() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, "ann", "bob"))
        bench.now += 50
        cached = await bench.probe(targets(FACT, "ann", "bob"), max_age=100)
        assert len(mailer.seen) == 1
        bench.now += 100
        stale = await bench.probe(targets(FACT, "ann", "bob"), max_age=100)
        fresh = await bench.probe(targets(FACT, "ann", "bob"), max_age=0)
    assert len(mailer.seen) == 3
    assert all(fact.cached for fact in cached.mailboxes.values())
    assert not any(fact.cached for fact in (*stale.mailboxes.values(), *fresh.mailboxes.values()))

    def same(fact: MailboxFact) -> tuple[object, ...]:
        return fact.answer, fact.text, fact.rule, fact.host, fact.smtp_code

    assert list(map(same, cached.mailboxes.values())) == list(map(same, first.mailboxes.values()))
    assert cached.mailboxes["ann@a.test"].asked_at == 1_000_000
    assert cached.catch_alls["a.test"].catch_all is Known.NO


async def test_what_another_provider_said_of_a_domain_that_has_moved_is_asked_anew() -> None:
    moved = routed("a.test", ("mx.new.test", ("127.0.0.1",)), provider="new")
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "ann", "bob"))
        mailer.rcpt = stamped
        denied = await bench.probe(targets(moved, "ann", "bob", "eve"), max_age=86_400)
        mailer.rcpt = knows("bob")
        back = await bench.probe(targets(moved, "bob"), max_age=86_400)
    assert {fact.blanket for fact in denied.mailboxes.values()} == {True}
    assert answers(back) == {Answer.ACCEPTED}


async def test_no_address_is_readable_in_the_cache_keys() -> None:
    async with mailing(Mailer(rcpt=knows("ann"))) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "ann"))
    (key,) = bench.cache.values[FactKind.MAILBOX]
    assert re.fullmatch("[0-9a-f]{40}", key)
    assert b"ann" not in b"".join(bench.cache.values[FactKind.MAILBOX].values())


async def test_rubbish_in_the_cache_is_as_good_as_nothing() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "ann"))
        for values in bench.cache.values.values():
            values.update(dict.fromkeys(values, b'{"answer": "accepted"}'))
        probed = await bench.probe(targets(FACT, "ann"), max_age=1000)
    assert answers(probed) == {Answer.ACCEPTED}
    assert len(mailer.seen) == 2


async def test_greylisting_sees_the_same_source_for_the_same_address() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    sources = ("127.0.0.11", "127.0.0.12", "127.0.0.13 as third.test")
    async with mailing(mailer) as port:
        bench = Bench(port, settings={"sources": sources})
        first = await bench.probe(targets(FACT, *MANY))
        second = await bench.probe(targets(FACT, *reversed(MANY)))
    used = {address: fact.source for address, fact in first.mailboxes.items()}
    assert used == {address: fact.source for address, fact in second.mailboxes.items()}
    assert set(used.values()) == {"127.0.0.11", "127.0.0.12", "127.0.0.13"}
    assert {line for session in mailer.seen for line in session if line.startswith("EHLO")} == {
        "EHLO probe.test",
        "EHLO third.test",
    }
    assert len(set(filter(is_random, mailer.recipients))) == 1


async def test_greylisting_sees_the_same_source_for_the_random_recipient_whatever_the_order() -> None:
    asked_by: set[str] = set()
    sources = tuple(f"127.0.0.1{n} as source{n}.test" for n in (1, 2, 3))
    for order in (MANY, MANY[::-1], MANY[3:] + MANY[:3]):
        mailer = Mailer(rcpt=knows(*MANY))
        async with mailing(mailer) as port:
            await Bench(port, settings={"sources": sources}).probe(targets(FACT, *order))
        asked_by |= {hello for hello, _, first, *_ in mailer.seen if is_random(first[9:-1])}
    assert asked_by == {"EHLO source1.test"}


UNKNOWN_FOR_NOW = (
    "450 4.1.1 <{address}>: Recipient address rejected: User unknown in virtual mailbox table",
    "450 4.1.1 <{address}>: Recipient rejected: unverified address: host b said: 550 5.1.1 Unknown user",
)


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("reply", UNKNOWN_FOR_NOW)
async def test_a_temporary_unknown_user_silences_nobody_else(reply: str, count: int) -> None:
    mailer = Mailer(rcpt=knows(*MANY[1:], otherwise=reply))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *MANY[:count]))
    assert {who for who, fact in probed.mailboxes.items() if fact.answer is Answer.ACCEPTED} == {
        f"{name}@a.test" for name in MANY[1:count]
    }
    assert probed.catch_alls["a.test"].catch_all is Known.UNKNOWN  # so they are not deliverable
    assert probed.waits == {"user0@a.test": Wait(WaitReason.DEFERRED, 0.0)}


@pytest.mark.parametrize("reply", ["451 4.3.0 Temporary lookup failure", "450 4.7.1 Rate limit exceeded"])
async def test_on_the_last_try_real_mailboxes_are_asked_whatever_the_random_one_got(reply: str) -> None:
    mailer = Mailer(rcpt=to_random(reply))
    async with mailing(mailer) as port:
        bench = Bench(port)
        early = await bench.probe(targets(FACT, *MANY))
        last = await bench.probe([replace(target, last_try=True) for target in targets(FACT, *MANY)])
    assert Answer.ACCEPTED not in answers(early)
    assert answers(last) == {Answer.ACCEPTED}
    assert last.catch_alls["a.test"].catch_all is Known.UNKNOWN


async def test_what_is_known_of_random_recipients_is_no_older_than_asked_for() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "ann"))
        mailer.rcpt = lambda _: "250 ok"
        bench.now += 50
        strict = await bench.probe(targets(FACT, "bob"), max_age=0)
        bench.now += 50
        mailer.rcpt = knows("bob")
        lax = await bench.probe(targets(FACT, "bob"), max_age=100)
        back = await bench.probe(targets(FACT, "bob"), max_age=40)
    assert answers(strict) == answers(lax) == {Answer.NOT_ASKED}
    assert strict.catch_alls["a.test"].catch_all is lax.catch_alls["a.test"].catch_all is Known.YES
    assert (answers(back), back.catch_alls["a.test"].catch_all) == ({Answer.ACCEPTED}, Known.NO)


@pytest.mark.parametrize("count", [1, 4, 10])
async def test_where_everybody_is_accepted_a_random_recipient_is_asked_again(count: int) -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "ann"))
        mailer.rcpt = lambda _: "250 ok"
        turned = await bench.probe(targets(FACT, *MANY[:count]), max_age=86_400)
        mailer.rcpt = knows("ann")
        bench.cache.values[FactKind.CATCH_ALL].clear()
        await bench.probe(targets(FACT, "ann"))
        asked = len(mailer.recipients)
        same = await bench.probe(targets(FACT, "bob"), max_age=86_400)
    assert turned.catch_alls["a.test"].catch_all is Known.YES
    assert answers(turned) == {Answer.NOT_ASKED}
    assert answers(same) == {Answer.NOT_FOUND}
    assert mailer.recipients[asked:] == ["bob@a.test", "ann@a.test"]  # refused, as ann is not: no catch-all


@pytest.mark.parametrize(("people", "after"), [(20, 6), (12, 7), (60, 10), (120, 61)])
async def test_a_server_that_takes_anybody_after_many_unknown_ones_makes_nobody_deliverable(
    people: int, after: int
) -> None:
    """A defence against harvesting that hides by saying yes: in this session, or from a later one on."""
    refused = 0

    def say(_address: str) -> str:
        nonlocal refused
        refused += 1
        return NOT_FOUND if refused <= after else "250 ok"

    async with mailing(Mailer(rcpt=say)) as port:
        probed = await Bench(port).probe(targets(FACT, *(f"ghost{n}" for n in range(people))))
    assert probed.catch_alls["a.test"].catch_all is Known.YES


async def test_who_accepts_many_after_refusing_many_is_asked_once_more_and_believed() -> None:
    there = [f"user{n}" for n in range(10)]
    mailer = Mailer(rcpt=knows(*there))
    async with mailing(mailer) as port:
        probed = await Bench(port).probe(targets(FACT, *(f"ghost{n}" for n in range(10)), *there))
    assert probed.catch_alls["a.test"].catch_all is Known.NO
    assert [probed.mailboxes[f"{who}@a.test"].answer for who in there] == [Answer.ACCEPTED] * 10
    assert len(list(filter(is_random, mailer.recipients))) == 2


@pytest.mark.parametrize("refusal", [stamped("x"), "550 5.2.1 This account is disabled"])
@pytest.mark.parametrize("reply", ["451 4.3.0 Temporary lookup failure", "450 4.2.0 Greylisted"])
async def test_a_refusal_that_may_be_everybodys_waits_while_the_random_recipient_is_put_off(
    reply: str, refusal: str
) -> None:
    vague = to_random(reply, otherwise=refusal)
    mailer = Mailer(rcpt=vague)
    last_try = [replace(target, last_try=True) for target in targets(FACT, "ann", *MANY)]
    async with mailing(mailer) as port:
        bench = Bench(port)
        first = await bench.probe(targets(FACT, "ann"))
        last = await bench.probe(last_try)
        mailer.rcpt = lambda address: "250 ok" if address.startswith("ann@") else vague(address)
        accepted = await bench.probe(last_try)
    assert list(first.waits) == ["ann@a.test"]
    assert all(fact.blanket for fact in (*first.mailboxes.values(), *last.mailboxes.values()))
    assert not any(fact.blanket for fact in accepted.mailboxes.values())


async def test_a_blanket_refusal_stays_one_where_everybody_is_accepted_later() -> None:
    asked = 0

    def say(address: str) -> str:
        nonlocal asked
        asked += 1
        return stamped(address) if asked <= 30 else "250 ok"

    async with mailing(Mailer(rcpt=say)) as port:
        bench = Bench(port, providers=providers(recipients=10, sessions=1))
        probed = await bench.probe(targets(FACT, *(f"user{n}" for n in range(60))))
    assert probed.catch_alls["a.test"].catch_all is Known.YES
    refused = [fact for fact in probed.mailboxes.values() if fact.answer is Answer.NOT_FOUND]
    assert refused
    assert all(fact.blanket for fact in refused)


async def test_a_domain_that_takes_anybody_by_now_is_seen_beside_a_mailbox_that_cannot_be_asked_for() -> None:
    mailer = Mailer(rcpt=knows(), offers=("PIPELINING",))
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "gone"))
        mailer.rcpt = lambda _: "250 ok"
        probed = await bench.probe(targets(FACT, "nobody", "jürgen"), max_age=86_400)
    assert probed.catch_alls["a.test"].catch_all is Known.YES


async def test_a_domain_that_takes_anybody_by_now_is_seen_beside_a_mailbox_that_is_put_off() -> None:
    mailer = Mailer(rcpt=knows())
    async with mailing(mailer) as port:
        bench = Bench(port)
        await bench.probe(targets(FACT, "gone"))
        mailer.rcpt = lambda who: "450 4.2.1 busy" if who.startswith("busy") else "250 ok"
        probed = await bench.probe(targets(FACT, "nobody", "busy"), max_age=86_400)
    assert probed.catch_alls["a.test"].catch_all is Known.YES
