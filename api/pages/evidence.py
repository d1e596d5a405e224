"""A verdict as facts that can be checked: what was asked, who answered what, how the score adds up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mailsift.api.pages.charts import gauge
from mailsift.api.pages.filters import date_time
from mailsift.api.pages.words import ANSWERS, DOMAIN_STATES, MODES, result_name
from mailsift.pipeline.facts import Answer, Mode
from mailsift.pipeline.judge.table import ROWS, syntax_reason
from mailsift.pipeline.outcomes.history import STAGE
from mailsift.pipeline.replies.table import REASONS
from mailsift.pipeline.verdict import Status

Fact = tuple[str, object]

_POINTS: Final[Mapping[str, str]] = {
    **{row.id: row.reason for row in ROWS},
    "role": "A role address such as info@ or sales@",
    "likely_slip": "The domain looks like a slip of a well-known one",
    "look_alike": "Letters of other scripts make the address look like another one",
    "band": "Kept within the range of its status",
}
_CATCH_ALL: Final = {
    "yes": "accepted: the domain takes mail for any mailbox",
    "no": "refused: the domain tells mailboxes apart",
    "unknown": "no clear answer",
}
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
    """Some facts under a heading; `quote` is what a server said, word for word."""

    title: str
    facts: tuple[Fact, ...]
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """One part of the score."""

    why: str
    points: int


@dataclass(frozen=True, slots=True)
class VerdictDetail:
    """A verdict with everything behind it, as pages show it; `chart` is SVG."""

    address: str
    verdict: dict[str, Any]
    result: str
    chart: str
    sections: list[Section]
    points: list[Points]
    seconds: float = 0.0


def verdict_detail(
    address: str, verdict: dict[str, Any], evidence: dict[str, Any], *, judged: str = "", seconds: float = 0.0
) -> VerdictDetail:
    """Lay a verdict out; `evidence` is {} when none was kept, `judged` the canonical address if known."""
    return VerdictDetail(
        address=address,
        verdict=verdict,
        result=result_name(verdict["result"]),
        chart=gauge(verdict["score"], Status(verdict["status"])),
        sections=sections(verdict, evidence, judged),
        points=points(evidence),
        seconds=seconds,
    )


def sections(verdict: Mapping[str, Any], evidence: Mapping[str, Any], judged: str = "") -> list[Section]:
    """Return the facts behind a verdict, stage by stage.

    Args:
        verdict: the 13 fields.
        evidence: what the pipeline wrote (mailsift.pipeline.judge.frame); {} when none was kept.
        judged: the canonical address, "" where there is none.
    """
    address: tuple[Fact, ...] = (("Judged as", judged),) if judged else ()
    if not evidence:
        return [Section("Address", (*address, *_flags(verdict)))]
    found = [
        Section("Address", (*address, *_syntax(evidence), *_flags(verdict))),
        Section("Domain", tuple(_domain(evidence["domain"], evidence["mode"]))),
    ]
    if mailbox := evidence["mailbox"]:
        told = _outcome if mailbox["stage"] == STAGE else _mailbox
        found.append(Section("Mailbox", tuple(told(mailbox)), mailbox["text"]))
    if probe := evidence["catch_all"]:
        found.append(Section("Random probe", tuple(_probe(probe)), probe["text"]))
    return found


def points(evidence: Mapping[str, Any]) -> list[Points]:
    """Return the parts of the score, which add up to it."""
    return [Points(_POINTS.get(name, name), value) for name, value in evidence.get("score_parts", {}).items()]


def _syntax(evidence: Mapping[str, Any]) -> Iterator[Fact]:
    yield "Looked", f"{MODES[Mode(evidence['mode'])][0]} mode"
    rule = evidence["syntax_rule"]
    yield "Syntax", f"{syntax_reason(rule)} ({rule})" if rule else "good"
    if evidence["suggested_domain"]:
        yield "Probably meant", evidence["suggested_domain"]


def _flags(verdict: Mapping[str, Any]) -> Iterator[Fact]:
    flags = {
        "Role address": "is_role_based",
        "Free provider": "is_free",
        "Throw-away domain": "is_disposable",
    }
    for label, name in flags.items():
        yield label, "yes" if verdict[name] else "no"


def _domain(fact: Mapping[str, Any] | None, mode: str) -> Iterator[Fact]:
    if fact is None:
        yield "DNS", "not asked in fast mode" if mode == Mode.FAST else "not asked"
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
        yield "Mail provider", fact["provider"]
    yield from _learned(fact["learned_at"], fact["expires_at"])


def _mailbox(fact: Mapping[str, Any]) -> Iterator[Fact]:
    yield "The server", ANSWERS.get(fact["answer"], fact["answer"])
    if fact["smtp_code"]:
        yield "Code", " ".join(filter(None, (str(fact["smtp_code"]), fact["enhanced"])))
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
    yield from _learned(fact["asked_at"], fact["expires_at"], verb="Asked")
    if fact["cached"]:
        yield "From memory", "an earlier probe, still fresh"


def _outcome(fact: Mapping[str, Any]) -> Iterator[Fact]:
    """Tell what became of a message that was really sent (mailsift.pipeline.outcomes.history)."""
    arrived = fact["answer"] == Answer.ACCEPTED
    yield "A message you sent", "arrived" if arrived else f"came back: {ANSWERS[fact['answer']]}"
    if fact["smtp_code"]:
        yield "Code", " ".join(filter(None, (str(fact["smtp_code"]), fact["enhanced"])))
    if reason := REASONS.get(fact["rule"]):
        yield "Read by rule", f"{fact['rule']}: {reason}"
    yield "Told by", fact["host"]
    yield from _learned(fact["asked_at"], fact["expires_at"], verb="Happened")


def _probe(fact: Mapping[str, Any]) -> Iterator[Fact]:
    yield "A mailbox that cannot exist", _CATCH_ALL[fact["catch_all"]]
    if fact["smtp_code"]:
        yield "Code", str(fact["smtp_code"])
    yield from _learned(fact["learned_at"], fact["expires_at"], verb="Asked")


def _learned(at: float, until: float, verb: str = "Learned") -> Iterator[Fact]:
    if at:
        yield verb, date_time(datetime.fromtimestamp(at, UTC))
        if until > at:
            yield "Fresh until", date_time(datetime.fromtimestamp(until, UTC))
