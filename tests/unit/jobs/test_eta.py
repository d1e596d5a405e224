"""Time left: the slowest provider decides, with all sources, all jobs in line and every wait."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mailsift.jobs.eta import (
    MIXED_LINE,
    TRIAGE_LINE,
    Batch,
    JobLoad,
    ProviderBacklog,
    QueuedAhead,
    SourceRate,
    recipients_ahead,
    time_left,
)

TWO_A_SECOND = (SourceRate(2.0),)
HELD = SourceRate(2.0, math.inf, held=True)


def queue(
    addresses: float, *sources: SourceRate, key: str = "google", others: tuple[QueuedAhead, ...] = ()
) -> ProviderBacklog:
    return ProviderBacklog(key, sources or TWO_A_SECOND, (Batch(addresses),), others)


def seconds(*providers: ProviderBacklog, **load: object) -> float | None:
    return time_left(JobLoad(providers, **load)).seconds  # type: ignore[arg-type]


def test_nothing_that_waits_takes_no_time() -> None:
    assert time_left(JobLoad()).seconds == 0.0
    assert time_left(JobLoad()).reason == ""


def test_the_slowest_provider_decides_and_says_so() -> None:
    left = time_left(JobLoad((queue(100), queue(90, SourceRate(1.0), key="yahoo"))))
    assert left.seconds == 90.0
    assert [line.key for line in left.lines] == ["yahoo", "google"]
    assert left.reason == "yahoo: 90 addresses at 1/s"


def test_two_sources_share_what_waits() -> None:
    assert seconds(queue(100, SourceRate(2.0), SourceRate(2.0))) == 25.0


def test_the_faster_of_two_sources_takes_more_of_what_waits() -> None:
    left = time_left(JobLoad((queue(100, SourceRate(2.0), SourceRate(0.5)),)))
    assert (left.seconds, left.lines[0].rate) == (40.0, 2.5)


def test_a_source_that_opens_later_helps_from_then_on() -> None:
    assert seconds(queue(100, SourceRate(2.0), SourceRate(3.0, opens_s=30.0))) == 38.0
    assert seconds(queue(50, SourceRate(2.0), SourceRate(3.0, opens_s=30.0))) == 25.0


def test_two_jobs_in_line_take_turns() -> None:
    assert recipients_ahead(100, [QueuedAhead(1_000)]) == 100
    assert recipients_ahead(100, [QueuedAhead(30)]) == 30
    assert seconds(queue(100, others=(QueuedAhead(1_000),))) == 100.0
    left = time_left(JobLoad((queue(100, others=(QueuedAhead(30),)),)))
    assert left.seconds == 65.0
    assert left.reason == "google: 100 addresses at 2/s, 1 other job in line"


def test_a_small_job_never_waits_behind_ours() -> None:
    assert recipients_ahead(100, [QueuedAhead(1_000, first=True)]) == 1_000


def test_who_has_to_wait_takes_turns_with_what_is_left_of_ours_by_then() -> None:
    later = QueuedAhead(0.0, apart=True, later=(Batch(1_000, 400.0), Batch(1_000, 500.0)))
    assert seconds(queue(1_000, others=(later,))) == 600.0
    assert time_left(JobLoad((queue(100, others=(later,)),))).reason == "google: 100 addresses at 2/s"
    waiting = ProviderBacklog("google", TWO_A_SECOND, (Batch(100, 400.0),), (later,))
    assert seconds(waiting) == 500.0


def test_accounts_take_turns_whatever_their_jobs_are() -> None:
    assert recipients_ahead(100, [QueuedAhead(1_000, apart=True, jobs=9)]) == 100
    ours = [QueuedAhead(30, first=True), QueuedAhead(500)]
    assert recipients_ahead(100, [*ours, QueuedAhead(1_000, apart=True)]) == 130 + 230
    assert recipients_ahead(100, [*ours, QueuedAhead(40, apart=True)]) == 130 + 40


def test_at_its_deadline_a_job_waits_for_no_mail_server_any_more() -> None:
    held, slow = queue(100, HELD), queue(100, key="yahoo")
    small = {"mixed": (Batch(10, 600.0),), "mixed_rate": 10.0}
    assert seconds(held, slow, **small, deadline_s=30.0) == 31.5  # what is left gets its verdicts then
    assert seconds(slow, deadline_s=90.0) == 50.0
    late = {"triage": 1_000, "triage_rate": 10.0, "arriving": {"yahoo": Batch(100)}}
    assert seconds(slow, **late, deadline_s=-5.0) == 100.0  # what nobody has looked at is looked at
    assert seconds(slow, deadline_s=-5.0) == 1.5


def test_a_held_provider_has_no_end_and_says_why() -> None:
    left = time_left(JobLoad((queue(100, HELD), queue(50, key="yahoo"))))
    assert left.seconds is None
    assert left.reason == "google: 100 addresses, held by an operator"


def test_a_hold_or_a_penalty_with_an_end_puts_the_start_off() -> None:
    assert seconds(queue(100, SourceRate(2.0, opens_s=600.0))) == 650.0


def test_what_one_held_source_would_have_asked_the_other_asks() -> None:
    left = time_left(JobLoad((queue(100, SourceRate(2.0), HELD),)))
    assert (left.seconds, left.lines[0].rate) == (50.0, 2.0)


def test_greylisted_addresses_are_asked_in_their_time() -> None:
    greylisted = ProviderBacklog("google", TWO_A_SECOND, (Batch(100), Batch(20, ready_s=300.0)))
    left = time_left(JobLoad((greylisted,)))
    assert left.seconds == 310.0
    assert left.reason == "google: 120 addresses at 2/s, the last of them not before 5 min"
    soon = ProviderBacklog("google", TWO_A_SECOND, (Batch(20, ready_s=7.5),))
    assert time_left(JobLoad((soon,))).reason.endswith(", the last of them not before 8 s")
    busy = ProviderBacklog("google", TWO_A_SECOND, (Batch(1_000), Batch(20, ready_s=300.0)))
    assert time_left(JobLoad((busy,))).seconds == 510.0


def test_who_is_put_off_again_and_again_is_waited_for_to_the_end() -> None:
    again = Batch(20, ready_s=600.0, again_s=3_600.0)
    left = time_left(JobLoad((ProviderBacklog("google", TWO_A_SECOND, (Batch(100), again)),)))
    assert left.seconds == 4_210.0
    assert left.reason.endswith(", the last of them not before 10 min, 20 put off again and again")
    small = time_left(JobLoad(mixed=(Batch(100, 60.0), again), mixed_rate=10.0))
    assert small.seconds == 4_200.0
    assert small.reason.endswith(", 20 put off again and again")
    assert seconds(mixed=(again,), deadline_s=1_000.0) == pytest.approx(1_000.3)


def test_what_nobody_looked_at_will_wait_for_providers_too() -> None:
    load = JobLoad((queue(100),), triage=1_000, triage_rate=50.0, arriving={"google": Batch(500)})
    left = time_left(load)
    assert left.seconds == 300.0
    assert [(line.key, line.addresses) for line in left.lines] == [("google", 600), (TRIAGE_LINE, 1_000)]


def test_nothing_ends_before_everything_was_looked_at() -> None:
    assert seconds(queue(1), triage=1_000, triage_rate=10.0, arriving={"google": Batch(1)}) == 100.0
    assert seconds(triage=1_000, triage_rate=10.0) == 100.0


def test_many_small_providers_go_at_the_measured_rate() -> None:
    left = time_left(JobLoad(mixed=(Batch(100), Batch(10, 60.0)), mixed_rate=10.0))
    assert left.seconds == 60.0
    assert [line.key for line in left.lines] == [MIXED_LINE]


def test_what_waits_for_small_providers_has_its_waits_in_the_measured_rate() -> None:
    assert seconds(mixed=(Batch(100, 30.0),), mixed_rate=1.0) == 100.0
    assert seconds(mixed=(Batch(10, 30.0),), mixed_rate=1.0) == 30.0


def test_a_burst_that_nobody_used_is_for_nothing() -> None:
    assert seconds(queue(100, SourceRate(2.0, burst=50, credit=50))) == 25.0
    assert seconds(queue(100, SourceRate(2.0, burst=50, credit=50), others=(QueuedAhead(60),))) == 55.0
    assert seconds(queue(100, SourceRate(2.0, burst=50, credit=20), others=(QueuedAhead(60),))) == 70.0


def test_while_something_waits_its_provider_rests_for_a_burst() -> None:
    def left(addresses: float, ready_s: float) -> float | None:
        source = SourceRate(2.0, burst=50)
        return seconds(ProviderBacklog("google", [source], [Batch(addresses, ready_s)]))

    assert left(100, ready_s=20.0) == 50.0  # which the rate makes of it, however it is cut into turns
    assert left(100, ready_s=600.0) == 625.0
    assert left(40, ready_s=600.0) == 600.0


def test_a_rate_counts_the_random_recipient_of_each_domain_too() -> None:
    (line,) = time_left(JobLoad((ProviderBacklog("google", TWO_A_SECOND, (Batch(100, domains=80),)),))).lines
    assert (line.seconds, line.addresses) == (90.0, 100)
    arriving = {"google": Batch(100, domains=80)}
    assert seconds(queue(0), triage=100, triage_rate=100.0, arriving=arriving) == 90.0


def test_what_every_turn_loses_counts() -> None:
    assert seconds(queue(100, SourceRate(2.0, lost_s=0.05))) == pytest.approx(55.0)


def test_nobody_can_say_while_nobody_works() -> None:
    left = time_left(JobLoad((queue(100),), working=False))
    assert (left.seconds, left.lines[0].seconds) == (None, 50.0)
    assert time_left(JobLoad(working=False)).seconds == 0.0


@pytest.mark.parametrize("addresses", [1, 1_000_000])
def test_more_sources_never_take_longer(addresses: int) -> None:
    one, two = (seconds(queue(addresses, *[SourceRate(2.0)] * n)) for n in (1, 2))
    assert one is not None
    assert two == one / 2


def test_small_providers_wait_for_a_source_that_may_be_asked_from() -> None:
    load = JobLoad(mixed=(Batch(100),), mixed_rate=10.0, mixed_opens_s=600.0)
    assert time_left(load).seconds == 610.0
    left = time_left(JobLoad(mixed=(Batch(100),), mixed_rate=10.0, mixed_opens_s=math.inf))
    assert (left.seconds, left.reason) == (None, "many small providers: 100 addresses, held by an operator")
    assert time_left(JobLoad(mixed=(Batch(100),), mixed_opens_s=math.inf, deadline_s=30.0)).seconds == 31.5


def test_a_list_that_is_read_later_ends_later_and_waits_for_no_mail_server_beyond_its_deadline() -> None:
    load = JobLoad(triage=100, triage_rate=100.0, mixed=(Batch(100),), mixed_rate=10.0, starts_s=900.0)
    left = time_left(load)
    assert (left.seconds, left.lines[0].starts_s) == (910.0, 900.0)
    assert time_left(replace(load, deadline_s=300.0)).seconds == 901.5
