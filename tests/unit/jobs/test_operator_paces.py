"""How fast providers may be asked: the table, the operators' edits and what was learned, together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jobs.operations.console import domain_of, provider_key
from jobs.operations.looks import MAX_ATTEMPTS, fate_of
from jobs.operations.paces import Paces, throttle_rows
from jobs.work import WorkPlan
from pipeline.errors import MailsiftError
from pipeline.ports import Outcome
from pipeline.provider_table import Provider
from pipeline.providers import Providers
from storage.backlog_rows import LaneRow
from storage.lease_rows import LEASE_EXPIRED, TAKEN_BACK, TroubledChunk
from storage.throttle_edits import ANY_SOURCE, Edit
from storage.throttle_view import Learned

PROVIDERS = Providers([Provider("google", rate=2.0, sessions=5)])
LANE = LaneRow("google", ready=100, waiting=50, leased=10, chunks=3, waits_for="", until=None, jobs=1)
CHUNK = TroubledChunk(
    job_id=uuid4(),
    job_name="list",
    account="acme",
    n=1,
    state="ready",
    lane="",
    attempt=3,
    addresses=10,
    last_error="",
    ready_at=datetime(2026, 11, 21, tzinfo=UTC),
    owner=None,
)


def paces(*edits: Edit, learned: tuple[Learned, ...] = (), sources: tuple[str, ...] = ("",)) -> Paces:
    return Paces(PROVIDERS, sources, edits, learned)


def test_a_lane_takes_as_long_as_its_provider_allows() -> None:
    lane = paces().lane(LANE)
    assert (lane.rate, lane.seconds, lane.held) == (2.0, 80.0, False)


def test_every_source_adds_its_rate_as_it_was_learned() -> None:
    slowed = Learned("google", "192.0.2.1", share=0.25)
    lane = paces(learned=(slowed,), sources=("192.0.2.1", "192.0.2.2")).lane(LANE)
    assert lane.rate == 2.5


def test_a_held_source_adds_nothing_and_all_held_hold_the_lane() -> None:
    one = Edit("google", "192.0.2.1", held=True)
    sources = ("192.0.2.1", "192.0.2.2")
    lane = paces(one, sources=sources).lane(LANE)
    assert (lane.rate, lane.held) == (2.0, False)
    lane = paces(Edit("google", ANY_SOURCE, held=True), sources=sources).lane(LANE)
    assert (lane.rate, lane.seconds, lane.held) == (0, None, True)


def test_lanes_of_nobody_in_particular_have_a_name_and_no_rate() -> None:
    found = [paces().lane(replace(LANE, lane=name)) for name in ("", "*", "~")]
    assert {(lane.rate, lane.seconds, lane.held) for lane in found} == {(None, None, False)}
    assert len({lane.title for lane in found}) == 3


def test_rows_show_what_the_table_says_what_was_edited_and_what_was_learned() -> None:
    learned = Learned("google", "", share=0.5, in_use=2, mix={Outcome.CLEAN: 9, Outcome.RATE: 1})
    edit = Edit("google", ANY_SOURCE, rate=3.0, edited_by="olga")
    (row,) = throttle_rows([learned], [edit], {"google": 7}, PROVIDERS)
    assert (row.base.rate, row.now.rate, row.rate) == (2.0, 3.0, 1.5)
    assert (row.highest_rate, row.most_sessions) == (4.0, 10)
    assert (row.state, row.waiting, row.edit) == ("slowed", 7, edit)


@pytest.mark.parametrize(
    ("learned", "held", "state"),
    [
        (Learned("google", ""), False, "open"),
        (Learned("google", "", closed_s=3.0, strikes=1), False, "closed"),
        (Learned("google", "", closed_s=3.0, refuses=True), False, "refused"),
        (Learned("google", "", closed_s=3.0, refuses=True), True, "held"),
    ],
)
def test_the_state_of_a_provider_is_one_word(learned: Learned, held: bool, state: str) -> None:
    (row,) = throttle_rows([learned], [Edit("google", "", held=held)], {}, PROVIDERS)
    assert row.state == state
    assert (row.rate > 0) == (state == "open")


def test_held_and_closed_providers_come_first_then_those_that_are_waited_for() -> None:
    learned = [
        Learned("busy.example", "", mix={Outcome.CLEAN: 99}),
        Learned("closed.example", "", closed_s=5.0),
        Learned("waited.example", ""),
        Learned("held.example", ""),
    ]
    rows = throttle_rows(learned, [Edit("held.example", "", held=True)], {"waited.example": 5}, PROVIDERS)
    found = [row.learned.provider.partition(".")[0] for row in rows]
    assert found == ["held", "closed", "waited", "busy"]


def test_attempts_are_counted_as_the_work_counts_them() -> None:
    assert WorkPlan().max_attempts == MAX_ATTEMPTS


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
def test_what_happened_to_a_chunk_is_told(chunk: TroubledChunk, part: str) -> None:
    assert part in fate_of(chunk)


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
