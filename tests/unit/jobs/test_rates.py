"""How fast providers may be asked: the table, the operators' edits and what was learned, together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mailsift.jobs.admin.console import (
    RatedBacklog,
    describe_trouble,
    domain_of,
    provider_key,
    rated_backlog,
    throttle_rows,
)
from mailsift.jobs.rates import ProviderRates
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.chunks import LEASE_EXPIRED, TAKEN_BACK, FailingChunk
from mailsift.storage.sql.stats import KeyBacklog
from mailsift.storage.sql.throttles import ANY_SOURCE, ThrottleEdit

PROVIDERS = Providers([Provider("google", rate=2.0, sessions=5)])
BACKLOG = KeyBacklog(
    "google", ready=100, waiting=50, leased=10, chunks=3, waits_for="", until=None, jobs=1, domains=0
)
CHUNK = FailingChunk(
    job_id=uuid4(),
    job_name="list",
    account="acme",
    n=1,
    state="ready",
    throttle_key="",
    attempt=3,
    addresses=10,
    last_error="",
    ready_at=datetime(2026, 11, 21, tzinfo=UTC),
    owner=None,
)


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def backlog(
    *edits: ThrottleEdit,
    learned: tuple[LearnedRate, ...] = (),
    sources: tuple[str, ...] = ("",),
    row: KeyBacklog = BACKLOG,
) -> RatedBacklog:
    return rated_backlog(row, ProviderRates(PROVIDERS, sources, edits, learned, now=NOW.timestamp()))


def test_a_backlog_takes_as_long_as_its_provider_allows() -> None:
    found = backlog()
    assert (found.rate, found.seconds, found.held) == (
        2.0,
        55.22,
        False,
    )  # 50 at once, 55 s, and 0.1 s lost a turn of 50


def test_every_source_adds_its_rate_as_it_was_learned() -> None:
    slowed = LearnedRate("google", "192.0.2.1", share=0.25)
    found = backlog(learned=(slowed,), sources=("192.0.2.1", "192.0.2.2"))
    assert found.rate == 2.5
    # What waits is shared as each comes along: one asks in 0.502 s, the other in 2 s and what its turns lose.
    assert found.seconds == pytest.approx((160 - 50 - 12) / (1 / 0.502 + 1 / (2 + 1.1 / 12)))


def test_a_hold_with_an_end_and_a_penalty_put_the_start_off() -> None:
    until = NOW + timedelta(seconds=600)
    found = backlog(ThrottleEdit("google", "", held=True, held_until=until))
    assert (found.rate, found.held) == (0, True)
    assert found.seconds == pytest.approx(655.22)
    assert backlog(learned=(LearnedRate("google", "", closed_s=30.0),)).seconds == pytest.approx(85.22)


def test_what_was_asked_a_moment_ago_is_still_to_be_paid_for() -> None:
    assert backlog(learned=(LearnedRate("google", "", owed_s=20.0),)).seconds == pytest.approx(75.3)
    assert backlog(learned=(LearnedRate("google", "", owed_s=25.0),)).seconds == pytest.approx(80.32)


def test_the_slowest_that_is_learned_is_one_a_minute() -> None:
    assert backlog(learned=(LearnedRate("google", "", share=1e-6),)).rate == 1 / 60


def test_what_was_learned_of_an_edited_rate_is_the_same_wherever_it_stands() -> None:
    slowed, edit = LearnedRate("google", "", share=1 / 120), ThrottleEdit("google", "", rate=0.5)
    (row,) = throttle_rows([slowed], [edit], {}, PROVIDERS)
    assert row.rate == backlog(edit, learned=(slowed,)).rate == 1 / 60


def test_a_held_source_adds_nothing_and_all_held_hold_the_provider() -> None:
    one = ThrottleEdit("google", "192.0.2.1", held=True)
    sources = ("192.0.2.1", "192.0.2.2")
    found = backlog(one, sources=sources)
    assert (found.rate, found.seconds, found.held) == (2.0, 55.22, False)  # the other asks its part as well
    found = backlog(ThrottleEdit("google", ANY_SOURCE, held=True), sources=sources)
    assert (found.rate, found.seconds, found.held) == (0, None, True)


def test_backlogs_of_nobody_in_particular_have_a_name_and_no_rate() -> None:
    found = [backlog(row=replace(BACKLOG, throttle_key=name)) for name in ("", "*", "~")]
    assert {(one.rate, one.seconds, one.held) for one in found} == {(None, None, False)}
    assert len({one.title for one in found}) == 3


def test_rows_show_what_the_table_says_what_was_edited_and_what_was_learned() -> None:
    learned = LearnedRate(
        "google", "", share=0.5, in_use=2, mix={SessionOutcome.CLEAN: 9, SessionOutcome.RATE: 1}
    )
    edit = ThrottleEdit("google", ANY_SOURCE, rate=3.0, edited_by="olga")
    (row,) = throttle_rows([learned], [edit], {"google": 7}, PROVIDERS)
    assert (row.base.rate, row.now.rate, row.rate) == (2.0, 3.0, 1.5)
    assert (row.highest_rate, row.most_sessions) == (4.0, 10)
    assert (row.state, row.waiting, row.edit) == ("slowed", 7, edit)


@pytest.mark.parametrize(
    ("learned", "held", "state"),
    [
        (LearnedRate("google", ""), False, "open"),
        (LearnedRate("google", "", closed_s=3.0, strikes=1), False, "closed"),
        (LearnedRate("google", "", closed_s=3.0, refuses=True), False, "refused"),
        (LearnedRate("google", "", closed_s=3.0, refuses=True), True, "held"),
    ],
)
def test_the_state_of_a_provider_is_one_word(learned: LearnedRate, held: bool, state: str) -> None:
    (row,) = throttle_rows([learned], [ThrottleEdit("google", "", held=held)], {}, PROVIDERS)
    assert row.state == state
    assert (row.rate > 0) == (state == "open")


def test_held_and_closed_providers_come_first_then_those_that_are_waited_for() -> None:
    learned = [
        LearnedRate("busy.example", "", mix={SessionOutcome.CLEAN: 99}),
        LearnedRate("closed.example", "", closed_s=5.0),
        LearnedRate("waited.example", ""),
        LearnedRate("held.example", ""),
    ]
    rows = throttle_rows(
        learned, [ThrottleEdit("held.example", "", held=True)], {"waited.example": 5}, PROVIDERS
    )
    found = [row.learned.provider.partition(".")[0] for row in rows]
    assert found == ["held", "closed", "waited", "busy"]


@pytest.mark.parametrize(
    ("chunk", "part"),
    [
        (replace(CHUNK, last_error=LEASE_EXPIRED), "died or hung"),
        (replace(CHUNK, last_error=TAKEN_BACK), "operator"),
        (replace(CHUNK, last_error="builtins.MemoryError"), "MemoryError"),
        (replace(CHUNK, state="done", attempt=5), "split in two"),
        (replace(CHUNK, state="done", attempt=5, addresses=1), "without asking"),
        (replace(CHUNK, state="done", attempt=4), "went well"),
        (replace(CHUNK, state="cancelled"), "cancelled"),
    ],
)
def test_what_happened_to_a_chunk_is_told(chunk: FailingChunk, part: str) -> None:
    assert part in describe_trouble(chunk)


@pytest.mark.parametrize(
    ("given", "domain"),
    [
        ("Example.COM", "example.com"),
        ("anna@bücher.example", "xn--bcher-kva.example"),
        (" a.example. ", "a.example"),
    ],
)
def test_a_domain_is_read_as_the_pipeline_writes_it(given: str, domain: str) -> None:
    assert domain_of(given) == domain


@pytest.mark.parametrize("given", ["", "no domain", "a..b", "@", "x" * 300, "a b@c", "local"])
def test_what_is_no_domain_is_refused(given: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        domain_of(given)
    assert refused.value.code == "bad_domain"


def test_a_provider_is_a_key_or_a_domain() -> None:
    assert provider_key(" Google ") == "google"
    assert provider_key("mx.Example.net.") == "mx.example.net"
    for given in ("", "a:b", "a b", "x" * 254, "a\x00b"):
        with pytest.raises(MailsiftError):
            provider_key(given)
