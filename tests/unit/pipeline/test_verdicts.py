"""Evidence becomes verdicts for a whole frame: each row its own, in the frame's order."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from mailsift.pipeline.facts import (
    Answer,
    CatchAllFact,
    DomainFact,
    DomainState,
    Known,
    MailboxFact,
    Mode,
    MxHost,
)
from mailsift.pipeline.frames import SEGMENT, VERDICTS
from mailsift.pipeline.judge_frame import Findings, judge_frame

COLUMNS = {
    "n": pl.UInt32,
    "rows": pl.UInt32,
    "address": pl.String,
    "local": pl.String,
    "domain": pl.String,
    "rule": pl.String,
    "role": pl.Boolean,
    "free": pl.Boolean,
    "disposable": pl.Boolean,
    "suggested_domain": pl.String,
    "unknown_suffix": pl.Boolean,
    "look_alike": pl.Boolean,
    "meant": pl.String,
    "domain_state": pl.String,
    "unverifiable": pl.Boolean,
    "edge": pl.Boolean,
    "catch_all": pl.String,
    "answer": pl.String,
    "smtp_code": pl.UInt16,
    "blanket": pl.Boolean,
    "sent": pl.Boolean,
    "unwanted": pl.String,
}
DOMAIN = DomainFact(
    "a.test", DomainState.ROUTED, (MxHost("mx.a.test", 10, ("192.0.2.1",)),), "a.test", learned_at=1.0
)
FINDINGS = Findings(
    Mode.DEEP,
    {"a.test": DOMAIN},
    {"info@a.test": MailboxFact(Answer.ACCEPTED, 250, text='250 "Ok" – ja', cached=True)},
    {"a.test": CatchAllFact("a.test", Known.NO, 550)},
)


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows about ann@a.test, who was accepted, but for what each one says."""
    usual = {
        **{name: False for name, kind in COLUMNS.items() if kind == pl.Boolean},
        "rows": 1,
        "address": "ann@a.test",
        "local": "ann",
        "domain": "a.test",
        "rule": "",
        "suggested_domain": "",
        "meant": "",
        "domain_state": "routed",
        "catch_all": "no",
        "answer": "accepted",
        "smtp_code": 250,
        "unwanted": "",
    }
    return pl.DataFrame([{"n": n, **usual, **row} for n, row in enumerate(rows)], schema=COLUMNS)


def test_every_row_keeps_its_place_and_gets_the_verdict_of_its_own_evidence() -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"answer": "not_found", "smtp_code": 550},
        {"answer": "not_found", "smtp_code": 550, "blanket": True},
        {"role": True},
        {"domain_state": "unavailable"},
        {"rule": "empty"},
        {"catch_all": "yes"},
        {"unverifiable": True},
    ]
    judged = judge_frame(frame(*kinds * 50), FINDINGS, evidence=False)
    assert judged["n"].to_list() == list(range(400))
    assert judged["result"].to_list() == 50 * [
        "deliverable",
        "mailbox_not_found",
        "unverifiable",
        "deliverable",
        "dns_unavailable",
        "syntax_error",
        "catch_all",
        "unverifiable",
    ]
    assert judged["score"].to_list()[:4] == [95, 5, 50, 90]
    assert judged["smtp_code"].to_list()[:2] == [250, 550]


def test_the_columns_are_those_of_a_segment_and_none_is_null() -> None:
    judged = judge_frame(frame({}, {"rule": "empty"}), FINDINGS, evidence=False)
    assert dict(judged.schema) == {"n": pl.UInt32, "rows": pl.UInt32, **SEGMENT}
    assert judged.null_count().sum_horizontal().item() == 0
    assert judged["evidence"].to_list() == ["", ""]


def test_nothing_to_judge_gives_an_empty_frame_of_the_same_shape() -> None:
    for evidence in (False, True):
        judged = judge_frame(frame(), FINDINGS, evidence=evidence)
        assert judged.is_empty()
        assert dict(judged.schema) == {"n": pl.UInt32, "rows": pl.UInt32, **SEGMENT}


def test_the_evidence_is_json_with_the_facts_and_points_that_sum_to_the_score() -> None:
    evidence = frame(
        {"address": "info@a.test", "local": "info", "role": True, "suggested_domain": "aa.test"},
        {"address": "x@b.test", "local": "x", "domain": "b.test", "domain_state": "not_asked", "free": True},
        {"rule": "empty", "address": '"\n', "domain": ""},
    )
    judged = judge_frame(evidence, FINDINGS, evidence=True)
    first, second, third = map(json.loads, judged["evidence"])
    assert [evidence["free"] for evidence in (first, second, third)] == [False, True, False]
    assert set(first) == {
        *("mode", "syntax_rule", "role", "free", "disposable", "suggested_domain", "unknown_suffix"),
        *("look_alike", "unwanted", "domain", "catch_all", "mailbox", "score_parts"),
    }
    assert first["mode"] == "deep"
    assert first["domain"]["hosts"] == [
        {"name": "mx.a.test", "preference": 10, "addresses": ["192.0.2.1"]},
    ]
    assert first["mailbox"]["text"] == '250 "Ok" – ja'
    assert (first["mailbox"]["answer"], first["mailbox"]["cached"]) == ("accepted", True)
    assert first["catch_all"]["catch_all"] == "no"
    assert (second["domain"], second["mailbox"], second["catch_all"]) == (None, None, None)
    assert third["syntax_rule"] == "empty"
    for facts, score in zip((first, second, third), judged["score"], strict=True):
        assert sum(facts["score_parts"].values()) == score
    assert first["score_parts"] == {"deliverable": 95, "role": -5, "likely_slip": -10}


def test_a_suggestion_names_the_address_even_where_the_syntax_left_no_local_part() -> None:
    suggesting = {"suggested_domain": "gmail.com"}
    judged = judge_frame(
        frame(
            {**suggesting, "local": "Ann", "address": "Ann@gmial.com"},
            {"local": "", "address": "Bob@gmail,com", "rule": "domain_character", "meant": "Bob@gmail.com"},
            {"answer": "not_found"},
        ),
        FINDINGS,
        evidence=False,
    )
    assert judged["suggestion"].to_list() == [
        "Did you mean Ann@gmail.com?",
        "Did you mean Bob@gmail.com?",
        "Remove the address.",
    ]


def test_a_verdict_has_the_13_fields_in_the_contracts_order() -> None:
    assert judge_frame(frame({}), FINDINGS, evidence=False).select(*VERDICTS).row(0, named=True) == {
        "catch_all": False,
        "is_disposable": False,
        "is_free": False,
        "is_role_based": False,
        "is_valid": True,
        "mx_valid": True,
        "syntax_valid": True,
        "reason": "The mail server accepts this mailbox and refuses one that cannot exist.",
        "result": "deliverable",
        "suggestion": "",
        "score": 95,
        "smtp_code": 250,
        "status": "valid",
    }


def test_the_provider_of_a_domain_is_told_where_dns_named_one() -> None:
    judged = judge_frame(frame({}, {"domain": "b.test"}, {"domain": ""}), FINDINGS, evidence=False)
    assert judged["provider"].to_list() == ["a.test", "", ""]
    nobody = Findings(Mode.FAST, {}, {}, {})
    assert judge_frame(frame({}), nobody, evidence=False)["provider"].to_list() == [""]
