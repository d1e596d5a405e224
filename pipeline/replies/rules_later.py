"""Reply rows that say "later": rates, greylisting, trouble that passes."""

from __future__ import annotations

from pipeline.facts import Answer
from pipeline.replies import words
from pipeline.replies.row import BEFORE_RCPT, RCPT, Row

_MANY = words.any_of(
    r"\btoo (?:many|much)\b(?! hops| relays| received)",
    r"\btoo (?:fast|quickly|often|frequently|rapidly|soon)\b",
    r"\bexcess(?:ive(?:ly)?)?\b",
    r"\bzu viele\b|\btrop de\b|\bdemasiad[ao]s\b|\btropp[ei]\b|\bte veel\b|\bmuit[ao]s\b",
)
_RATE = words.any_of(
    r"\brate[ -]?(?:control|exceed|limit|overlimit)|\bratelimit",
    r"\b(?:sending|receive|connection|message|submission|unusual) rate\b|\bat a rate\b",
    r"\bthrottl",
    r"\bslow(?:ing)? down\b",
    r"\bfrequency\b",
    r"\bconcurren|\bsimultane",
    r"\bper (?:hour|day|minute|second)\b|\bhourly\b|\bdaily\b",
    r"\bunexpected volume\b|\buser complaints\b",
    r"\bthread limit\b",
    r"\b(?:sender|sending|send|daily|hourly|rate|connection) (?:message |mail )?quota\b",
)
_LIMIT = words.any_of(
    r"\blimit (?:is |was |has been )?(?:exceeded|reached)\b",
    r"\bexceed\w* (?:\w+ ){0,3}(?:limit|maximum)\b",
    r"\b(?:recipient|connection|session|message) limit\b",
    r"\bmax(?:imum)? (?:number of |concurrent )?(?:connections|recipients|messages|sessions)\b",
    r"\bmaximum (?:\w+ ){0,3}rate\b",
    r"\blimits? for how many\b",
)
_GREY = words.any_of(
    r"gr[ea]y[ -]?list",
    r"\bpostgrey\b",
    r"\blistes? grises?\b|\blista gris\b|\blista grigia\b|\blista cinza\b|\bgrijze lijst\b",
    r"\bnot yet authori[sz]ed to deliver\b",
    r"\bretry timeout not reached\b",
    r"\binternal resources? (?:is |are )?temporarily unavailable\b",
)
_GREY_MANNER = words.any_of(
    r"\btemporar(?:il)?y (?:rejected|deferred|delayed)\b",
    r"\b(?:deferred|come back later)\b",
    r"\b(?:try(?: it)?|come|retry|send)(?: again| back)? (?:in|after) \d",
)
_TEMPORARILY = r"\btemporar(?:y|ily)\b|\btry (?:again )?later\b|\bat this time\b|\bcurrently unavailable\b"

BEFORE_WORDS = (
    Row(
        "dropped",
        Answer.TEMPORARY,
        "The connection ended without a reply.",
        codes=("0",),
    ),
)

RATE = (
    Row(
        "greylisted",
        Answer.GREYLISTED,
        "The reply speaks of greylisting: come back later, from the same address.",
        codes=("4", "5"),
        text=_GREY,
    ),
    Row(
        "rate",
        Answer.RATE_LIMITED,
        "The reply speaks of how much or how fast we send, or the mailbox receives.",
        codes=("4", "5"),
        text=words.any_of(_MANY, _RATE),
    ),
    Row(
        "limit",
        Answer.RATE_LIMITED,
        "The reply speaks of a limit that is not the mailbox's storage.",
        codes=("4", "5"),
        text=_LIMIT,
        unless=r"\bstorage\b|\bsize\b|\blength\b|\bspace\b|\bquota\b|\bfull\b|\binodes?\b",
    ),
)

PACE = (
    Row(
        "server-trouble",
        Answer.TEMPORARY,
        "RFC 3463 X.3.X and X.4.X: the system or the network has trouble, not the mailbox.",
        codes=("4",),
        enhanced=r"[34]\.\d+",
    ),
    Row(
        "server-error-words",
        Answer.TEMPORARY,
        "The server speaks of trouble of its own.",
        codes=("4",),
        text=r"\btemporary server error\b|\btls not available\b|\bconfiguration error\b|\boverload",
    ),
    Row(
        "rate-code",
        Answer.RATE_LIMITED,
        "4.7.0, 4.7.28 and 4.7.500 to 4.7.799 are what large providers answer to a rate or a reputation.",
        codes=("4",),
        enhanced=r"7\.(?:0|28|[567]\d\d)",
    ),
    Row(
        "greylisting-manner",
        Answer.GREYLISTED,
        "A temporary refusal that asks for another try after a while is how greylisting speaks.",
        codes=("4",),
        text=_GREY_MANNER,
        stages=RCPT,
    ),
)

PERMANENT_BUT_PASSING = (
    Row(
        "passing-despite-code",
        Answer.TEMPORARY,
        "The code is permanent, but the words say that it will pass.",
        codes=("5",),
        text=_TEMPORARILY,
        stages=RCPT,
    ),
)

OTHERWISE = (
    Row(
        "temporary",
        Answer.TEMPORARY,
        "RFC 5321 section 4.2.1: a 4yz reply asks for another try.",
        codes=("4",),
    ),
    Row(
        "unclear",
        Answer.UNCLEAR,
        "A permanent refusal that speaks neither of the mailbox nor of us.",
        codes=("5",),
        stages=RCPT,
    ),
    Row(
        "not-a-refusal",
        Answer.TEMPORARY,
        "Before RCPT only a refusal means something for the mailbox's answer: ask again.",
        codes=("",),
        stages=BEFORE_RCPT,
    ),
    Row(
        "odd-code",
        Answer.UNCLEAR,
        "RFC 5321 has no such reply to RCPT.",
        codes=("",),
    ),
)
