"""Tiers: what the table says, that a frame says the same, and that no policy sends where nobody may."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.api.http.uploads import TierPolicyBody
from mailsift.pipeline.frames import SEGMENT
from mailsift.pipeline.tiers import (
    RULES,
    TIER_FIELDS,
    Tier,
    TierPolicy,
    Unwanted,
    reason_expression,
    reason_of,
    tier_expression,
    tier_of,
)
from mailsift.pipeline.verdict import VERDICT_ROWS, Result, Status

GOOD: dict[str, Any] = {
    "unwanted": "",
    "status": "valid",
    "is_disposable": False,
    "result": "deliverable",
    "suggestion": "",
    "is_role_based": False,
    "is_free": False,
    "score": 95,
}
NAMES = [field.name for field in fields(TierPolicy) if field.name != "minimum_score"]
NEVER = {"complained", "unsubscribed", "suppressed"}
policies = st.builds(
    TierPolicy,
    minimum_score=st.integers(0, 100),
    **{name: st.sampled_from([Tier.REVIEW, Tier.REMOVE] if name in NEVER else list(Tier)) for name in NAMES},
)
results = st.fixed_dictionaries(
    {
        "unwanted": st.sampled_from(["", *Unwanted]),
        "status": st.sampled_from(list(Status)),
        "is_disposable": st.booleans(),
        "result": st.sampled_from(list(Result)),
        "suggestion": st.sampled_from(["", "Did you mean a@b.test?", "Validated as a@b.test.", "Ask again."]),
        "is_role_based": st.booleans(),
        "is_free": st.booleans(),
        "score": st.integers(0, 100),
    }
)


@pytest.mark.parametrize(
    ("row", "policy", "tier", "reason"),
    [
        ({}, {}, Tier.SEND, ""),
        ({"status": "invalid", "result": "mailbox_not_found"}, {}, Tier.REMOVE, "invalid"),
        ({"unwanted": "complained"}, {}, Tier.REMOVE, "complained"),
        ({"unwanted": "suppressed"}, {"suppressed": Tier.REVIEW}, Tier.REVIEW, "suppressed"),
        ({"status": "risky", "result": "catch_all"}, {}, Tier.REVIEW, "catch_all"),
        ({"status": "risky", "result": "catch_all"}, {"catch_all": Tier.SEND}, Tier.SEND, ""),
        ({"status": "risky", "result": "probe_blocked"}, {}, Tier.REVIEW, "unknown"),
        ({"status": "risky", "result": "disposable", "is_disposable": True}, {}, Tier.REMOVE, "disposable"),
        ({"suggestion": "Did you mean ann@gmail.com?"}, {}, Tier.REVIEW, "suggestion"),
        ({"suggestion": "Validated as ann@gmail.com."}, {}, Tier.SEND, ""),
        ({"is_role_based": True}, {}, Tier.SEND, ""),
        (
            {"is_role_based": True, "is_free": True},
            {"free": Tier.REMOVE, "role": Tier.REVIEW},
            "remove",
            "free",
        ),
        ({"score": 79}, {"minimum_score": 80}, Tier.REVIEW, "low_score"),
        ({"score": 80}, {"minimum_score": 80}, Tier.SEND, ""),
    ],
)
def test_a_tier_and_its_reason(row: dict[str, Any], policy: dict[str, Any], tier: Tier, reason: str) -> None:
    wanted = TierPolicy(**policy)
    assert (tier_of(GOOD | row, wanted), reason_of(GOOD | row, wanted)) == (tier, reason)


@given(policies, st.lists(results, min_size=1, max_size=8))
def test_a_frame_says_what_each_row_says(policy: TierPolicy, rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, schema={name: SEGMENT[name] for name in GOOD})
    frame = frame.rename({name: f"p_{name}" for name in GOOD})
    written = frame.select(tier=tier_expression(policy, "p_"), reason=reason_expression(policy, "p_")).rows()
    assert written == [(tier_of(row, policy), reason_of(row, policy)) for row in rows]


@given(policies, results)
def test_no_policy_sends_to_what_is_invalid_or_unwanted(policy: TierPolicy, row: dict[str, Any]) -> None:
    tier = tier_of(row, policy)
    assert tier is not Tier.SEND or (row["status"] != "invalid" and not row["unwanted"])
    assert tier is Tier.REMOVE or row["status"] != "invalid"


def test_every_result_that_is_not_plainly_good_has_a_rule_of_its_own() -> None:
    covered = {value for rule in RULES if rule.field == "result" for value in rule.values}
    open_ones = {row.result for row in VERDICT_ROWS if row.status is Status.RISKY} - {Result.DISPOSABLE}
    assert open_ones <= covered
    assert set(TIER_FIELDS) == set(GOOD)


def test_what_the_api_says_of_a_policy_is_what_the_table_has() -> None:
    assert TierPolicyBody().policy() == TierPolicy()
    assert {rule.name for rule in RULES} - {"invalid"} == set(NAMES)


@pytest.mark.parametrize("given_one", [{"complained": Tier.SEND}, {"minimum_score": 101}])
def test_what_no_policy_may_say(given_one: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"never sent to|from 0 to 100"):
        TierPolicy(**given_one)


def test_a_stored_policy_of_another_release_is_read_as_far_as_it_is_known() -> None:
    assert TierPolicy.read({"role": "review", "moon": "full"}) == TierPolicy(role=Tier.REVIEW)
    with pytest.raises(ValueError, match="moon"):
        TierPolicy.parse({"role": "review", "moon": "full"})


@pytest.mark.parametrize("score", [50.9, True, None, [], "50.0", float("nan"), float("inf"), -1])
def test_a_score_is_a_whole_number(score: object) -> None:
    with pytest.raises(ValueError, match="whole number from 0 to 100"):
        TierPolicy.parse({"minimum_score": score})


@pytest.mark.parametrize("score", [50, 50.0, "50"])
def test_a_whole_number_is_one_however_it_is_written(score: object) -> None:
    assert TierPolicy.parse({"minimum_score": score}).minimum_score == 50
