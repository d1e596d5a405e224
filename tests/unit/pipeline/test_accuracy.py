"""What became of verdicts, how sure shares are, and what chances are worth."""

from __future__ import annotations

import random

import pytest

from mailsift.pipeline.outcomes.chances import (
    FEWEST,
    Cell,
    Chances,
    SentTally,
    calibrate,
    expected_bounces,
    share_of,
)
from mailsift.pipeline.outcomes.outcome import (
    ACCEPTED,
    DAY_SECONDS,
    Fate,
    Outcome,
    OutcomeKind,
    diagnose,
    fates,
)

_GONE, _BLOCKED = "550 5.1.1 User unknown", "550 5.7.1 Message blocked by policy"
_LATER, _HELD = "451 4.3.0 try again later", "Not delivering to previously bounced address"


def outcome(day: float, kind: str, text: str = "") -> Outcome:
    diagnosis = diagnose(text) if text else ACCEPTED
    return Outcome("", OutcomeKind(kind), day * DAY_SECONDS, diagnosis, "file")


@pytest.mark.parametrize(
    ("judged", "what", "expected"),
    [
        ([0], [(1, "delivered")], [Fate.DELIVERED]),
        ([0], [(1, "bounced", _GONE)], [Fate.GONE]),
        ([0], [(1, "bounced", _BLOCKED)], [Fate.REFUSED]),
        ([0], [(1, "complained")], [Fate.DELIVERED]),
        ([0], [(1, "delivered"), (4, "bounced", _GONE)], [Fate.GONE]),  # late
        ([0], [(1, "bounced", _BLOCKED), (2, "delivered")], [Fate.DELIVERED]),  # tried again
        ([0], [(1, "delivered"), (30, "bounced", _GONE)], [Fate.DELIVERED]),  # another message
        ([0], [(1, "delivered"), (0.999, "bounced", _GONE)], [Fate.GONE]),  # another clock
        ([0], [(1, "bounced", _LATER)], [None]),
        ([0], [(1, "deferred", _LATER), (1, "delivered")], [Fate.DELIVERED]),
        ([0], [(1, "bounced", _HELD)], [None]),  # never sent
        ([2], [(1, "delivered")], [None]),  # the verdict is newer
        ([0], [(91, "delivered")], [None]),  # too old
        ([0, 10], [(1, "delivered"), (11, "bounced", _GONE)], [Fate.DELIVERED, Fate.GONE]),
        ([0, 3], [(1, "delivered"), (4, "bounced", _GONE)], [Fate.GONE, None]),  # one message
        ([2], [(1.999, "bounced", _GONE)], [None]),  # minutes older than the verdict, whatever the clock
        ([0, 2], [(1.999, "bounced", _GONE)], [Fate.GONE, None]),  # the newest verdict before it answers
        ([0], [(89.999, "bounced", _GONE)], [Fate.GONE]),
        ([0], [], [None]),
    ],
)
def test_the_first_message_after_a_verdict_decides(
    judged: list[float], what: list[tuple[float, str, str]], expected: list[Fate | None]
) -> None:
    outcomes = [outcome(*one) for one in what]
    assert fates([day * DAY_SECONDS for day in judged], reversed(outcomes)) == expected


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [  # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(count: int, n: int, low: float, high: float) -> None:
    share = share_of(count, n)
    assert share is not None
    assert (round(share.low, 4), round(share.high, 4)) == (low, high)


GOOD, CATCH_ALL = Cell("valid", "deliverable", "google", 95), Cell("risky", "catch_all", "small.example", 55)


def test_few_outcomes_lean_on_the_wider_group_and_very_few_say_nothing() -> None:
    others = {CATCH_ALL: SentTally(1_000, 600)}
    assert Chances({}, {}).of(GOOD) is None
    assert Chances({GOOD: SentTally(FEWEST - 1, 90)}, {}).of(GOOD) is None
    few = Chances({CATCH_ALL: SentTally(10, 0)}, others).of(CATCH_ALL)
    many = Chances({CATCH_ALL: SentTally(1_000, 0)}, others).of(CATCH_ALL)
    unseen = Chances({}, others).of(CATCH_ALL._replace(provider="other.example"))
    assert few is not None
    assert many is not None
    assert unseen is not None
    assert 0.2 < few.value < 0.55
    assert many.value < 0.02
    assert 0.55 < unseen.value < 0.65
    assert few.low < few.value < few.high
    assert unseen.high - unseen.low > 2 * (many.high - many.low)


def test_chances_hold_for_addresses_that_they_do_not_rest_on() -> None:
    rng = random.Random(5)
    fit: dict[Cell, SentTally] = {}
    held: dict[Cell, SentTally] = {}
    for n in range(40):
        cell = Cell("risky", "catch_all", f"p{n}.example", 55)
        arrives = rng.betavariate(6, 4)
        for size, where in ((300, fit), (300, held)):
            where[cell] = SentTally(size, sum(rng.random() < arrives for _ in range(size)))
    found = calibrate(Chances(fit, {}), held)
    assert found is not None
    assert found.n == 12_000
    assert found.error < 0.03
    off = calibrate(Chances({cell: SentTally(one.sent, one.sent) for cell, one in fit.items()}, {}), held)
    assert off is not None
    assert off.error > 0.3


def test_a_list_whose_chances_are_unknown_gets_no_number() -> None:
    chances = Chances({GOOD: SentTally(1_000, 980)}, {})
    gone = Cell("invalid", "mailbox_not_found", "google", 5)
    found = expected_bounces(chances, [(GOOD, 1_000), (gone, 50)])
    assert found is not None
    assert found.low < found.expected < found.high
    assert 65 < found.expected < 75
    assert found.addresses == 1_050
    assert expected_bounces(chances, [(GOOD, 1_000), (CATCH_ALL, 500)]) is None
    assert expected_bounces(chances, []) is None


@pytest.mark.parametrize("own", [0, 1, 5, 30])
def test_the_interval_of_a_chance_holds_it_where_few_outcomes_are_known(own: int) -> None:
    rng, cases, held = random.Random(3), 300, 0

    def outcomes(arrives: float, n: int) -> SentTally:
        return SentTally(n, sum(rng.random() < arrives for _ in range(n)))

    for _ in range(cases):
        arrives = rng.betavariate(18, 2)
        others = {
            GOOD._replace(provider=f"p{n}.example"): outcomes(rng.betavariate(18, 2), 20) for n in range(6)
        }
        chance = Chances({GOOD: outcomes(arrives, own)}, others).of(GOOD)
        assert chance is not None
        held += chance.low <= arrives <= chance.high
    assert held / cases > 0.92


@pytest.mark.parametrize(("known", "sent"), [(200, 20), (1_000, 100), (2_000, 100)])
def test_in_nineteen_of_twenty_cases_as_many_come_back_as_was_said(known: int, sent: int) -> None:
    rng, cases, held = random.Random(7), 200, 0
    for _ in range(cases):
        arrives = rng.betavariate(97, 3)
        arrived, back = (
            sum(rng.random() < share for _ in range(n))
            for share, n in ((arrives, known), (1 - arrives, sent))
        )
        found = expected_bounces(Chances({GOOD: SentTally(known, arrived)}, {}), [(GOOD, sent)])
        assert found is not None
        held += round(found.low) <= back <= round(found.high)
    assert held / cases > 0.93


def test_what_is_certain_is_left_to_no_luck() -> None:
    gone = Cell("invalid", "mailbox_not_found", "google", 5)
    found = expected_bounces(Chances({}, {}), [(gone, 50)])
    assert found is not None
    assert (found.expected, found.low, found.high) == (50, 50, 50)
