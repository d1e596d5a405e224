"""How things are written on pages: figures and times; what states, results, tiers and webhooks are called.

Nothing here asks anybody; figures and times are Jinja filters, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from mailsift.events.retry import DeliveryState, DisabledReason, ErrorClass
from mailsift.jobs.admin.console import key_title
from mailsift.jobs.eta import MIXED_LINE, TRIAGE_LINE, EtaLine
from mailsift.jobs.views import WAITS_FOR_MEMORY, WAITS_FOR_PLACE, WAITS_FOR_STORAGE, WAITS_FOR_THREADS
from mailsift.pipeline.facts import Answer, DomainState, Mode, WaitReason
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import VERDICT_ROWS, Result, Status
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import DEFAULT_ZONE, abbreviation, local_text, zone_named
from mailsift.storage.sql.chunks import WORKER_GONE, Waiting

NOTHING: Final = "–"


def number(value: float | None) -> str:
    """Write 1234567 as 1,234,567; a float keeps one digit after the point."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def percent(part: float, whole: float = 1.0) -> str:
    """Write a part of a whole in percent; what is not nothing and not all is never shown as 0 % or 100 %."""
    if not whole:
        return NOTHING
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.0f} %" if share in {0, 100} else f"{share:.1f} %"


_SIZES: Final = ("bytes", "kB", "MB", "GB", "TB")


def size(count: float | None) -> str:
    """Write bytes as 1.2 MB; powers of 1000."""
    if count is None:
        return NOTHING
    power = 0
    while count >= 999.5 and power < len(_SIZES) - 1:
        count /= 1000
        power += 1
    return f"{count:.0f} {_SIZES[power]}" if power == 0 or count >= 99.95 else f"{count:.1f} {_SIZES[power]}"


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_TIME_UNITS: Final = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (1, "second"))
_TIME_UNIT_PAIRS: Final = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))


def duration(seconds: float | None) -> str:
    """Write a span as 2 h 13 min, 45 s or 300 ms."""
    if seconds is None:
        return NOTHING
    if 0.0005 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    whole = max(0, round(seconds))
    for large, large_name, small, small_name in _TIME_UNIT_PAIRS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def rough_duration(seconds: float) -> str:
    """Write a forecast as exactly as one can mean it."""
    step = 60 if seconds >= 600 else 10 if seconds >= 60 else 1
    return duration(max(1, step * round(seconds / step)))


def date_time(at: datetime | None, otherwise: str = NOTHING, zone: str = DEFAULT_ZONE) -> str:
    """Write a time as clocks of a zone show it, 21 Nov 2026, 05:31 CET; UTC is told on hover."""
    return otherwise if at is None else _time_tag(at.astimezone(UTC), local_text(at, zone))


@pass_context
def their_time(context: Context, at: datetime | None, otherwise: str = NOTHING, zone: str = "") -> str:
    """Write a time as the clocks of who looks at the page show it, or those of a zone."""
    return otherwise if at is None else date_time(at, otherwise, zone or context["zone"])


@pass_context
def time_or_value(context: Context, value: object) -> object:
    """Write what may be a time, and leave anything else as it is."""
    return date_time(value, NOTHING, context["zone"]) if isinstance(value, datetime) else value


@pass_context
def ago(context: Context, at: datetime | None, otherwise: str = NOTHING) -> str:
    """Write a time as its distance from now: 3 minutes ago, in 2 hours."""
    if at is None:
        return otherwise
    now: datetime = context["now"]
    seconds = (now - at).total_seconds()
    distance = _distance(seconds if seconds > 0 else 60 * round(-seconds / 60) if seconds < -60 else -seconds)
    text = "just now" if abs(seconds) < 5 else f"{distance} ago" if seconds > 0 else f"in {distance}"
    return _time_tag(at.astimezone(UTC), text)


def _distance(seconds: float) -> str:
    for length, name in _TIME_UNITS:
        count = int(seconds // length)
        if count:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "1 second"


def _time_tag(at: datetime, text: str) -> Markup:
    exact = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), exact, text
    )


def breakable(address: str) -> Markup:
    """Write an address so that a line may end before its @ sign, and nowhere else."""
    local, at, domain = address.rpartition("@")
    return Markup('{}<wbr><span class="domain">@{}</span>').format(local, domain) if at else escape(address)


_MARKED: Final = re.compile(r"(`[^`]+`|\*[^*]+\*)")


def code(text: str) -> Markup:
    """Write a sentence with `names` between backticks and *words* between stars, as documentation does."""
    parts = _MARKED.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part.strip("`"))
        if part.startswith("`")
        else Markup("<em>{}</em>").format(part.strip("*"))
        if part.startswith("*")
        else part
        for part in parts
    )


FILTERS: Final[dict[str, Any]] = {
    "key_title": key_title,
    "number": number,
    "counted": counted,
    "percent": percent,
    "date_time": their_time,
    "time_or_value": time_or_value,
    "ago": ago,
    "duration": duration,
    "size": size,
    "code": code,
    "breakable": breakable,
}

MODES: Final[Mapping[Mode, tuple[str, str]]] = {
    Mode.FAST: ("Fast", "Finds typos, broken addresses, throwaway domains and role addresses. Asks nobody."),
    Mode.MEDIUM: ("Medium", "Also finds domains that do not exist or take no mail, by asking DNS."),
    Mode.DEEP: (
        "Deep",
        "Also finds mailboxes that do not exist, by asking their mail servers. No mail is sent.",
    ),
}
"""Name and explanation."""

WARNINGS: Final[Mapping[str, str]] = {
    "probe_unavailable": "This machine cannot reach mail servers on port 25, so no mailbox was looked up.",
    "no_trusted_resolver": "No DNS resolver can be trusted right now, so addresses wait until one can."
    " Nothing is lost.",
    "no_way_out": "This machine can’t reach any mail server right now, so addresses wait for its network."
    " Nothing is lost.",
}

_SAVE_AGAIN: Final = "Save or export the list again, as CSV or Excel, and upload that."
_FEWER: Final = "Split the list and upload its parts."
AFTER_FAILURE: Final[Mapping[str, str]] = {
    "no_address_column": "Upload the list again to choose the column.",
    "column_not_found": "Upload the list again to choose the column.",
    "bad_csv": _SAVE_AGAIN,
    "bad_encoding": _SAVE_AGAIN,
    "bad_gzip": _SAVE_AGAIN,
    "bad_json": _SAVE_AGAIN,
    "bad_parquet": _SAVE_AGAIN,
    "bad_xlsx": _SAVE_AGAIN,
    "binary_file": _SAVE_AGAIN,
    "unclosed_quote": _SAVE_AGAIN,
    "unsupported_format": _SAVE_AGAIN,
    "line_too_long": _SAVE_AGAIN,
    "compression_bomb": "Unpack the list and upload it as it is.",
    "empty_file": "Upload the file that has the addresses.",
    "file_too_large": _FEWER,
    "too_many_rows": _FEWER,
    "too_many_columns": "Leave out columns you do not need, and upload the list again.",
    "looks_harvested": "Upload it again and choose medium mode, which asks no mail server.",
}
"""What to do about a list that is at fault: a row for each of mailsift.jobs.intake.models.LIST_FAULTS."""


def result_name(code: str) -> str:
    """Write a result code as words: mailbox_not_found as Mailbox not found."""
    known = {"null_mx": "Null MX", "dns_unavailable": "DNS unavailable"}
    return known.get(code, code.replace("_", " ").capitalize())


def result_choices() -> list[tuple[str, str]]:
    """Return every result code and what it is called."""
    return [(result.value, result_name(result.value)) for result in Result]


REASON_OF: Final[Mapping[str, str]] = {
    **{row.result.value: row.reason for row in VERDICT_ROWS},
    # where several rows of the table lead to one result
    Result.PASSED: "Every check of this mode passed; the mailbox was not looked up.",
    Result.UNVERIFIABLE: "The mail server's answers do not show whether the mailbox exists.",
    Result.DEFERRED: "The mail server kept saying “later” until the retries ran out.",
}
"""One sentence a result code."""

TO_DO: Final[Mapping[str, str]] = {
    Result.DELIVERABLE: "The mailbox exists.",
    Result.PASSED: "We found nothing wrong. Deep mode also finds out whether the mailbox exists.",
    Result.CATCH_ALL: "Send only if you know this contact: mail to such domains may bounce later.",
    Result.UNVERIFIABLE: "Send only if you know this contact: this mailbox cannot be looked up.",
    Result.DEFERRED: "Validate it again in a few hours.",
    Result.NOT_ASKED: "Validate it again, and give it more time.",
    Result.PROBE_BLOCKED: "Validate it again later. This says nothing about the mailbox.",
    Result.UNREACHABLE: "Validate it again tomorrow. If the domain stays silent, leave it out.",
    Result.DNS_UNAVAILABLE: "Validate it again in an hour.",
    Result.PROBE_UNAVAILABLE: "Validate it again once mail servers can be reached from here.",
    Result.MAILBOX_FULL: "Leave it out for now and validate it again in a week.",
    Result.UNKNOWN_SUFFIX: "Check the ending for a typo.",
    Result.DISPOSABLE: "Leave it out, or ask for a permanent address.",
    Result.MAILBOX_DISABLED: "Remove it.",
    Result.MAILBOX_NOT_FOUND: "Remove it.",
    Result.NO_MAIL_SERVER: "Remove it, or check the domain for a typo.",
    Result.NULL_MX: "Remove it.",
    Result.UNROUTABLE: "Remove it, or check the domain for a typo.",
    Result.DOMAIN_NOT_FOUND: "Remove it, or check the domain for a typo.",
    Result.SYNTAX_ERROR: "Correct it or remove it.",
}
"""What to do with an address, by result."""

OPERATORS_DO: Final[Mapping[str, str]] = {
    Result.PROBE_BLOCKED: "check the reputation, reverse DNS and HELO name of the address you probe from.",
    Result.PROBE_UNAVAILABLE: "run `mailsift doctor`, and open outbound port 25.",
}
"""What an operator can do about a result."""


_GENERAL: Final = frozenset(row.suggestion for row in VERDICT_ROWS)


def own_suggestion(suggestion: str) -> str:
    """Return what is suggested for this very address, "" for what is said of every such result."""
    return "" if suggestion in _GENERAL else suggestion


TIERS: Final = (
    (Tier.SEND, Status.VALID, "Safe to send", "We found nothing wrong with these."),
    (
        Tier.REVIEW,
        Status.RISKY,
        "To review",
        "We could not tell for sure. Send with care, or check again later.",
    ),
    (Tier.REMOVE, Status.INVALID, "To remove", "Mail to these would bounce, or is not wanted."),
)
"""A row for each thing to do: whose colour it has, what it is called, and what it is about."""
TIER_NAMES: Final = {Tier.SEND: "Send", Tier.REVIEW: "Review", Tier.REMOVE: "Remove"}
"""What to do, in a word."""
TIER_COLOURS: Final = {tier: colour for tier, colour, _, _ in TIERS}
"""The status whose colour a tier has."""
TIER_REASONS: Final = {
    "complained": "A reader reported a message as spam.",
    "unsubscribed": "This reader unsubscribed.",
    "suppressed": "On your suppression list.",
    "role": "Your policy holds back role addresses.",
    "free": "Your policy holds back free providers.",
    "low_score": "Below your minimum score.",
}
"""Why an address is held back that its verdict alone would not hold back."""

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
    Answer.DOUBTED: "one refusal of suspiciously many, not believed",
    Answer.UNREACHABLE: "no server answered in time",
    Answer.NOT_ALLOWED: "no server has an address that may be asked from here",
    Answer.NOT_ASKABLE: "cannot be asked for this address",
    Answer.OPTED_OUT: "the domain does not want to be asked",
    Answer.TOO_MANY_MISSING: "too many of the list do not exist there",
    Answer.PROBE_UNAVAILABLE: "this machine cannot reach port 25",
    Answer.GIVEN_UP: "not asked: the work on the address broke every time",
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

_PROVIDERS: Final[Mapping[str, str]] = {
    "att": "AT&T",
    "gmx": "GMX",
    "godaddy": "GoDaddy",
    "icloud": "iCloud",
    "ionos": "IONOS",
    "laposte": "La Poste",
    "mailru": "Mail.ru",
    "messagelabs": "MessageLabs",
    "microsoft365": "Microsoft 365",
    "n_able": "N-able",
    "netease": "NetEase",
    "outlook": "Outlook.com",
    "ovh": "OVH",
    "protonmail": "Proton Mail",
    "qq": "QQ",
    "sfr": "SFR",
    "sonicwall": "SonicWall",
    "tonline": "T-Online",
    "trendmicro": "Trend Micro",
    "workmail": "Amazon WorkMail",
    "yahoo_japan": "Yahoo! Japan",
}


def provider_name(key: str) -> str:
    """Return what people call a mail provider: its name, or the domain of its servers."""
    return _PROVIDERS.get(key) or (key if "." in key else key.replace("_", " ").title())


_PROVIDER_KEYS: Final = {name.lower(): key for key, name in _PROVIDERS.items()}


def provider_key(typed: str) -> str:
    """Return the key of the provider that people call so; a key or a domain is its own."""
    name = typed.strip().lower()
    return _PROVIDER_KEYS.get(name) or (name if "." in name else name.replace(" ", "_"))


def time_lines(lines: Sequence[EtaLine], most: int = 3) -> list[str]:
    """Say in sentences what a job's end depends on, the slowest first."""
    said = [_time_line(line) for line in lines[:most]]
    more = len(lines) - most
    return [*said, *([f"{more} more, done sooner."] if more > 0 else [])]


def _time_line(line: EtaLine) -> str:
    count = counted(line.addresses, "address")
    about = "" if line.seconds is None else f", about {rough_duration(line.seconds)}"
    if line.key == TRIAGE_LINE:
        return f"Not looked at yet: {count}{about}."
    again = f"; {number(line.again)} put off again and again" if line.again else ""
    if line.key == MIXED_LINE:
        return f"Many small providers: {count}{about}{again}."
    name = provider_name(line.key)
    if not line.rate:
        return f"{name} is on hold until an operator releases it: {count}."
    shared = f", shared with {counted(line.jobs, 'other job')}" if line.jobs else ""
    return f"{name} takes {_pace_text(line.rate)} from us{shared}: {count}{about}{again}."


def _pace_text(rate: float) -> str:
    if rate >= 1:
        return f"{number(round(rate, 1) if rate < 10 else round(rate))} a second"
    return f"{number(max(1, round(rate * 60)))} a minute"


def waits(waiting: Sequence[Waiting], zone: str = DEFAULT_ZONE) -> list[str]:
    """Say in sentences what a job waits for: how many addresses, for what, where and until when."""
    by_reason: dict[str, list[Waiting]] = {}
    for wait in waiting:
        by_reason.setdefault(wait.reason, []).append(wait)
    return [_wait_sentence(reason, some, zone) for reason, some in by_reason.items()]


def waits_beyond_rates(waiting: Sequence[Waiting], zone: str = DEFAULT_ZONE) -> list[str]:
    """Say what a job waits for beside the rates that providers take, which `time_lines` tells."""
    return waits([wait for wait in waiting if wait.reason != WaitReason.THROTTLED], zone)


_WAITS: Final[Mapping[str, str]] = {
    WaitReason.THROTTLED: "wait for the provider rate limit",
    WaitReason.GREYLISTED: "wait for greylisting",
    WaitReason.DEFERRED: "wait because the server said “later”",
    WaitReason.BLOCKED: "wait because the provider refuses us for now",
    WaitReason.TOO_MANY_MISSING: "wait because too many of the list do not exist at their provider",
    WaitReason.OUR_NETWORK: "wait for our network",
    WaitReason.RESOLVER: "wait for a resolver that can be trusted",
    WaitReason.SLOW: "wait for slow servers",
    WORKER_GONE: "wait until a worker that is gone has lost its claim on them",
    WaitReason.BUDGET: "wait for their turn",
}

_OWN_WAITS: Final = {
    WAITS_FOR_STORAGE: "storage",
    WAITS_FOR_MEMORY: "memory",
    WAITS_FOR_THREADS: "threads",
    WAITS_FOR_PLACE: "the place of its list or results",
}


def _wait_sentence(reason: str, some: list[Waiting], zone: str) -> str:
    count = sum(wait.addresses for wait in some)
    keys = [wait.throttle_key for wait in some if len(wait.throttle_key) > 1]
    first, last = (end(wait.until for wait in some).astimezone(zone_named(zone)) for end in (min, max))
    until = f"from {first:%H:%M:%S} to" if f"{first:%H:%M:%S}" != f"{last:%H:%M:%S}" else "until"
    until += f" {last:%H:%M:%S} {abbreviation(last)}"
    where = (
        f" at {provider_name(keys[0])}"
        if len(keys) == 1
        else f" at {number(len(keys))} providers"
        if keys
        else ""
    )
    if reason in _OWN_WAITS:
        return f"The job waits for {_OWN_WAITS[reason]}, {until}"
    waits_for = _WAITS.get(reason, f"wait ({reason.replace('_', ' ')})")
    one = waits_for.replace("wait", "waits", 1)
    return f"{counted(count, f'address {one}', f'addresses {waits_for}')}{where}, {until}"


DISABLED_REASONS: Final[Mapping[str, str]] = {
    DisabledReason.NO: "",
    DisabledReason.BY_OWNER: "It was disabled here.",
    DisabledReason.BY_RECEIVER: "The receiver asked for it in an answer (webhook-delivery: disable).",
    DisabledReason.GONE: "The receiver answered 410: it is gone for good.",
    DisabledReason.FAILING: "It failed for five days, with ten deliveries given up.",
}
"""Why a webhook is disabled."""

DELIVERY_STATES: Final[Mapping[str, str]] = {
    DeliveryState.PENDING: "Waiting to be sent",
    DeliveryState.DELIVERING: "Being sent",
    DeliveryState.SUCCEEDED: "Arrived",
    DeliveryState.EXHAUSTED: "Given up",
    DeliveryState.SKIPPED: "Skipped: the webhook was disabled",
}
"""Where a delivery stands."""

ATTEMPT_ERRORS: Final[Mapping[str, str]] = {
    ErrorClass.NONE: "It arrived.",
    ErrorClass.DNS: "The name of the receiver could not be looked up.",
    ErrorClass.REFUSED: "Nobody listens there: the connection was refused.",
    ErrorClass.RESET: "The receiver closed the connection.",
    ErrorClass.TIMEOUT: "The receiver did not answer in time.",
    ErrorClass.TLS: "No encrypted connection could be made: the receiver’s certificate is not valid.",
    ErrorClass.REDIRECT: "The receiver redirects; redirects are not followed. Register the final address.",
    ErrorClass.BLOCKED: "The address is not public; we send only to public addresses.",
    ErrorClass.HTTP_4XX: "The receiver refuses the request.",
    ErrorClass.HTTP_5XX: "The receiver had an internal error.",
    ErrorClass.NOT_SENT: "It was not sent because of a problem on our side: the resolver or this machine.",
}
"""Why an attempt failed."""
