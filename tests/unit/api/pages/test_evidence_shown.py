"""Evidence becomes facts in words; whatever the pipeline can write, the page can show."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from mailsift.api.pages.evidence import ScorePart, points, sections
from mailsift.api.pages.words import OPERATORS_DO, TO_DO, own_suggestion
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
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.judge_frame import Findings, judge_frame
from mailsift.pipeline.outcomes.outcome import OutcomePolicy, SentFact
from mailsift.pipeline.verdict import VERDICT_ROWS, Result
from tests.unit.pipeline.test_verdicts import frame

HOSTS = (MxHost("mx.a.test", 10, ("192.0.2.1", "2001:db8::1")), MxHost("mx2.a.test", 20, ("192.0.2.2",)))


def explained(findings: Findings, **row: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the pipeline judge one row; returns the verdict and the evidence it writes."""
    judged: pl.DataFrame = judge_frame(frame(row), findings, evidence=True)
    found = judged.row(0, named=True)
    return {name: found[name] for name in VERDICTS}, json.loads(found["evidence"])


def findings(
    mode: Mode = Mode.DEEP,
    *,
    domain: DomainFact | None = None,
    mailbox: MailboxFact | None = None,
    catch_all: CatchAllFact | None = None,
) -> Findings:
    return Findings(
        mode,
        {"a.test": domain} if domain else {},
        {"ann@a.test": mailbox} if mailbox else {},
        {"a.test": catch_all} if catch_all else {},
    )


def facts(verdict: dict[str, Any], evidence: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        section.title: {term: str(value) for term, value in section.facts}
        for section in sections(verdict, evidence)
    }


def test_every_stage_is_told_with_its_facts() -> None:
    routed = DomainFact(
        "a.test", DomainState.ROUTED, HOSTS, "google", implicit=True, learned_at=1e9, expires_at=1e9 + 60
    )
    accepted = MailboxFact(
        Answer.ACCEPTED,
        smtp_code=250,
        enhanced="2.1.5",
        text="Ok <b>",
        stage="rcpt",
        rule="accepted",
        host="mx.a.test",
        address="192.0.2.1",
        took_ms=1234,
        asked_at=1e9,
        expires_at=1e9 + 60,
        cached=True,
    )
    probe = CatchAllFact("a.test", Known.NO, 550, "No such user", learned_at=1e9, expires_at=1e9 + 60)
    verdict, evidence = explained(findings(domain=routed, mailbox=accepted, catch_all=probe), role=True)
    found = facts(verdict, evidence)
    assert list(found) == ["Address", "Domain", "Mailbox", "Random mailbox"]
    assert found["Address"]["Role address"] == "yes"
    assert found["Domain"]["MX 10"] == "mx.a.test (192.0.2.1, 2001:db8::1)"
    assert found["Domain"]["MX 20"] == "mx2.a.test (192.0.2.2)"
    assert "RFC 5321" in found["Domain"]["Route"]
    assert found["Domain"]["Mail provider"] == "Google"
    assert found["Mailbox"]["Code"] == "250 2.1.5"
    assert found["Mailbox"]["Took"] == "1,234 ms"
    assert found["Mailbox"]["Asked from"] == "this machine's default address"
    assert "2001-09-09" in found["Mailbox"]["Asked"]
    assert found["Random mailbox"]["A mailbox that cannot exist"].startswith("refused")
    assert [section.quote for section in sections(verdict, evidence)] == ["", "", "Ok <b>", "No such user"]
    assert [section.sentence for section in sections(verdict, evidence)] == [
        "The syntax is good.",
        "a.test takes mail.",
        "mx.a.test: accepts the mailbox.",
        "A mailbox that cannot exist was asked about, too: refused: the domain tells mailboxes apart.",
    ]
    parts = points(evidence)
    assert parts[1] == ScorePart("A role address such as info@ or sales@", -5)
    assert sum(part.points for part in parts) == verdict["score"] == 90


@pytest.mark.parametrize("answer", list(Answer))
def test_every_answer_of_a_mail_server_can_be_shown(answer: Answer) -> None:
    verdict, evidence = explained(findings(mailbox=MailboxFact(answer, blanket=True)), answer=answer.value)
    assert facts(verdict, evidence)["Mailbox"]["The server"]
    assert sum(part.points for part in points(evidence)) == verdict["score"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Answer.ACCEPTED, "arrived"), (Answer.NOT_FOUND, "came back"), (Answer.DISABLED, "came back")],
)
def test_what_became_of_a_message_is_told_as_that(answer: Answer, expected: str) -> None:
    fact = SentFact(
        answer, 550, host="sendgrid", asked_at=1e9, expires_at=1e9 + 60, policy=OutcomePolicy(bounced_days=7)
    )
    verdict, evidence = explained(findings(mailbox=fact), answer=answer.value, sent=True)
    found = facts(verdict, evidence)["Mailbox"]
    assert found["A message you sent"].startswith(expected)
    assert (found["Reported by"], "2001-09-09" in found["Happened"]) == ("sendgrid", True)
    days = "90 days" if answer is Answer.ACCEPTED else "7 days"
    assert found["By your policy"].endswith(f" for {days}")
    assert "message that was sent" in points(evidence)[0].why


SAID = {
    DomainState.NOT_ASKED: "DNS was not asked about a.test.",
    DomainState.ROUTED: "a.test takes mail.",
    DomainState.NOT_FOUND: "a.test does not exist.",
    DomainState.NO_MAIL_SERVER: "a.test has no mail server.",
    DomainState.NULL_MX: "a.test declares that it takes no mail (null MX).",
    DomainState.UNROUTABLE: "The mail servers of a.test have no public address.",
    DomainState.UNAVAILABLE: "DNS gave no answer about a.test.",
}


@pytest.mark.parametrize("state", list(DomainState))
def test_every_state_of_a_domain_can_be_shown(state: DomainState) -> None:
    fact = DomainFact("a.test", state, detail="SERVFAIL")
    verdict, evidence = explained(findings(Mode.MEDIUM, domain=fact), domain_state=state.value)
    found = facts(verdict, evidence)
    assert found["Domain"]["DNS answer"] == "SERVFAIL"
    assert sections(verdict, evidence)[1].sentence == SAID[state]
    assert "Mailbox" not in found


def test_what_was_not_asked_is_said() -> None:
    verdict, evidence = explained(findings(Mode.FAST), suggested_domain="b.test", domain_state="not_asked")
    found = facts(verdict, evidence)
    assert found["Domain"] == {}
    assert [section.sentence for section in sections(verdict, evidence)] == [
        "The syntax is good.",
        "DNS was not asked in fast mode.",
    ]
    assert found["Address"]["Probably meant"] == "b.test"
    broken, evidence = explained(findings(), rule="no_at", domain_state="not_asked")
    assert facts(broken, evidence)["Address"]["Syntax"] == "The address has no @ sign. (no_at)"


def test_every_result_comes_with_what_to_do_and_only_operators_with_their_own() -> None:
    assert set(TO_DO) == set(Result)
    assert set(OPERATORS_DO) < set(Result)
    text = " ".join(TO_DO.values())
    assert "port 25" not in text
    assert "doctor" not in text
    assert {own_suggestion(row.suggestion) for row in VERDICT_ROWS} == {""}
    assert own_suggestion("Did you mean ann@gmail.com?") == "Did you mean ann@gmail.com?"


def test_without_evidence_the_verdict_speaks_alone() -> None:
    verdict, _ = explained(findings(), free=True)
    assert facts(verdict, {}) == {
        "Address": {"Role address": "no", "Free provider": "yes", "Throwaway domain": "no"}
    }
    assert points({}) == []
