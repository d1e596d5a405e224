"""What states, results and reasons are called on pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from api.pages.filters import number
from jobs.views import JobState, Waiting
from pipeline.facts import Answer, DomainState, Mode
from pipeline.judge.table import ROWS
from pipeline.probe.words import WaitReason
from pipeline.verdict import Result

MODES: Final[Mapping[Mode, tuple[str, str]]] = {
    Mode.FAST: ("Fast", "Syntax, throw-away, free and role lists. Asks nobody; a million rows in seconds."),
    Mode.MEDIUM: ("Medium", "And DNS: does the domain exist, and who takes its mail?"),
    Mode.DEEP: ("Deep", "And the mail server: does this mailbox exist? No mail is sent."),
}
"""Name and explanation."""

DOING: Final[Mapping[JobState, str]] = {
    JobState.UPLOADING: "Waiting for a worker to read the list",
    JobState.INTAKE: "Reading the list",
    JobState.QUEUED: "Waiting for its turn",
    JobState.RUNNING: "Validating",
    JobState.PAUSED: "Paused",
    JobState.FINALIZING: "Writing the results",
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
}

WARNINGS: Final[Mapping[str, str]] = {
    "probe_unavailable": "This machine cannot reach mail servers on port 25, so mailboxes were not looked up."
    " An operator can run mailsift doctor, which says what to open.",
}

REASON_OF: Final[Mapping[str, str]] = {
    **{row.result.value: row.reason for row in ROWS},
    # where several rows of the table lead to one result
    Result.PASSED: "Every check of this mode passed; the mailbox was not looked up.",
    Result.UNVERIFIABLE: "The mail server's answers do not tell whether the mailbox exists.",
    Result.DEFERRED: "The mail server said later until the retries ran out.",
}
"""One sentence a result code."""

ANSWERS: Final[Mapping[str, str]] = {
    Answer.NOT_ASKED: "not asked",
    Answer.ACCEPTED: "accepts the mailbox",
    Answer.NOT_FOUND: "no such mailbox",
    Answer.DISABLED: "mailbox closed",
    Answer.FULL: "mailbox full",
    Answer.GREYLISTED: "come back later (greylisting)",
    Answer.RATE_LIMITED: "slow down",
    Answer.TEMPORARY: "temporary failure",
    Answer.REFUSED_US: "refuses us, not the mailbox",
    Answer.UNCLEAR: "a refusal that does not say why",
    Answer.DOUBTED: "a refusal among too many, not believed",
    Answer.UNREACHABLE: "no server answered in time",
    Answer.NOT_ASKABLE: "cannot be asked for this address",
    Answer.PROBE_UNAVAILABLE: "this machine cannot reach port 25",
}

DOMAIN_STATES: Final[Mapping[str, str]] = {
    DomainState.NOT_ASKED: "not asked",
    DomainState.ROUTED: "takes mail",
    DomainState.NOT_FOUND: "does not exist",
    DomainState.NO_MAIL_SERVER: "has no mail server",
    DomainState.NULL_MX: "declares that it takes no mail (null MX)",
    DomainState.UNROUTABLE: "mail servers without a public address",
    DomainState.UNAVAILABLE: "DNS gave no answer",
}

_WAITS: Final[Mapping[str, str]] = {
    WaitReason.THROTTLED: "wait for our own politeness",
    WaitReason.GREYLISTED: "wait for greylisting",
    WaitReason.DEFERRED: "wait because the server said later",
    WaitReason.BLOCKED: "wait because the provider refuses us for now",
    WaitReason.SLOW: "wait for slow servers",
    WaitReason.BUDGET: "wait for their turn",
}


def result_name(code: str) -> str:
    """Write a result code as words: mailbox_not_found as Mailbox not found."""
    known = {"null_mx": "Null MX", "dns_unavailable": "DNS unavailable"}
    return known.get(code, code.replace("_", " ").capitalize())


def result_choices() -> list[tuple[str, str]]:
    """Return every result code and what it is called."""
    return [(result.value, result_name(result.value)) for result in Result]


def waits(waiting: Sequence[Waiting]) -> list[str]:
    """Say in sentences what a job waits for: how many addresses, for what, where and until when."""
    return [_sentence(reason, list(some)) for reason, some in _by_reason(waiting)]


def _by_reason(waiting: Iterable[Waiting]) -> Iterator[tuple[str, list[Waiting]]]:
    grouped: dict[str, list[Waiting]] = {}
    for wait in waiting:
        grouped.setdefault(wait.reason, []).append(wait)
    yield from grouped.items()


def _sentence(reason: str, some: list[Waiting]) -> str:
    count = sum(wait.addresses for wait in some)
    lanes = [wait.lane for wait in some if len(wait.lane) > 1]
    first, last = min(wait.until for wait in some), max(wait.until for wait in some)
    until = (
        f"until {_clock(first)}"
        if _clock(first) == _clock(last)
        else f"from {_clock(first)} to {_clock(last)}"
    )
    where = f" at {lanes[0]}" if len(lanes) == 1 else f" at {number(len(lanes))} providers" if lanes else ""
    told = _WAITS.get(reason, f"wait ({reason.replace('_', ' ')})")
    return f"{number(count)} {_plural(count, told)}{where}, {until} UTC"


def _plural(count: int, told: str) -> str:
    return f"address {told.replace('wait', 'waits', 1)}" if count == 1 else f"addresses {told}"


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S")
