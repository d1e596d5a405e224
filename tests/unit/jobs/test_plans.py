"""What a list will take before it is started: by provider, and honest about what nobody knows."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import pytest

from mailsift.jobs.eta import MIXED_LINE, TRIAGE_LINE, time_left
from mailsift.jobs.forecasts import QueuePicture
from mailsift.jobs.plans import (
    UNKNOWN_LINE,
    DomainCounts,
    ProbeCounts,
    count_probes,
    load_of_list,
    look_rate,
    merge_small,
    sampled,
    share_out_unknown,
    take_off_known,
)
from mailsift.jobs.rates import ProviderRates
from mailsift.pipeline.facts import DomainFact, DomainState, Mode
from mailsift.pipeline.providers import Providers
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.stats import QueueRow, Queues

PROVIDERS = Providers()
ACCOUNT = uuid4()


def picture(*rows: QueueRow, slots: int = 4, owed_s: float = 0.0) -> QueuePicture:
    learned = [LearnedRate("google", "", owed_s=owed_s)]
    return QueuePicture(Queues(rows, slots=slots), ProviderRates(PROVIDERS, ("",), (), learned, now=0.0), 0.0)


def test_small_hosts_count_together_and_who_tells_nothing_is_not_asked() -> None:
    found = merge_small({"google": 60, "a.example": 9, "b.example": 8, "yahoo": 500, "": 3}, PROVIDERS)
    assert found == {"google": 60, MIXED_LINE: 17, UNKNOWN_LINE: 3}
    assert list(found) == ["google", MIXED_LINE, UNKNOWN_LINE]


def test_a_list_takes_what_its_largest_provider_does_after_its_burst() -> None:
    left = time_left(load_of_list(1_000, {"google": 450}, picture(), Mode.DEEP, {}, account_id=ACCOUNT))
    assert left.seconds == pytest.approx(200.8)  # 50 at once, 400 at 2/s, 0.1 s lost a turn
    assert [line.key for line in left.lines] == ["google", TRIAGE_LINE]


def test_what_others_wait_for_there_is_in_line_and_has_used_the_burst() -> None:
    other = QueueRow(uuid4(), uuid4(), "google", small=False, addresses=100, ready_s=0.0)
    left = time_left(
        load_of_list(1_000, {"google": 450}, picture(other, owed_s=25.0), Mode.DEEP, {}, account_id=ACCOUNT)
    )
    assert left.seconds == pytest.approx(276.1)


def routed(domain: str, provider: str) -> DomainFact:
    return DomainFact(domain, DomainState.ROUTED, provider=provider)


def test_each_domain_of_a_list_is_asked_for_a_random_recipient_too() -> None:
    load = load_of_list(1_000, {"google": 450}, picture(), Mode.DEEP, {"google": 400}, account_id=ACCOUNT)
    assert time_left(load).seconds == pytest.approx(401.6)  # 850, 50 of them at once


def test_the_unknown_are_expected_where_domains_were_found_that_were_looked_up() -> None:
    domains = {"gmail.com": 500, "a.example": 30, "b.example": 10, "gone.example": 10, "new.example": 40}
    facts = {
        "gmail.com": routed("gmail.com", "google"),
        "a.example": routed("a.example", "microsoft365"),
        "b.example": routed("b.example", "google"),
        "gone.example": DomainFact("gone.example", DomainState.NOT_FOUND),
    }
    every, looked_up = count_probes(DomainCounts(690, domains, others=60, other_domains=59), facts)
    assert every.mailboxes == {"google": 510, "microsoft365": 30, UNKNOWN_LINE: 100}
    assert every.domains == {"google": 2, "microsoft365": 1, UNKNOWN_LINE: 60}
    expected = share_out_unknown(every, looked_up)  # of whom gmail.com says nothing, and a fifth has nobody
    assert +expected.mailboxes == {"google": 530, "microsoft365": 90}
    assert +expected.domains == {"google": 22, "microsoft365": 21}
    assert share_out_unknown(every, ProbeCounts()) == every


def test_of_many_small_hosts_others_are_expected() -> None:
    domains = {f"d{n}.example": 1 for n in range(400)}
    facts = {domain: routed(domain, domain) for domain in domains}
    every, looked_up = count_probes(DomainCounts(500, domains, others=100, other_domains=100), facts)
    assert share_out_unknown(every, looked_up).mailboxes[MIXED_LINE] == 100


def test_free_mail_that_nobody_has_looked_up_is_known_by_its_name() -> None:
    every, looked_up = count_probes(DomainCounts(50, {"gmail.com": 50}, others=0), {})
    assert (+every.mailboxes, looked_up.mailboxes.total()) == (Counter(google=50), 0)


def test_what_is_still_remembered_is_not_asked_again() -> None:
    to_ask = ProbeCounts(
        Counter({"google": 400, "a.example": 20, "b.example": 20, UNKNOWN_LINE: 60}),
        Counter({"google": 40, UNKNOWN_LINE: 30}),
    )
    sample = dict.fromkeys("abcd", "google") | {"e": "a.example", "f": "b.example"}
    found = take_off_known(to_ask, sample, known={"a", "b", "c", "e"})
    assert found.mailboxes == {"google": 100, "a.example": 10, "b.example": 10, UNKNOWN_LINE: 20}
    assert found.domains == {"google": 10, UNKNOWN_LINE: 10}
    assert take_off_known(to_ask, {}, known=set()) == to_ask
    other = take_off_known(to_ask, dict.fromkeys("ab", "google"), known={"a"})
    assert other.mailboxes == {"google": 200, "a.example": 10, "b.example": 10, UNKNOWN_LINE: 30}


def test_the_unknown_go_with_the_small_hosts() -> None:
    left = time_left(
        load_of_list(
            2_000, {MIXED_LINE: 1_000, UNKNOWN_LINE: 200}, picture(), Mode.DEEP, {}, account_id=ACCOUNT
        )
    )
    assert (left.lines[0].key, left.lines[0].addresses) == (MIXED_LINE, 1_200)
    assert left.seconds == 10.0  # 30/s for each of four slots


def test_without_mail_servers_only_the_look_itself_takes_time() -> None:
    left = time_left(load_of_list(8_000, {}, picture(), Mode.MEDIUM, {}, account_id=ACCOUNT))
    assert (left.seconds, [line.key for line in left.lines]) == (2.0, [TRIAGE_LINE])


def test_where_only_dns_is_asked_a_list_takes_as_long_as_its_domains() -> None:
    few = DomainCounts(1_000_000, {f"d{n}.example": 100 for n in range(5_000)}, 500_000, other_domains=35_000)
    assert few.addresses / look_rate(few, Mode.MEDIUM) == pytest.approx(10.0 + 10 / 3)
    apart = DomainCounts(40_000, {}, 40_000, other_domains=40_000)
    assert apart.addresses / look_rate(apart, Mode.MEDIUM) == pytest.approx(10.0 + 0.4 / 3)


def test_a_sample_has_every_domain_by_its_weight_and_is_as_large_as_was_said() -> None:
    domains = {"large.example": 500} | {f"d{n}.example": 1 for n in range(300)}
    found = sampled(DomainCounts(1_000, domains, others=200), 100)
    assert (found.addresses, found.domains["large.example"], found.others) == (100, 50, 20)
    assert sum(found.domains.values()) == 80
    assert set(found.domains.values()) == {0, 1, 50}
    whole = DomainCounts(40, {"a.example": 30}, others=10)
    assert sampled(whole, 40) == whole
