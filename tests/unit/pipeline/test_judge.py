from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest

from mailsift.pipeline.facts import Answer, DomainState, Known, Mode
from mailsift.pipeline.verdict import (
    SCORE_BANDS,
    SYNTAX_SENTENCES,
    VERDICT_ROWS,
    Evidence,
    Result,
    Status,
    Verdict,
    VerdictPolicy,
    decide,
    judge,
    score_parts,
)

_DOC = Path(__file__).parents[3] / "docs" / "verdicts.md"
_TYPES = {"bool": bool, "str": str, "int": int, "Result": Result, "Status": Status}
_BAD_DOMAINS = {
    DomainState.NOT_FOUND: Result.DOMAIN_NOT_FOUND,
    DomainState.NO_MAIL_SERVER: Result.NO_MAIL_SERVER,
    DomainState.NULL_MX: Result.NULL_MX,
    DomainState.UNROUTABLE: Result.UNROUTABLE,
}
_HEARD = [answer for answer in Answer if answer is not Answer.GIVEN_UP]  # of that, nobody was
Walk: TypeAlias = tuple[tuple[Evidence, VerdictPolicy, Verdict], ...]
_DEEP = Evidence(Mode.DEEP, domain=DomainState.ROUTED, catch_all=Known.NO)


def _every_evidence() -> Iterator[Evidence]:
    flag = (False, True)
    for mode, domain, catch_all, answer in product(Mode, DomainState, Known, Answer):
        for syntax, role, disposable, slip, mute, blanket in product(flag, repeat=6):
            yield Evidence(
                mode,
                syntax_rule="no_at" if syntax else "",
                role=role,
                disposable=disposable,
                suggested_domain="gmail.com" if slip else "",
                domain=domain,
                unverifiable=mute,
                catch_all=catch_all,
                answer=answer,
                blanket=blanket,
            )
    for answer in Answer:
        yield replace(_DEEP, answer=answer, unwanted="suppressed")
    for answer, catch_all in product(Answer, Known):
        yield replace(_DEEP, answer=answer, catch_all=catch_all, edge=True)
    for mode, domain, catch_all, answer in product(Mode, DomainState, Known, Answer):
        for mute, blanket in product(flag, repeat=2):
            yield Evidence(
                mode,
                domain=domain,
                catch_all=catch_all,
                unverifiable=mute,
                blanket=blanket,
                answer=answer,
                sent=True,
            )
    for mode, domain, role, disposable, slip, alike in product(Mode, DomainState, flag, flag, flag, flag):
        yield Evidence(
            mode,
            role=role,
            disposable=disposable,
            suggested_domain="gmail.com" if slip else "",
            unknown_suffix=True,
            look_alike=alike,
            domain=domain,
        )


@pytest.fixture(scope="module")  # kept longer, every look for garbage would look at half a million objects
def walk() -> Walk:
    lenient, strict = VerdictPolicy(), VerdictPolicy(disposable_invalid=True)
    return tuple(
        (evidence, policy, judge(evidence, policy))
        for evidence in _every_evidence()
        for policy in ((lenient, strict) if evidence.disposable else (lenient,))
    )


def _speaks_against(evidence: Evidence, policy: VerdictPolicy) -> bool:
    """Tell whether there is evidence against this address, in the words of the design and not of the code."""
    closed = evidence.answer in {Answer.NOT_FOUND, Answer.DISABLED}
    return (
        evidence.syntax_rule != ""
        or evidence.domain in _BAD_DOMAINS
        or (closed and (evidence.sent or not (evidence.blanket or evidence.unverifiable)))
        or (evidence.disposable and policy.disposable_invalid)
    )


def test_every_score_lies_in_the_band_of_its_status(walk: Walk) -> None:
    outside = [
        (evidence, verdict)
        for evidence, _, verdict in walk
        if not SCORE_BANDS[verdict.status][0] <= verdict.score <= SCORE_BANDS[verdict.status][1]
    ]
    assert outside == []
    assert len(walk) > 50_000


def test_the_bands_part_the_scores_as_the_design_says() -> None:
    assert SCORE_BANDS == {Status.VALID: (60, 100), Status.RISKY: (20, 59), Status.INVALID: (0, 19)}


def test_invalid_is_said_exactly_where_something_speaks_against_the_address(walk: Walk) -> None:
    wrong = [
        (evidence, policy)
        for evidence, policy, verdict in walk
        if (verdict.status is Status.INVALID) != _speaks_against(evidence, policy)
    ]
    assert wrong == []


def test_the_parts_of_a_score_add_up_to_it_and_have_names_of_their_own(walk: Walk) -> None:
    for evidence, policy, verdict in walk:
        parts = score_parts(evidence, policy)
        assert sum(points for _, points in parts) == verdict.score, evidence
        assert len({name for name, _ in parts}) == len(parts), evidence


def test_all_13_fields_are_there_and_of_their_type(walk: Walk) -> None:
    assert len(fields(Verdict)) == 13
    for verdict in {verdict for _, _, verdict in walk}:
        assert all(type(getattr(verdict, each.name)) is _TYPES[str(each.type)] for each in fields(Verdict))
        assert re.fullmatch(r"[A-Z].*\.", verdict.reason)


def test_valid_in_deep_needs_an_accepted_mailbox_and_a_refused_random_one(walk: Walk) -> None:
    for evidence, _, verdict in walk:
        if evidence.mode is Mode.DEEP and verdict.is_valid and not evidence.sent:
            assert (evidence.answer, evidence.catch_all) == (Answer.ACCEPTED, Known.NO)


def test_what_was_really_sent_decides_whatever_else_the_provider_says(walk: Walk) -> None:
    """A delivery is believed at a catch-all domain, a bounce at one whose answers mean nothing."""
    for evidence, _, verdict in walk:
        if evidence.sent and evidence.answer is Answer.ACCEPTED and evidence.domain not in _BAD_DOMAINS:
            assert (verdict.result, verdict.score) == (Result.DELIVERABLE, 95), evidence


def test_the_flags_repeat_the_evidence(walk: Walk) -> None:
    assert judge(replace(_DEEP, free=True)).is_free
    assert not judge(_DEEP).is_free
    for evidence, _, verdict in walk:
        assert verdict.catch_all == (evidence.catch_all is Known.YES)
        assert verdict.mx_valid == (evidence.domain is DomainState.ROUTED)
        assert verdict.syntax_valid == (evidence.syntax_rule == "")
        assert verdict.is_valid == (verdict.status is Status.VALID)
        assert (verdict.is_disposable, verdict.is_role_based) == (evidence.disposable, evidence.role)


def test_every_row_of_the_table_decides_something_and_every_result_can_be_reached(walk: Walk) -> None:
    assert {decide(evidence, policy).id for evidence, policy, _ in walk} == {row.id for row in VERDICT_ROWS}
    assert {verdict.result for _, _, verdict in walk} == set(Result)


def test_role_and_free_never_change_the_result(walk: Walk) -> None:
    for evidence, policy, verdict in walk:
        if evidence.role:
            continue
        other = judge(replace(evidence, role=True, free=True), policy)
        assert (other.result, other.status) == (verdict.result, verdict.status)


@pytest.mark.parametrize(
    ("answer", "catch_all", "result"),
    [
        (Answer.ACCEPTED, Known.NO, Result.DELIVERABLE),
        (Answer.ACCEPTED, Known.YES, Result.CATCH_ALL),
        (Answer.ACCEPTED, Known.UNKNOWN, Result.UNVERIFIABLE),
        (Answer.NOT_ASKED, Known.YES, Result.CATCH_ALL),
        (Answer.NOT_ASKED, Known.UNKNOWN, Result.NOT_ASKED),
        (Answer.NOT_FOUND, Known.NO, Result.MAILBOX_NOT_FOUND),
        (Answer.NOT_FOUND, Known.YES, Result.MAILBOX_NOT_FOUND),
        (Answer.NOT_FOUND, Known.UNKNOWN, Result.MAILBOX_NOT_FOUND),
        (Answer.DISABLED, Known.NO, Result.MAILBOX_DISABLED),
        (Answer.FULL, Known.NO, Result.MAILBOX_FULL),
        (Answer.FULL, Known.YES, Result.MAILBOX_FULL),
        (Answer.GREYLISTED, Known.UNKNOWN, Result.DEFERRED),
        (Answer.RATE_LIMITED, Known.UNKNOWN, Result.DEFERRED),
        (Answer.TEMPORARY, Known.NO, Result.DEFERRED),
        (Answer.DOUBTED, Known.NO, Result.DEFERRED),
        (Answer.DOUBTED, Known.YES, Result.CATCH_ALL),
        (Answer.REFUSED_US, Known.UNKNOWN, Result.PROBE_BLOCKED),
        (Answer.UNCLEAR, Known.NO, Result.UNVERIFIABLE),
        (Answer.UNREACHABLE, Known.UNKNOWN, Result.UNREACHABLE),
        (Answer.NOT_ALLOWED, Known.UNKNOWN, Result.UNREACHABLE),
        (Answer.NOT_ASKABLE, Known.NO, Result.UNVERIFIABLE),
        (Answer.PROBE_UNAVAILABLE, Known.UNKNOWN, Result.PROBE_UNAVAILABLE),
    ],
)
def test_what_an_answer_means_in_deep(answer: Answer, catch_all: Known, result: Result) -> None:
    assert judge(replace(_DEEP, answer=answer, catch_all=catch_all)).result is result


def test_of_servers_that_nobody_asked_it_is_not_said_that_they_were_silent() -> None:
    silent, never_asked = (
        judge(replace(_DEEP, answer=one)) for one in (Answer.UNREACHABLE, Answer.NOT_ALLOWED)
    )
    assert silent.reason != never_asked.reason
    assert (silent.status, silent.score) == (never_asked.status, never_asked.score)


@pytest.mark.parametrize("answer", [Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL])
def test_a_refusal_that_everybody_gets_says_nothing(answer: Answer) -> None:
    assert judge(replace(_DEEP, answer=answer, blanket=True)).result is Result.UNVERIFIABLE


@pytest.mark.parametrize("answer", _HEARD)
def test_a_provider_whose_answers_mean_nothing_is_unverifiable_whatever_it_says(answer: Answer) -> None:
    assert judge(replace(_DEEP, answer=answer, unverifiable=True)).result is Result.UNVERIFIABLE


@pytest.mark.parametrize(("state", "result"), _BAD_DOMAINS.items())
def test_a_domain_that_takes_no_mail_wins_over_all_but_syntax(state: DomainState, result: Result) -> None:
    evidence = replace(_DEEP, domain=state, disposable=True, unverifiable=True, catch_all=Known.YES)
    assert judge(evidence).result is result
    assert judge(replace(evidence, syntax_rule="no_at")).result is Result.SYNTAX_ERROR


@pytest.mark.parametrize("mode", [Mode.MEDIUM, Mode.DEEP])
def test_what_was_given_up_is_not_put_down_to_dns(mode: Mode) -> None:
    given_up = judge(Evidence(mode, answer=Answer.GIVEN_UP))
    assert (given_up.result, given_up.status) == (Result.NOT_ASKED, Status.RISKY)
    assert given_up.reason != judge(Evidence(mode, domain=DomainState.ROUTED)).reason


@pytest.mark.parametrize("state", [DomainState.UNAVAILABLE, DomainState.NOT_ASKED])
@pytest.mark.parametrize("mode", [Mode.MEDIUM, Mode.DEEP])
def test_silence_of_dns_is_risky(mode: Mode, state: DomainState) -> None:
    verdict = judge(Evidence(mode, domain=state))
    assert (verdict.result, verdict.score, verdict.mx_valid) == (Result.DNS_UNAVAILABLE, 40, False)


def test_the_modes_that_ask_less_promise_less() -> None:
    fast = judge(Evidence(Mode.FAST))
    medium = judge(Evidence(Mode.MEDIUM, domain=DomainState.ROUTED))
    deep = judge(replace(_DEEP, answer=Answer.ACCEPTED))
    assert [(each.result, each.score, each.mx_valid) for each in (fast, medium, deep)] == [
        (Result.PASSED, 60, False),
        (Result.PASSED, 75, True),
        (Result.DELIVERABLE, 95, True),
    ]


def test_disposable_is_risky_even_when_deliverable_and_invalid_by_policy() -> None:
    evidence = replace(_DEEP, answer=Answer.ACCEPTED, disposable=True)
    strict = VerdictPolicy(disposable_invalid=True)
    assert [
        (each.result, each.status, each.score) for each in (judge(evidence), judge(evidence, strict))
    ] == [
        (Result.DISPOSABLE, Status.RISKY, 20),
        (Result.DISPOSABLE, Status.INVALID, 10),
    ]


def test_a_missing_mailbox_wins_over_disposable() -> None:
    missing = judge(replace(_DEEP, answer=Answer.NOT_FOUND, disposable=True))
    assert missing.result is Result.MAILBOX_NOT_FOUND


def test_adjustments_are_named_and_kept_in_the_band() -> None:
    slip = replace(_DEEP, answer=Answer.ACCEPTED, role=True, suggested_domain="gmail.com")
    assert score_parts(slip) == (("deliverable", 95), ("role", -5), ("likely_slip", -10))
    assert score_parts(Evidence(Mode.FAST, role=True)) == (("passed_fast", 60), ("role", -5), ("band", 5))
    assert judge(Evidence(Mode.FAST, role=True)).score == 60


def test_a_likely_slip_is_suggested() -> None:
    verdict = judge(Evidence(Mode.FAST, suggested_domain="gmail.com"))
    assert verdict.suggestion == "Did you mean the domain gmail.com?"


def test_a_syntax_error_names_its_rule() -> None:
    reasons = {rule: judge(Evidence(Mode.FAST, syntax_rule=rule)).reason for rule in SYNTAX_SENTENCES}
    assert reasons == SYNTAX_SENTENCES
    assert len(set(reasons.values())) == len(reasons)
    assert '"brand_new"' in judge(Evidence(Mode.FAST, syntax_rule="brand_new")).reason


def test_the_smtp_code_is_passed_on_and_zero_without_one() -> None:
    assert judge(replace(_DEEP, answer=Answer.NOT_FOUND, smtp_code=550)).smtp_code == 550
    assert judge(_DEEP).smtp_code == 0


def test_the_documented_table_is_the_table_of_the_code() -> None:
    line = re.compile(r"^\| `(\w+)` \| (\w+) \| (\d+) \|", re.MULTILINE)
    documented = [
        (result, status, int(score)) for result, status, score in line.findall(_DOC.read_text("utf-8"))
    ]
    assert documented == [(row.result.value, row.status.value, row.score) for row in VERDICT_ROWS]


def test_the_documented_sentences_are_those_of_the_code() -> None:
    text = " ".join(_DOC.read_text("utf-8").split())
    assert [
        row.reason for row in VERDICT_ROWS if row.result is not Result.SYNTAX_ERROR and row.reason not in text
    ] == []
    assert [rule for rule in SYNTAX_SENTENCES if f"`{rule}`" not in text] == []


def test_a_suffix_that_does_not_exist_is_risky_until_dns_has_been_asked() -> None:
    fast = judge(Evidence(Mode.FAST, unknown_suffix=True))
    assert (fast.result, fast.status, fast.score) == (Result.UNKNOWN_SUFFIX, Status.RISKY, 25)
    asked = judge(Evidence(Mode.MEDIUM, unknown_suffix=True, domain=DomainState.ROUTED))
    assert asked.result is Result.PASSED


def test_a_look_alike_costs_score_once_whatever_it_looks_like() -> None:
    evidence = Evidence(Mode.MEDIUM, look_alike=True, suggested_domain="gmail.com", domain=DomainState.ROUTED)
    assert score_parts(evidence) == (("passed_medium", 75), ("look_alike", -10))


def test_risky_scores_are_ordered_by_what_is_known() -> None:
    deep = partial(Evidence, Mode.DEEP, domain=DomainState.ROUTED)
    best_first = [
        deep(answer=Answer.FULL, catch_all=Known.NO),
        deep(answer=Answer.NOT_ASKED, catch_all=Known.YES),
        deep(answer=Answer.NOT_ASKED, catch_all=Known.YES, edge=True),
        deep(answer=Answer.TEMPORARY),
        deep(answer=Answer.NOT_ASKED),
        deep(answer=Answer.REFUSED_US),
        deep(answer=Answer.UNREACHABLE),
    ]
    for attributes in ({}, {"role": True}, {"suggested_domain": "gmail.com"}, {"free": True}):
        verdicts = [judge(replace(evidence, **attributes)) for evidence in best_first]
        scores = [verdict.score for verdict in verdicts]
        assert scores == sorted(set(scores), reverse=True)
        assert {verdict.status for verdict in verdicts} == {Status.RISKY}
    assert [verdict.result for verdict in map(judge, best_first)] == [
        Result.MAILBOX_FULL,
        Result.CATCH_ALL,
        Result.UNVERIFIABLE,
        Result.DEFERRED,
        Result.NOT_ASKED,
        Result.PROBE_BLOCKED,
        Result.UNREACHABLE,
    ]


def test_a_tenant_that_accepts_everybody_at_the_edge_is_no_catch_all_and_one_that_refuses_is_believed() -> (
    None
):
    edge = partial(Evidence, Mode.DEEP, domain=DomainState.ROUTED, edge=True)
    accepts = judge(edge(answer=Answer.NOT_ASKED, catch_all=Known.YES))
    assert (accepts.result, accepts.status) == (Result.UNVERIFIABLE, Status.RISKY)
    assert "at its edge" in accepts.reason
    assert "bounce later" in accepts.reason
    assert judge(edge(answer=Answer.ACCEPTED, catch_all=Known.NO)).result is Result.DELIVERABLE
    assert judge(edge(answer=Answer.NOT_FOUND, catch_all=Known.NO)).result is Result.MAILBOX_NOT_FOUND


def _witnesses() -> dict[str, tuple[frozenset[str], ...]]:
    """What each result of mode deep takes, by trying everything; an empty set where it does not matter."""
    sizes = (len(DomainState), len(_HEARD), len(Known))
    taken: dict[str, tuple[set[str], ...]] = {}
    for domain, answer, random, blanket in product(DomainState, _HEARD, Known, (False, True)):
        evidence = Evidence(Mode.DEEP, domain=domain, answer=answer, catch_all=random, blanket=blanket)
        sets = taken.setdefault(judge(evidence).result, (set(), set(), set()))
        for known, seen in zip(sets, (domain, answer, random), strict=True):
            known.add(seen.value)
    return {
        result: tuple(
            frozenset() if len(seen) == size else frozenset(seen)
            for seen, size in zip(sets, sizes, strict=True)
        )
        for result, sets in taken.items()
    }


def test_the_documented_witnesses_are_those_that_the_judge_takes() -> None:
    section = _DOC.read_text("utf-8").partition("## What each result rests on")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|", section, re.MULTILINE)
    documented = {
        result: tuple(frozenset(re.findall(r"`(\w+)`", cell)) for cell in cells) for result, *cells in rows
    }
    assert documented == _witnesses()
