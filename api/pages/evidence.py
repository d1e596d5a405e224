"""A verdict as facts that can be checked: what was asked, who answered what, how the score adds up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mailsift.api.http.responses import chance_fields
from mailsift.api.pages.charts import gauge
from mailsift.api.pages.words import (
    ANSWERS,
    DOMAIN_STATES,
    MODES,
    OPERATORS_DO,
    TO_DO,
    number,
    own_suggestion,
    percent,
    provider_name,
    result_name,
)
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.facts import Answer, DomainState, Mode
from mailsift.pipeline.outcomes.chances import MeasuredShare
from mailsift.pipeline.outcomes.outcome import OUTCOME_STAGE
from mailsift.pipeline.replies.table import REASONS
from mailsift.pipeline.verdict import VERDICT_ROWS, Status, syntax_reason

Fact = tuple[str, object]

_POINTS: Final[Mapping[str, str]] = {
    **{row.id: row.reason for row in VERDICT_ROWS},
    "role": "A role address such as info@ or sales@",
    "likely_slip": "The domain looks like a typo of a well-known one",
    "look_alike": "Letters of other scripts make the address look like another one",
    "band": "Kept within the range of its status",
}
_CATCH_ALL: Final = {
    "yes": "accepted: the domain takes mail for any mailbox",
    "no": "refused: the domain tells mailboxes apart",
    "unknown": "no clear answer",
}
_DOMAIN_SAID: Final[Mapping[str, str]] = {
    DomainState.NOT_ASKED: "DNS was not asked about {}.",
    DomainState.UNROUTABLE: "The mail servers of {} have no public address.",
    DomainState.UNAVAILABLE: "DNS gave no answer about {}.",
}
"""Where DOMAIN_STATES has no words that follow a domain's name."""
_STAGES: Final = {
    "connect": "while connecting",
    "banner": "in the greeting",
    "ehlo": "to EHLO",
    "starttls": "to STARTTLS",
    "mail": "to MAIL FROM",
    "rcpt": "to RCPT TO",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One step: what came of it in a sentence, the facts, and what a server said, word for word."""

    title: str
    sentence: str
    facts: tuple[Fact, ...]
    quote: str = ""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of the score."""

    why: str
    points: int


@dataclass(frozen=True, slots=True)
class VerdictDetail:
    """A verdict with everything behind it, as pages show it."""

    address: str  # as it was typed
    verdict: dict[str, Any]  # its 13 fields
    result: str  # the name of the result
    to_do: str  # with the address, "" = nothing
    operators_do: str  # what an operator can do about it, "" = nothing
    suggestion: str  # the address that was probably meant, "" when none was
    chart: str  # the score as SVG
    sections: list[Section]  # what was found out, step by step
    points: list[ScorePart]
    json: str  # all of it, to be copied
    seconds: float  # how long it took, 0 when that was not measured


def verdict_detail(
    address: str,
    verdict: dict[str, Any],
    evidence: dict[str, Any],
    *,
    judged: str,
    chance: MeasuredShare | None,
    seconds: float = 0.0,
) -> VerdictDetail:
    """Lay a verdict out; `evidence` is {} when none was kept, `judged` the canonical address if known.

    `chance` is None where too few outcomes are known.
    """
    likely = chance_fields(chance) if chance else {}
    return VerdictDetail(
        address=address,
        verdict=verdict,
        result=result_name(verdict["result"]),
        to_do=TO_DO.get(verdict["result"], ""),
        operators_do=OPERATORS_DO.get(verdict["result"], ""),
        suggestion=own_suggestion(verdict["suggestion"]),
        chart=gauge(verdict["score"], Status(verdict["status"])),
        sections=[*sections(verdict, evidence, judged), *_chance_section(chance)],
        points=points(evidence),
        json=json.dumps(
            {"address": address, **verdict, **likely, "evidence": evidence}, ensure_ascii=False, indent=2
        ),
        seconds=seconds,
    )


def sections(verdict: Mapping[str, Any], evidence: Mapping[str, Any], judged: str = "") -> list[Section]:
    """Return the facts behind a verdict, stage by stage; `judged` is the canonical address, "" for none.

    `evidence` is what the pipeline wrote (mailsift.pipeline.judge_frame), {} when none was kept.
    """
    address: tuple[Fact, ...] = (("Judged as", judged),) if judged else ()
    if not evidence:
        return [Section("Address", verdict["reason"], (*address, *_flags(verdict)))]
    rule, domain = evidence["syntax_rule"], evidence["domain"]
    found = [
        Section(
            "Address",
            syntax_reason(rule) if rule else "The syntax is good.",
            (*address, *_syntax(evidence), *_flags(verdict)),
        ),
        Section("Domain", _domain_said(domain, evidence["mode"]), tuple(_domain(domain))),
    ]
    if mailbox := evidence["mailbox"]:
        sent = mailbox["stage"] == OUTCOME_STAGE
        facts_of = _outcome if sent else _mailbox
        sentence = "" if sent else _mailbox_said(mailbox)
        found.append(Section("Mailbox", sentence, tuple(facts_of(mailbox)), mailbox["text"]))
    if probe := evidence["catch_all"]:
        sentence = f"A mailbox that cannot exist was asked about, too: {_CATCH_ALL[probe['catch_all']]}."
        found.append(Section("Random mailbox", sentence, tuple(_probe(probe)), probe["text"]))
    return found


def _chance_section(chance: MeasuredShare | None) -> list[Section]:
    if chance is None:
        return []
    low, high = percent(chance.low), percent(chance.high)
    sentence = (
        f"Of messages to addresses like this {percent(chance.value)} arrive (95 % interval {low} to {high})."
    )
    return [Section("Chance of delivery", sentence, (("Based on outcomes", number(chance.n)),))]


def _domain_said(fact: Mapping[str, Any] | None, mode: str) -> str:
    if fact is None:
        return "DNS was not asked in fast mode." if mode == Mode.FAST else "DNS was not asked."
    state, domain = fact["state"], fact["domain"]
    if sentence := _DOMAIN_SAID.get(state):
        return sentence.format(domain)
    return f"{domain} {DOMAIN_STATES[state]}." if state in DOMAIN_STATES else f"{domain}: {state}."


def _mailbox_said(fact: Mapping[str, Any]) -> str:
    answer = ANSWERS.get(fact["answer"], fact["answer"])
    return f"{fact['host']}: {answer}." if fact["host"] else f"{answer[:1].upper()}{answer[1:]}."


def points(evidence: Mapping[str, Any]) -> list[ScorePart]:
    """Return the parts of the score, which add up to it."""
    return [
        ScorePart(_POINTS.get(name, name), value) for name, value in evidence.get("score_parts", {}).items()
    ]


def _syntax(evidence: Mapping[str, Any]) -> Iterator[Fact]:
    yield "Mode", MODES[Mode(evidence["mode"])][0]
    rule = evidence["syntax_rule"]
    yield "Syntax", f"{syntax_reason(rule)} ({rule})" if rule else "good"
    if evidence["suggested_domain"]:
        yield "Probably meant", evidence["suggested_domain"]


def _flags(verdict: Mapping[str, Any]) -> Iterator[Fact]:
    flags = {
        "Role address": "is_role_based",
        "Free provider": "is_free",
        "Throwaway domain": "is_disposable",
    }
    for label, name in flags.items():
        yield label, "yes" if verdict[name] else "no"


def _domain(fact: Mapping[str, Any] | None) -> Iterator[Fact]:
    if fact is None:
        return
    yield "Domain", fact["domain"]
    yield "DNS says", DOMAIN_STATES.get(fact["state"], fact["state"])
    if fact["detail"]:
        yield "DNS answer", fact["detail"]
    for host in fact["hosts"]:
        yield f"MX {host['preference']}", f"{host['name']} ({', '.join(host['addresses'])})"
    if fact["implicit"]:
        yield "Route", "the domain's own address, as it has no MX (RFC 5321 section 5.1)"
    if fact["provider"]:
        yield "Mail provider", provider_name(fact["provider"])
    yield from _age_facts(fact["learned_at"], fact["expires_at"])


def _mailbox(fact: Mapping[str, Any]) -> Iterator[Fact]:
    yield "The server", ANSWERS.get(fact["answer"], fact["answer"])
    yield from _code_facts(fact)
    if fact["stage"]:
        yield "Answered", _STAGES.get(fact["stage"], fact["stage"])
    if fact["rule"]:
        reason = REASONS.get(fact["rule"])
        yield "Read by rule", f"{fact['rule']}: {reason}" if reason else fact["rule"]
    if fact["host"]:
        yield "Mail server", f"{fact['host']} ({fact['address']})"
        yield "Asked from", fact["source"] or "this machine's default address"
    if fact["took_ms"]:
        yield "Took", f"{fact['took_ms']:,} ms"
    if fact["blanket"]:
        yield "But", "a mailbox that cannot exist got the very same refusal"
    yield from _age_facts(fact["asked_at"], fact["expires_at"], verb="Asked")
    if fact["cached"]:
        yield "Reused", "an earlier answer that is still fresh"


def _code_facts(fact: Mapping[str, Any]) -> Iterator[Fact]:
    if fact["smtp_code"]:
        yield "Code", " ".join(filter(None, (str(fact["smtp_code"]), fact["enhanced"])))


def _outcome(fact: Mapping[str, Any]) -> Iterator[Fact]:
    """Tell what became of a message that was really sent (mailsift.pipeline.outcomes.outcome)."""
    arrived = fact["answer"] == Answer.ACCEPTED
    yield "A message you sent", "arrived" if arrived else f"came back: {ANSWERS[fact['answer']]}"
    yield from _code_facts(fact)
    if reason := REASONS.get(fact["rule"]):
        yield "Read by rule", f"{fact['rule']}: {reason}"
    yield "Reported by", fact["host"]
    yield from _age_facts(fact["asked_at"], fact["expires_at"], verb="Happened")
    if policy := fact.get("policy"):  # of a job of a former release: not there
        what, days = ("a delivery", "delivered_days") if arrived else ("a bounce", "bounced_days")
        span = f"{number(policy[days])} {'day' if policy[days] == 1 else 'days'}"
        yield "By your policy", f"{what} is believed for {span}"


def _probe(fact: Mapping[str, Any]) -> Iterator[Fact]:
    yield "A mailbox that cannot exist", _CATCH_ALL[fact["catch_all"]]
    if fact["smtp_code"]:
        yield "Code", str(fact["smtp_code"])
    yield from _age_facts(fact["learned_at"], fact["expires_at"], verb="Asked")


def _age_facts(at: float, until: float, verb: str = "Learned") -> Iterator[Fact]:
    if at:
        yield verb, utc_datetime(at)
        if until > at:
            yield "Fresh until", utc_datetime(until)
