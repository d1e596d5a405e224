"""One row of the reply table: what it looks at and what it concludes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.facts import Answer


class Stage(StrEnum):
    """The step of the SMTP session a reply answers."""

    CONNECT = "connect"
    BANNER = "banner"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    MAIL = "mail"
    RCPT = "rcpt"


RCPT = frozenset({Stage.RCPT})
ANY = frozenset(Stage)
BEFORE_RCPT = ANY - RCPT

OURSELVES = "our-own-name"
"""Stands in a reply's simplified text where it names our address or our HELO name."""

MAILBOX = "the-address"
"""Stands in a reply's simplified text where it quotes an email address."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule; all conditions must hold.

    Attributes:
        id: stable name, shown in the evidence.
        answer: the conclusion.
        reason: why this may be concluded, for people.
        codes: prefixes of the three-digit code ("5", "252"); "0" is a dropped connection.
        enhanced: pattern for the whole "subject.detail" of RFC 3463 ("1.1"); "" = not looked at. The class
            digit is left out: it repeats the code, and where they disagree the code counts.
        text: pattern searched in the simplified text (classifier.simplify); "" = not looked at.
        unless: the row does not apply where this is found in the simplified text; "" = nothing.
        stages: where in the session the row applies.
    """

    id: str
    answer: Answer
    reason: str
    codes: tuple[str, ...]
    enhanced: str = ""
    text: str = ""
    unless: str = ""
    stages: frozenset[Stage] = ANY
