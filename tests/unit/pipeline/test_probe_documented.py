"""docs/probe.md says what the prober does: its diagrams and tables are held against the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from mailsift.pipeline.facts import DEFINITE, Answer, CatchAllFact, Known, WaitReason
from mailsift.pipeline.probe.breaker import COUNTED, REFUSALS, Breaker, RefusalWatch
from mailsift.pipeline.probe.collector import (
    CATCH_ALL,
    MAX_DROPS,
    NOT_WORTH_ASKING,
    RULE_ANSWERS,
    WAITS,
    NextStep,
    ProbeContext,
    ProberRule,
    ReplyReader,
    ResultCollector,
    next_step,
    read_session,
)
from mailsift.pipeline.probe.config import ProbeConfig, parse_source
from mailsift.pipeline.probe.port25 import InterceptionDetector
from mailsift.pipeline.probe.queue import (
    CatchAllState,
    LearnedLimits,
    ProbeQueue,
    ProbeTarget,
    ProviderQueue,
    RouteQueue,
    SessionPlan,
)
from mailsift.pipeline.probe.session import DomainRecipients, Ending, Peer, SessionLog, TimedReply
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.replies.classifier import SmtpReply
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.throttle import MANY_ADDRESSES, SessionOutcome
from mailsift.pipeline.validator import COUNT_AS_TRY
from tests.unit.pipeline.smtp_stub import routed

PAGE: Final = (Path(__file__).parents[3] / "docs" / "probe.md").read_text(encoding="utf-8")
NO_REPLY: Final = {
    Answer.NOT_ASKED,
    Answer.DOUBTED,
    Answer.UNREACHABLE,
    Answer.NOT_ALLOWED,
    Answer.NOT_ASKABLE,
    Answer.OPTED_OUT,
    Answer.TOO_MANY_MISSING,
    Answer.PROBE_UNAVAILABLE,
    Answer.GIVEN_UP,
}
SESSION_S: Final = 10.0


def table(head: str) -> list[list[str]]:
    """Return the cells of the table whose first column has this head, without back-ticks."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def edges(title: str) -> set[tuple[str, str]]:
    """Return the edges of the diagram under a title."""
    drawing = PAGE[PAGE.index(f"## {title}\n") :].split("```")[1]
    return set(re.findall(r"^ *(\S+) --> ([^\s:]+)", drawing, re.MULTILINE))


def rows_after_a_session() -> Iterator[tuple[str, str, str, str]]:
    for endings, answered, condition, step in table("ending"):
        for ending in endings.split(", "):
            yield ending, answered, condition, step


def test_the_drawing_of_a_session_has_its_stages_and_endings() -> None:
    states = {state for edge in edges("A session") for state in edge} - {"[*]", "queued"}
    assert states == {*Stage, *Ending}
    stages, last = list(Stage), {ending for ending, end in edges("A session") if end == "[*]"} - {"queued"}
    assert last == set(Ending)
    assert set(pairwise(stages)) - edges("A session") == set()


def test_the_drawing_of_what_follows_is_the_table_of_what_follows() -> None:
    rows = list(rows_after_a_session())
    assert edges("After a session") == {(ending, step) for ending, _, _, step in rows}
    assert {ending for ending, *_ in rows} == set(Ending)
    assert {step for *_, step in rows} == set(NextStep)


@pytest.mark.parametrize(("ending", "answered", "condition", "step"), list(rows_after_a_session()))
def test_what_follows_a_session_is_what_the_table_says(
    ending: str, answered: str, condition: str, step: str
) -> None:
    """Make the session of the row and let the code decide."""
    here, other = Peer("mx1.a.test", "192.0.2.1"), Peer("mx2.a.test", "192.0.2.2")
    alone = condition == "there is no other server"
    source = parse_source("", helo_name="probe.test")
    route = RouteQueue(ProviderQueue(Provider("p"), ""), source, [here] if alone else [here, other])
    route.drops = MAX_DROPS - 1 if "for the third time" in condition else 0
    route.seconds_lost = SESSION_S if condition == "the servers have used up the time" else 0.0
    route.running, route.has_answered = (1, True) if "other sessions of ours" in condition else (0, False)
    final = condition == "the refusal holds for all its servers"
    refusal = SmtpReply(Stage.EHLO, 550, "", "No") if final else SmtpReply(Stage.EHLO, 421, "", "Busy")
    answers = {"ann@a.test": TimedReply(SmtpReply(Stage.RCPT, 250, "2.1.5", "Ok"), 1)}
    if condition == "it named a limit":
        limit = SmtpReply(Stage.RCPT, 452, "4.5.3", "Too many recipients")
        answers["bob@a.test"] = TimedReply(limit, 1)
    log = SessionLog(
        answers=answers if answered == "yes" else {},
        stage=Stage.RCPT if answered == "yes" else Stage.BANNER,
        refusal=refusal if ending == Ending.REFUSED else None,
        ending=Ending(ending),
        answered=len(answers) if answered == "yes" else 0,
        witness_reply=SmtpReply(Stage.RCPT, 550, "5.1.1", "User unknown") if "witness" in condition else None,
        is_half_answered="sent together" in condition,
    )
    singly = condition.startswith("it was asked singly")
    plan = SessionPlan(route, here, [DomainRecipients("a.test", "", ("ann@a.test", "bob@a.test"))], singly)
    session = read_session(plan, log, ReplyReader([]), elapsed=1.0)
    patient = condition == "the caller is patient"
    assert next_step(session, session_s=SESSION_S, patient=patient) == step


def collect(recipients: int, people: list[str]) -> tuple[ResultCollector, RouteQueue]:
    """Queue people of a domain that is known to be no catch-all."""
    context = ProbeContext(
        ProbeConfig(helo_name="probe.test"),
        lambda: 0.0,
        ReplyReader([]),
        None,
        InterceptionDetector(Providers()),
    )
    catch_alls = CatchAllState(lambda: "token")
    queue = ProbeQueue(catch_alls, LearnedLimits())
    collector = ResultCollector(context, queue, catch_alls, RefusalWatch(Breaker(), ""), SESSION_S)
    route = queue.route(
        ProbeTarget("", routed("a.test")),
        parse_source("", helo_name="probe.test"),
        Provider("p", recipients=recipients),
        lambda _: True,
    )
    catch_alls.learn(CatchAllFact("a.test", Known.NO), preference=10)
    queue.put(route, "a.test", people)
    return collector, route


def test_a_session_that_was_too_many_when_it_began_is_held_once_more_when_the_others_have_ended() -> None:
    collector, route = collect(1, ["ann@a.test", "bob@a.test"])
    first, second = collector.queue.next_sessions(2, 0.0)
    (recipient,) = first.groups[0].addresses
    accepted = {recipient: TimedReply(SmtpReply(Stage.RCPT, 250, "2.1.5", "Ok"), 1)}
    too_many = SmtpReply(Stage.BANNER, 421, "4.7.0", "Too many connections")
    refused = SessionLog(stage=Stage.BANNER, refusal=too_many, ending=Ending.REFUSED)
    for plan, log in (
        (first, SessionLog(answers=accepted, stage=Stage.RCPT, ending=Ending.DONE, answered=1)),
        (second, refused),
    ):
        collector.queue.finish(plan)
        assert collector.record_session(plan, log, elapsed=0.1).outcome is SessionOutcome.CLEAN
    assert not collector.waits
    (third,) = collector.queue.next_sessions(2, 0.0)
    collector.queue.finish(third)
    collector.record_session(third, refused, elapsed=0.1)
    assert route.closed is not None  # nothing was beside this one
    assert {wait.reason for wait in collector.waits.values()} == {WaitReason.DEFERRED}


def test_a_route_that_a_refusal_closed_keeps_it_when_its_other_sessions_end() -> None:
    collector, route = collect(1, ["ann@a.test", "bob@a.test"])
    first, second = collector.queue.next_sessions(2, 0.0)
    blocked = SmtpReply(Stage.EHLO, 554, "5.7.1", "Your address is on a block list")
    for plan, log in (
        (first, SessionLog(stage=Stage.EHLO, refusal=blocked, ending=Ending.REFUSED)),
        (second, SessionLog(stage=Stage.CONNECT, ending=Ending.UNREACHED)),
    ):
        collector.queue.finish(plan)
        collector.record_session(plan, log, elapsed=0.1)
    assert {fact.answer for fact in collector.mailboxes.values()} == {Answer.REFUSED_US}
    assert route.closed is not None
    assert route.closed[0].answer is Answer.REFUSED_US


def test_an_acceptance_confirms_only_the_refusals_of_sessions_that_had_ended_before_its_own_began() -> None:
    collector, route = collect(5, ["ann@a.test", "bob@a.test", "joe@a.test", "kim@a.test", "eve@a.test"])
    route.add("a.test", ["fay@a.test"])
    accepted, refused = SmtpReply(Stage.RCPT, 250), SmtpReply(Stage.RCPT, 550, "5.1.1", "User unknown")
    longer, shorter = collector.queue.next_sessions(2, 0.0)
    for plan in (shorter, longer):
        who = [address for group in plan.groups for address in group.addresses]
        log = SessionLog(stage=Stage.RCPT, answered=plan.size)
        log.answers |= {address: TimedReply(refused, 1) for address in who}
        if plan is longer:  # it accepted ann before the defence set in, in both sessions
            log.answers["ann@a.test"] = TimedReply(accepted, 1)
            log.witness, log.witness_reply = "ann@a.test", refused
        collector.queue.finish(plan)
        collector.record_session(plan, log, elapsed=0.1)
    answers = {who: fact.answer for who, fact in collector.mailboxes.items()}
    assert answers.pop("ann@a.test") is Answer.ACCEPTED
    assert set(answers) == {"bob@a.test", "joe@a.test", "kim@a.test", "eve@a.test", "fay@a.test"}
    assert set(answers.values()) == {Answer.DOUBTED}


@pytest.mark.parametrize(("again", "answer"), [(550, Answer.DOUBTED), (250, Answer.NOT_FOUND)])
def test_a_refused_witness_speaks_for_the_sessions_that_end_after_it_too(again: int, answer: Answer) -> None:
    collector, route = collect(2, ["ann@a.test", "bob@a.test", "joe@a.test", "kim@a.test"])
    route.witness = "eve@a.test"
    refused = SmtpReply(Stage.RCPT, 550, "5.1.1", "User unknown")
    plans = collector.queue.next_sessions(2, 0.0)
    for plan in plans:
        log = SessionLog(stage=Stage.RCPT, answered=plan.size)
        log.answers |= {who: TimedReply(refused, 1) for group in plan.groups for who in group.addresses}
        if plan is plans[0]:
            log.witness, log.witness_reply = route.witness, replace(refused, code=again)
        collector.queue.finish(plan)
        collector.record_session(plan, log, elapsed=0.1)
    answers = {who: fact.answer for who, fact in collector.mailboxes.items() if fact.smtp_code}
    assert len(answers) >= 3
    assert set(answers.values()) == {answer}


@pytest.mark.parametrize(("waiting", "expected"), [(MANY_ADDRESSES - 1, ()), (MANY_ADDRESSES, ("a.test",))])
def test_the_throttle_hears_of_domains_once_many_addresses_have_waited(
    waiting: int, expected: tuple[str, ...]
) -> None:
    catch_alls = CatchAllState(lambda: "token")
    queue = ProbeQueue(catch_alls, LearnedLimits())
    catch_alls.learn(CatchAllFact("a.test", Known.NO), preference=10)
    route = queue.route(
        ProbeTarget("", routed("a.test")),
        parse_source("", helo_name="probe.test"),
        Provider("p", careful=5),
        lambda _: True,
    )
    queue.put(route, "a.test", [f"n{number}@a.test" for number in range(waiting)])
    (plan,) = queue.next_sessions(1, 0.0)
    for domain, addresses in queue.trim(plan, 3).items():  # what comes back has been there before
        queue.put(route, domain, addresses)
    assert plan.ask.domains == expected


def test_what_every_answer_leads_to() -> None:
    documented = {Answer(name): cells for name, *cells in table("answer")}
    assert set(documented) == set(Answer) - NO_REPLY
    for answer, cells in documented.items():
        counted = "no" if answer not in COUNTED else "refused" if answer in REFUSALS else "accepted"
        assert cells == [
            CATCH_ALL.get(answer, Known.UNKNOWN).value,
            "no" if answer in NOT_WORTH_ASKING else "yes",
            WAITS[answer].value if answer in WAITS else "",
            "yes" if answer in DEFINITE else "no",
            counted,
        ]
    assert not NO_REPLY & {*CATCH_ALL, *NOT_WORTH_ASKING, *WAITS, *DEFINITE, *COUNTED}


def test_the_facts_without_a_reply_and_the_outcomes() -> None:
    assert [rule for rule, *_ in table("rule")] == list(ProberRule)
    assert {ProberRule(rule): Answer(answer) for rule, answer, _ in table("rule")} == RULE_ANSWERS
    assert set(RULE_ANSWERS.values()) <= NO_REPLY | {Answer.REFUSED_US}
    assert [outcome for outcome, *_ in table("outcome")] == list(SessionOutcome)


def test_why_an_address_waits_and_what_counts_as_a_try() -> None:
    assert {WaitReason(reason): tries for reason, _, tries in table("reason")} == {
        reason: "yes" if reason in COUNT_AS_TRY else "no" for reason in WaitReason
    }


DEFAULTS: Final[Mapping[str, object]] = {
    "ProbeConfig": ProbeConfig(helo_name="probe.test"),
}


@pytest.mark.parametrize(("value", "where"), [(value, where) for value, where, _ in table("value")])
def test_the_numbers_are_those_of_the_code(value: str, where: str) -> None:
    *modules, name = where.split(".")
    owner: object = DEFAULTS.get(modules[-1]) or import_module(".".join(["mailsift.pipeline", *modules]))
    assert str(getattr(owner, name)) == value


def test_every_module_of_the_prober_is_on_the_page() -> None:
    folder = Path(__file__).parents[3] / "pipeline" / "probe"
    named = {cells[0] for cells in table("module")}
    assert named == {f"pipeline/probe/{path.name}" for path in folder.glob("[!_]*.py")}
