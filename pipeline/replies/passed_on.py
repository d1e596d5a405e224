"""Finds in a text the reply of another server that it passes on: "host mx.example said: 550 …".

So speak servers that ask one behind them while they are asked (Postfix' address verification, Exim's
callouts, gateways), and reports of what became of a message. What stands around such a reply is of who
passes it on.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mailsift.pipeline.replies.table import Stage


class PassedOn(NamedTuple):
    """A reply within a text.

    Attributes:
        before: what stands before it, without the words that introduce it.
        stage: the step of the other session that it answered; RCPT where nothing is told.
        code: its three-digit code.
        text: its words.
    """

    before: str
    stage: Stage
    code: int
    text: str


_VERB: Final = (
    r"(?:said|says|replied|answered|responded|returned|responds|response|reply|error|reason|failed)"
)
_COMMAND: Final = r"[^\n]{1,400}?"
_INTRODUCTIONS: Final = (
    # Exim, and what its callouts add ("Called: 192.0.2.1 Sent: RCPT TO:<…> Response: 550 …")
    rf"error from remote mail(?: ?server|er)? after (?P<exim>{_COMMAND}): ?\s*(?:host \S+ \[[^\]\s]*\]: )?",
    rf"\bsent: ?(?P<callout>{_COMMAND})\s+response:\s*",
    # Postfix
    r"\bhost \S+(?: \[[^\]\s]*\])? (?:said|(?P<greeting>refused to talk to me)):\s*",
    # qmail
    r"\b(?P<qmail>sender was rejected|greeting failed|my name was rejected)\.?\s+remote host said:\s*",
    # Exchange Online, and anybody else
    rf"\b{_VERB}(?: (?:with|was|is|code|status|message|from \S+))*:?\s*|[-=]>\s*|[:;]\s*",
)
_CODE: Final = (
    r"(?P<code>4(?:00|[2-7]\d)|5[0-57]\d)"
    r"(?=[ -]\W{0,3}(?:[45]\.\d{1,3}\.\d|[^\W\d]|[45]\d\d[ -]))"
    r"(?![ -]?(?:[kmgt]i?b|bytes|octets|messages|mails|users|recipients|seconds|minutes|times)\b)"
)
_QUOTES: Final = r"['\"(<\[#]{0,3}"
_PASSED_ON = re.compile(
    rf"(?:(?:{'|'.join(_INTRODUCTIONS)})(?:smtp; ?)?{_QUOTES}{_CODE}"
    rf"|\b{_VERB}(?: with)?:?\s*{_QUOTES}(?=(?P<class>[45])\.\d{{1,3}}\.\d{{1,3}}\b))[ -]?",
    re.IGNORECASE,
)
_NESTED = re.compile(rf"\A\W{{0,3}}(?:[45]\.\d{{1,3}}\.\d{{1,3}} )?{_CODE}[ -]", re.IGNORECASE)
"""A text that begins with a code: another one's, for the server's own has been taken off."""
_SOME_CODE = re.compile(r"(?<![\d.])[45](?:\d\d[ -]|\.\d{1,3}\.\d)")
"""What no reply is passed on without: looked for first, for few have it."""
_NEXT_LINE = re.compile(r"\A\W{0,3}([45]\d\d)-[\s\S]*?\s\1[ -]")

_IN_REPLY = re.compile(r"\s*\(in reply to (?P<command>[^()]{1,60})\)\)?", re.IGNORECASE)
_BEFORE_RCPT = re.compile(
    r"(?:pipelined |sending )?(?:MAIL FROM|[EHL]+LO\b|STARTTLS|AUTH\b|initial connection|connect)",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:['\"/]?\s*giving up on \S+|['\"]?\s*#SMTP#|\}[;\]][\s\S]*|['\">]+\s*\Z)", re.IGNORECASE
)
"""What a reporter writes behind a reply (qmail, Exchange)."""


def find_passed_on(text: str) -> PassedOn | None:
    """Return the first reply of another server that a text passes on; None where there is none.

    A reply of several lines repeats its code (RFC 5321 section 4.2.1): that is none within it.
    """
    if not _SOME_CODE.search(text):
        return None
    found = _NESTED.match(text) or _PASSED_ON.search(_without_codes_of_lines(text))
    if found is None:
        return None
    groups = found.groupdict()
    said = found.string[found.end() :]
    in_reply = _IN_REPLY.search(said)
    commands = (groups.get("exim"), groups.get("callout"), in_reply and in_reply["command"])
    came_early = any(_BEFORE_RCPT.match(command) for command in commands if command)
    stage = Stage.MAIL if came_early or groups.get("greeting") or groups.get("qmail") else Stage.RCPT
    code = int(groups["code"] or f"{groups['class']}50")
    words = _END.sub("", _IN_REPLY.sub("", said))
    return PassedOn(found.string[: found.start()], stage, code, words)


def _without_codes_of_lines(text: str) -> str:
    lines = _NEXT_LINE.match(text)
    return re.sub(rf"(?<=\s){lines[1]}[ -]", "", text) if lines else text
