"""The small decisions around a chunk: which slice it is, how it is split, what it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import polars as pl
import pytest

from mailsift.jobs.engine.chunk import (
    ChunkSizes,
    WorkPlan,
    counts_of,
    group_deferred,
    read_slice,
    split_chunk,
    warning_of,
)
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import WAITING
from mailsift.pipeline.tiers import Tier, TierPolicy
from mailsift.storage.sql.chunks import ClaimedChunk
from mailsift.storage.sql.jobs import VerdictCounts


def chunk(addresses: int, *, offset: int = 0, attempt: int = 5) -> ClaimedChunk:
    return ClaimedChunk(
        job_id=uuid4(),
        n=3,
        throttle_key="google",
        attempt=attempt,
        addresses=addresses,
        source_key="blob",
        source_offset=offset,
        lease_token=uuid4(),
        account_id=uuid4(),
        options={"mode": "deep"},
        small=False,
        deadline_passed=False,
    )


@pytest.mark.parametrize("addresses", [2, 3, 1_000, 1_001])
def test_a_chunk_is_split_into_two_halves_that_miss_nothing(addresses: int) -> None:
    left, right = split_chunk(chunk(addresses, offset=70), max_attempts=4)
    assert (left.source_offset, right.source_offset) == (70, 70 + left.addresses)
    assert left.addresses + right.addresses == addresses
    assert abs(left.addresses - right.addresses) <= 1
    assert {(half.throttle_key, half.source_key, half.delay) for half in (left, right)} == {
        ("google", "blob", 0.0)
    }


@pytest.mark.parametrize("attempt", [5, 6, 40])
def test_a_half_has_one_more_try_however_often_the_whole_was_given_up(attempt: int) -> None:
    assert [half.attempt for half in split_chunk(chunk(10, attempt=attempt), max_attempts=4)] == [3, 3]


def test_a_slice_is_read_from_anywhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "addresses[1]*.parquet"
    pl.DataFrame({"n": range(100)}).write_parquet(path, row_group_size=30)
    assert read_slice(path, 25, 10)["n"].to_list() == list(range(25, 35))
    assert read_slice(path, 95, 5)["n"].to_list() == list(range(95, 100))


def test_a_slice_that_is_not_what_was_written_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "addresses.parquet"
    pl.DataFrame({"n": range(100)}).write_parquet(path)
    sound = path.read_bytes()
    for data, length in ((sound, 101), (sound[:200], 100), (b"PAR1" + bytes(500) + b"PAR1", 100)):
        path.write_bytes(data)
        with pytest.raises(MailsiftError) as caught:
            read_slice(path, 0, length)
        assert caught.value.code == "blob_damaged"


def test_rows_are_counted_by_status_and_tier_and_addresses_all_together() -> None:
    rows = {"unwanted": ["", "", "complained"], "result": ["deliverable", "catch_all", "deliverable"]}
    alike = {"is_disposable": False, "is_role_based": False, "is_free": True, "suggestion": "", "score": 70}
    finished = pl.DataFrame(
        {"status": ["valid", "risky", "valid"], "rows": [2, 5, 1], **rows},
        schema_overrides={"rows": pl.UInt32},
    ).with_columns(pl.lit(value).alias(name) for name, value in alike.items())
    counts = counts_of(finished, TierPolicy())
    assert counts == VerdictCounts(valid=3, risky=5, send=2, review=5, remove=1, addresses=3)
    assert counts_of(finished, TierPolicy(free=Tier.REVIEW)).review == 7
    assert counts_of(finished.clear(), TierPolicy()) == VerdictCounts()
    assert counts.processed == 8


@pytest.mark.parametrize(
    ("results", "warning"),
    [
        (["deliverable", "probe_unavailable"], "probe_unavailable"),
        (["deliverable", "probe_blocked"], ""),
        ([], ""),
    ],
)
def test_a_closed_port_is_warned_of(results: list[str], warning: str) -> None:
    assert warning_of(pl.DataFrame({"result": results}, schema={"result": pl.String})) == warning


JOB = UUID(int=7)


@pytest.mark.parametrize(
    ("results", "warning"),
    [
        (["deliverable", "probe_unavailable", "deliverable"], "probe_unavailable"),
        (["deliverable", "probe_blocked", "unreachable"], ""),
        ([], ""),
    ],
)
def test_verdicts_that_nobody_could_look_up_make_a_warning(results: list[str], warning: str) -> None:
    assert warning_of(pl.DataFrame({"result": results}, schema={"result": pl.String})) == warning


def test_the_pipeline_is_told_the_list_and_how_old_a_verdict_may_be() -> None:
    chunk = ClaimedChunk(
        JOB, 0, "", 1, 10, "key", 0, UUID(int=1), UUID(int=2), {}, small=False, deadline_passed=False
    )
    request = WorkPlan().request(chunk, JobOptions(max_age=60.0))
    assert (request.list_id, request.max_age, request.final) == (str(JOB), 60.0, False)


@pytest.mark.parametrize(
    ("sources", "small", "key", "most"),
    [(4, False, "", 50), (1, False, "", 1_000), (4, True, "", 1_000), (4, False, "google", 1_000)],
)
def test_the_first_look_at_a_big_list_leaves_its_addresses_to_all_sources(
    sources: int, small: bool, key: str, most: int
) -> None:
    taken = replace(chunk(1_000), live_sources=sources, small=small, throttle_key=key)
    assert WorkPlan().request(taken, JobOptions()).probe_limit == most


CUT = ChunkSizes(own_chunk=3, provider_chunk=4, mixed_chunk=5)


def waiting(*rows: tuple[str, str, float]) -> pl.DataFrame:
    """Addresses that wait: (throttle key, reason, delay)."""
    base = [
        {
            "n": n,
            "rows": 1,
            "address": f"a{n}@x.test",
            "local": f"a{n}",
            "domain": "x.test",
            "rule": "",
            "tries": 0,
        }
        for n in range(len(rows))
    ]
    values = [{"throttle_key": key, "reason": reason, "delay": delay} for key, reason, delay in rows]
    return pl.DataFrame(
        [{**one, **two} for one, two in zip(base, values, strict=True)],
        schema={**WAITING, "throttle_key": pl.String, "reason": pl.String, "delay": pl.Float64},
    )


def test_nothing_waiting_is_no_chunk() -> None:
    assert group_deferred(waiting(), CUT) == []


def test_a_busy_provider_gets_lanes_of_its_own_and_the_rest_is_mixed() -> None:
    rows = [("google", "survey", 0.0)] * 6 + [("tiny.test", "survey", 0.0)] + [("small.test", "survey", 0.0)]
    made = group_deferred(waiting(*rows), CUT)
    assert [(chunk.throttle_key, len(chunk.frame)) for chunk in made] == [
        ("google", 4),
        ("google", 2),
        ("*", 2),
    ]
    assert all(chunk.reason == "" and chunk.delay == 0 for chunk in made)


def test_what_is_left_of_a_provider_s_chunk_stays_in_its_lane() -> None:
    rows = [("google", "throttled", 9.0)] * 2 + [("tiny.test", "throttled", 9.0)]
    made = group_deferred(waiting(*rows), CUT, throttle_key="google")
    assert [(chunk.throttle_key, len(chunk.frame)) for chunk in made] == [("google", 2), ("*", 1)]
    unknown = [("", "deferred", 4.5)] * 2  # DNS says nothing of them, and they were looked at already
    assert [chunk.throttle_key for chunk in group_deferred(waiting(*unknown), CUT, throttle_key="")] == ["*"]


def test_slow_hosts_come_together_whoever_they_are() -> None:
    made = group_deferred(waiting(*[("google", "slow", 0.0)] * 3, ("tiny.test", "slow", 0.0)), CUT)
    assert [(chunk.throttle_key, len(chunk.frame)) for chunk in made] == [("~", 4)]


def test_who_waits_for_dns_alone_waits_in_one_large_chunk() -> None:
    rows = [("", "slow", 4.5)] * 12
    assert [len(chunk.frame) for chunk in group_deferred(waiting(*rows), CUT.for_mode(Mode.DEEP))] == [
        5,
        5,
        2,
    ]
    assert [len(chunk.frame) for chunk in group_deferred(waiting(*rows), CUT.for_mode(Mode.MEDIUM))] == [12]


@pytest.mark.parametrize(("held", "sizes"), [(12, [3, 3, 3, 3]), (6, [4, 4, 4]), (3, [12])])
def test_sources_share_what_all_the_job_has_at_a_provider_in_chunks_of_whole_sessions(
    held: int, sizes: list[int]
) -> None:
    unseen = replace(chunk(held), throttle_key="", job_addresses=12)
    cut = replace(CUT, provider_chunk=20, parts=2, full_session=lambda key: len(key) - 2)
    rows = [("google", "survey", 0.0)] * 12
    made = group_deferred(waiting(*rows), cut, sources=2, throttle_key="", share=unseen.share)
    assert [len(one.frame) for one in made] == sizes
    assert replace(unseen, throttle_key="google").share == 1


def test_close_delays_wait_for_the_longest_and_far_ones_do_not() -> None:
    made = group_deferred(
        waiting(*[("a.test", "greylisted", delay) for delay in (300.0, 310.0, 3600.0)]), CUT
    )
    assert [(chunk.delay, len(chunk.frame)) for chunk in made] == [(310.0, 2), (3600.0, 1)]
    assert {chunk.reason for chunk in made} == {"greylisted"}


def test_every_address_is_in_exactly_one_chunk() -> None:
    rows = [(f"p{n % 7}", ("survey", "greylisted", "slow")[n % 3], float(n % 5)) for n in range(100)]
    made = group_deferred(waiting(*rows), CUT)
    assert sorted(pl.concat([chunk.frame for chunk in made])["n"].to_list()) == list(range(100))
