"""When refusals are doubted: a jump above a good past, within one list, and never because a list is bad."""

from __future__ import annotations

import pickle
import random
from itertools import takewhile

import pytest
from structlog.testing import capture_logs

from mailsift.pipeline.facts import Answer, MailboxFact
from mailsift.pipeline.probe.breaker import BASELINE, Breaker, RefusalGauge, RefusalJump, RefusalWatch

DOMAIN = "big.test"


def gauge_after(answers: str, *, domain: str = DOMAIN) -> RefusalGauge:
    """A gauge that has heard these answers: `+` accepted, `-` refused."""
    gauge = RefusalGauge()
    for sign in answers:
        gauge.count(domain, refused=sign == "-")
    return gauge


def doubted(answers: str, *, domain: str = DOMAIN) -> list[int]:
    """The numbers, from 1 on, of the refusals that are doubted in the end."""
    gauge = gauge_after(answers, domain=domain)
    return [n for n, sign in enumerate(answers, 1) if sign == "-" and gauge.doubts(n)]


GOOD = "+++-" * 60  # a quarter is missing, as in most lists


def test_a_jump_is_told_once_with_what_it_rests_on() -> None:
    gauge = gauge_after(GOOD)
    jumps = [gauge.count(DOMAIN, refused=True) for _ in range(100)]
    (jump,) = [jump for jump in jumps if jump]
    assert jump == RefusalJump(answers=50, refused=45, answers_before=233, refused_before=58)
    assert jumps.index(jump) < 50


def test_refusals_since_the_jump_are_doubted_and_those_before_stand() -> None:
    numbers = doubted(GOOD + "-" * 100)
    assert set(range(len(GOOD) + 1, len(GOOD) + 101)) <= set(numbers)
    assert min(numbers) > len(GOOD) - 20


@pytest.mark.parametrize(
    "answers",
    [
        "-" * 1000,  # bad from the start
        "+-" * 24 + "-" * 500,  # a good start that is too short to mean anything
        "+---" * 500,  # a poor list stays a poor list
        "---+" * 80 + "-" * 200,  # it gets worse, but was not good before
        GOOD + "-" * 20 + GOOD,  # twenty in a row happen
        "+" * 300 + "+----" * 40,  # four of five is not nine of ten
        GOOD * 20,
    ],
)
def test_what_is_no_jump_is_believed(answers: str) -> None:
    assert doubted(answers) == []


def test_a_past_of_two_hundred_answers_is_enough_and_one_less_is_not() -> None:
    assert doubted("+" * (BASELINE + 5) + "-" * 45) != []  # 45 of the recent 50
    assert doubted("+" * (BASELINE + 4) + "-" * 45) == []


def test_the_doubt_ends_when_the_provider_is_itself_again() -> None:
    bad, after = "-" * 80, "+++-" * 40
    numbers = doubted(GOOD + bad + after)
    assert set(range(len(GOOD) + 1, len(GOOD) + 81)) <= set(numbers)
    assert max(numbers) <= len(GOOD) + 80 + 40
    assert doubted(GOOD + bad + after + GOOD + "-" * 60)[-1] == len(GOOD + bad + after + GOOD) + 60


def test_a_second_doubt_makes_nobody_of_the_first_one_believed() -> None:
    jumped = GOOD + "-" * 80
    again = jumped + GOOD + "-" * 80
    assert {number for number in doubted(again) if number <= len(jumped)} == set(doubted(jumped))
    assert set(range(len(jumped + GOOD) + 1, len(again) + 1)) <= set(doubted(again))


def test_half_refused_is_a_good_past_and_the_oldest_of_the_recent_is_doubted_too() -> None:
    assert doubted("-+" * 150 + "-" * 60) == [291, 293, 295, 297, 299, *range(301, 361)]


def test_the_doubt_ends_when_half_of_the_recent_are_accepted_and_what_follows_is_counted_anew() -> None:
    jumped = GOOD + "-" * 80
    assert doubted(jumped + "+" * 24 + "-")[-1] == len(jumped) + 25
    assert doubted(jumped + "+" * 25 + "-")[-1] == len(jumped)
    assert doubted(jumped + "+" * 25 + "-" + "+" * 6 + "-" * 43)[-1] == len(jumped)  # 44 of the next 50
    assert doubted(jumped + "+" * 25 + "-" + "+" * 5 + "-" * 44)[-1] == len(jumped) + 75


@pytest.mark.parametrize(("companies", "jumps"), [(8, 0), (9, 1)])
def test_dead_companies_count_a_little_each(companies: int, jumps: int) -> None:
    gauge = gauge_after(GOOD + "+" * 10)  # what came before is no part of the recent fifty
    refusals = [gauge.count(f"dead{n}.test", refused=True) for n in range(companies) for _ in range(50)]
    assert len([jump for jump in refusals if jump]) == jumps


def test_a_dead_company_is_no_news_about_its_host() -> None:
    gauge = gauge_after(GOOD)
    assert not any(gauge.count("dead.test", refused=True) for _ in range(500))
    assert not gauge.doubts(len(GOOD) + 400)


def test_refusals_at_many_domains_of_one_host_are() -> None:
    gauge = gauge_after(GOOD)
    assert any(gauge.count(f"customer{n // 4}.test", refused=True) for n in range(80))


def test_chance_alone_makes_no_jump() -> None:
    dice = random.Random(1)
    for share in (0.1, 0.3, 0.5):
        answers = "".join("-" if dice.random() < share else "+" for _ in range(30_000))
        assert doubted(answers) == []


def test_memory_is_bounded_whatever_comes() -> None:
    breaker = Breaker()
    first, used = breaker.gauge("list", "p0.test", ""), breaker.gauge("list", "in use", "")
    gauges = {}
    for n in range(3_000):
        gauges[n] = breaker.gauge("list", f"p{n}.test", "")
        assert breaker.gauge("list", "in use", "") is used
    kept = takewhile(lambda n: breaker.gauge("list", f"p{n}.test", "") is gauges[n], reversed(gauges))
    assert len([*kept]) == 2_048 - 1  # and the one in use
    assert breaker.gauge("list", "p0.test", "") is not first


def test_a_gauge_stays_small_and_forgets_what_was_long_ago() -> None:
    gauge = RefusalGauge()
    for n in range(20_000):
        gauge.count(f"d{n}.test", refused=n % 4 == 0)
    assert len(pickle.dumps(gauge)) < 2 * 2_000 * 25  # two thousand domains that accepted, and that did not
    jumps = (gauge.count("d19999.test", refused=True) for _ in range(100))
    assert next(jump.answers_before for jump in jumps if jump) <= 2_000


def hear(watch: RefusalWatch, count: int, answer: Answer, **more: object) -> None:
    fact = MailboxFact(answer, **more)  # type: ignore[arg-type]  # whatever the test wants to say
    for n in range(count):
        watch.count("host.test", f"{answer}{n}@{DOMAIN}", fact)


def test_a_watch_names_the_doubted_addresses_and_the_log_names_none() -> None:
    breaker = Breaker()
    earlier, now = RefusalWatch(breaker, "list"), RefusalWatch(breaker, "list")
    hear(earlier, 250, Answer.ACCEPTED)
    with capture_logs() as logs:
        hear(now, 30, Answer.NOT_FOUND)
        hear(now, 20, Answer.UNCLEAR)
        hear(now, 20, Answer.DISABLED)
    assert len(now.doubted()) == 70
    assert earlier.doubted() == []
    (event,) = logs
    assert (event["event"], event["log_level"], event["provider"]) == (
        "refusals.jumped",
        "warning",
        "host.test",
    )
    assert (event["refused"], event["answers"], event["refused_before"]) == (45, 50, 0)
    assert "@" not in str(event)


def test_lists_and_sources_do_not_count_together() -> None:
    breaker = Breaker()
    hear(RefusalWatch(breaker, "a good list"), 300, Answer.ACCEPTED)
    bad = RefusalWatch(breaker, "a bad list")
    hear(bad, 300, Answer.NOT_FOUND)
    elsewhere = RefusalWatch(breaker, "a good list")
    hear(elsewhere, 300, Answer.NOT_FOUND, source="192.0.2.9")
    assert bad.doubted() == elsewhere.doubted() == []


@pytest.mark.parametrize("answer", [Answer.REFUSED_US, Answer.GREYLISTED, Answer.TEMPORARY, Answer.NOT_ASKED])
def test_what_says_nothing_about_a_mailbox_does_not_count(answer: Answer) -> None:
    breaker = Breaker()
    hear(RefusalWatch(breaker, ""), 300, Answer.ACCEPTED)
    watch = RefusalWatch(breaker, "")
    hear(watch, 300, answer)
    hear(watch, 300, Answer.NOT_FOUND, blanket=True)
    assert breaker.gauge("", "host.test", "").answers == 300


def test_what_was_long_ago_counts_half() -> None:
    gauge = gauge_after("+++-" * 512 + "+" * 4)  # the past holds two thousand, then more
    (jump,) = [jump for jump in (gauge.count(DOMAIN, refused=True) for _ in range(60)) if jump]
    assert 1_000 <= jump.answers_before <= 1_060
    assert jump.refused_before * 4 == pytest.approx(jump.answers_before, rel=0.02)
