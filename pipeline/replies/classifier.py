"""Reads a mail server's reply: what it means for the mailbox."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from pipeline.facts import Answer
from pipeline.replies.row import MAILBOX, OURSELVES, Row, Stage
from pipeline.replies.table import ROWS

_MAX_TEXT = 2_000
_MAX_WAIT = 86_400.0
_REMEMBERED = 2_048


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a mail server.

    Attributes:
        stage: the step it answers.
        code: the three-digit code of its last line, 0 when the connection ended without one.
        enhanced: RFC 3463 code such as "5.1.1", or "" (it is then looked for in the text).
        text: the words of all lines.
    """

    stage: Stage
    code: int
    enhanced: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply means.

    Attributes:
        answer: the conclusion about the mailbox.
        rule: id of the row of pipeline.replies.table that decided.
        retry_after: seconds the server asked to wait, 0 when it did not say.
    """

    answer: Answer
    rule: str
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class _Matcher:
    """A row with its patterns compiled."""

    row: Row
    enhanced: re.Pattern[str] | None
    text: re.Pattern[str] | None
    unless: re.Pattern[str] | None

    def applies(self, code: str, enhanced: str, text: str) -> bool:
        if not code.startswith(self.row.codes):
            return False
        if self.enhanced and not self.enhanced.fullmatch(enhanced):
            return False
        if self.text and not self.text.search(text):
            return False
        return not (self.unless and self.unless.search(text))


def _compiled(pattern: str) -> re.Pattern[str] | None:
    return re.compile(pattern) if pattern else None


@cache
def _matchers(stage: Stage) -> tuple[_Matcher, ...]:
    """Return the rows that apply at a stage; most processes never read a reply and need none of them."""
    return tuple(
        _Matcher(row, _compiled(row.enhanced), _compiled(row.text), _compiled(row.unless))
        for row in ROWS
        if stage in row.stages
    )


_ENHANCED = re.compile(r"(?<![\w.])[245]\.(\d{1,3}\.\d{1,3})(?![\w.]*\d)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
_ANSI = re.compile(r"\x1b\[[0-?]{0,20}[ -/]{0,4}[@-~]|\x1b.?")
_ADDRESS = re.compile(
    r'<[^<>@\s]{0,64}(?:"[^"<>]{0,64}")?@[^<>\s]{1,255}>|"[^"]{0,64}"@[\w.-]{1,255}|[^\s<>@()\[\]:,;"\'=]{1,64}@[\w.-]{1,255}'
)
_ELISION = re.compile(r"\b([ldscjn]|qu|un|dell|all|nell|dall|sull|quest)['’](?=\w)")
_DELAY = re.compile(
    r"\b(?:in|for|after|within|wait|retry|again|dans|tra|fra|entro|over|em|en|apres|nach|na|despues de|apos)"
    r"(?: (?:about|at least|approximately|another|circa|environ))? (?P<count>\d{1,5}|an?|one) ?"
    r"(?:(?P<h>h(?:(?:ou|eu)?re?s?|oras?)?|stunden?|or[ae]|uur)"
    r"|(?P<m>m(?:in(?:ut\w{0,3}|s)?)?)|(?P<s>s(?:e[cgk]\w{0,5})?))\b"
)
_CLOCK_DELAY = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d):([0-5]\d)(?![\d:])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LATER = frozenset({Answer.GREYLISTED, Answer.RATE_LIMITED, Answer.TEMPORARY})


def classify(reply: Reply, *, own: Sequence[str] = ()) -> Reading:
    """Conclude what a reply means for the mailbox it was given for.

    The table is tried in order; a 4xx never says that a mailbox is not there, and nothing before RCPT says
    anything about a mailbox.

    Args:
        reply: as received; its text may be hostile and of any length.
        own: our IP addresses and HELO name; a refusal that names one of them is about us.
    """
    text = simplify(reply.text, own=own)
    enhanced = _ENHANCED.search(f"{reply.enhanced} {reply.text[:_MAX_TEXT]}")
    row = _decide(reply.stage, str(reply.code), enhanced[1] if enhanced else "", text)
    return Reading(row.answer, row.id, _delay(text) if row.answer in _LATER else 0.0)


def simplify(text: str, *, own: Sequence[str] = ()) -> str:
    """Return the words of a reply as the table reads them.

    Lower case without accents or apostrophes ("doesn't" as "does not", "l'adresse" as "l adresse"), one space
    between words, without enhanced codes; email addresses and our own names are replaced by the placeholders
    of pipeline.replies.row. At most 2,000 characters are looked at.
    """
    folded = unicodedata.normalize("NFKD", _CONTROL.sub(" ", text[:_MAX_TEXT])).casefold()[:_MAX_TEXT]
    folded = _ELISION.sub(r"\1 ", folded)
    if not folded.isascii():
        folded = "".join(char for char in folded if not unicodedata.combining(char))
    plain = _ADDRESS.sub(f" {MAILBOX} ", folded)
    for name in own:
        plain = _name_pattern(name).sub(OURSELVES, plain) if name else plain
    plain = _ENHANCED.sub(" ", plain)
    return _CONTRACTED.sub(_spelled_out, " ".join(plain.translate(_DROPPED).split()))


_CONTRACTED = re.compile(r"\b(?:(is|are|was|were|do|does|did|has|have|could|would|ca)nt|cannot)\b")


def _spelled_out(found: re.Match[str]) -> str:
    verb = found[1] or "ca"
    return "can not" if verb == "ca" else f"{verb} not"


_DROPPED = {ord("'"): None, ord("’"): None, ord("‘"): None, ord("`"): None, ord("_"): " "}


@lru_cache(maxsize=64)
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name.casefold())}(?![\w-])(?!\.\w)")


@lru_cache(maxsize=_REMEMBERED)
def _decide(stage: Stage, code: str, enhanced: str, text: str) -> Row:
    return next(matcher.row for matcher in _matchers(stage) if matcher.applies(code, enhanced, text))


def _delay(text: str) -> float:
    """Return the seconds a simplified text asks to wait, at most a day; 0 when it names none."""
    if clock := _CLOCK_DELAY.search(text):
        hours, minutes, seconds = (int(part) for part in clock.groups())
        return min(hours * 3600.0 + minutes * 60.0 + seconds, _MAX_WAIT)
    if named := _DELAY.search(text):
        count = int(named["count"]) if named["count"].isdecimal() else 1
        return min(float(count * _UNIT_SECONDS[named.lastgroup or "s"]), _MAX_WAIT)
    return 0.0
