"""From a reply to its meaning: its class, its redacted words and whether everybody here gets the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from string import punctuation
from typing import Final

from pipeline.facts import Answer, Known
from pipeline.replies.classifier import Reading, Reply, classify
from pipeline.replies.redaction import redact

_SOMEBODY: Final = "somebody@recipient.invalid"
"""Stands in for the asked address, so that the same refusal of two mailboxes is read once and is equal."""

CATCH_ALL: Final = {Answer.ACCEPTED: Known.YES, Answer.NOT_FOUND: Known.NO}
"""What the answer to the random recipient says about the domain; anything else is unknown."""

NOT_WORTH_ASKING: Final = frozenset(
    {Answer.ACCEPTED, Answer.REFUSED_US, Answer.RATE_LIMITED, Answer.TEMPORARY}
)
"""After these to the random recipient the real ones are not asked: they would get the same answer.

Greylisting is not among them: its clock starts for each recipient when it is asked for the first time.
"""

_BLANKET_ANSWERS: Final = frozenset({Answer.UNCLEAR, Answer.DISABLED, Answer.FULL})
_BLANKET_CODES: Final = ("5.4.1", "5.7.")  # Exchange Online's "Access denied" for everybody, and policy


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with its meaning.

    Attributes:
        reply: as heard, the asked address replaced.
        reading: its class.
        text: its words for people, redacted.
    """

    reply: Reply
    reading: Reading
    text: str


class Listener:
    """Understands replies; remembers the ones it has seen, for servers repeat themselves.

    Args:
        own: our addresses and names: a reply that mentions them is about us.
    """

    def __init__(self, own: Sequence[str]) -> None:
        self._understand = lru_cache(maxsize=4096)(partial(_understand, own=tuple(own)))

    def hear(self, reply: Reply, address: str = "") -> Said:
        """Return the meaning of a reply to a question about the address ("" before RCPT)."""
        text = _without(reply.text, address)
        return self._understand(reply if text is reply.text else replace(reply, text=text))

    def goes_on(self, probe: str, reply: Reply) -> bool:
        """Tell whether real recipients are worth asking after this reply to the random one."""
        return self.hear(reply, probe).reading.answer not in NOT_WORTH_ASKING


def _understand(reply: Reply, *, own: Sequence[str]) -> Said:
    return Said(reply, classify(reply, own=own), redact(reply.text, own=own))


def _without(text: str, address: str) -> str:
    """Replace the address where the text quotes it, in whatever case."""
    if not address:
        return text
    lower, wanted = text.lower(), address.lower()
    if wanted not in lower or len(lower) != len(text):
        return text
    pieces = []
    start = 0
    while (at := lower.find(wanted, start)) >= 0:
        pieces += [text[start:at], _SOMEBODY]
        start = at + len(wanted)
    return "".join([*pieces, text[start:]])


def blanket_of(said: Said, address: str) -> str:
    """Return the refusal in a form that is equal for all who get it, "" when it speaks of this one mailbox.

    "User unknown" in so many words is never a blanket refusal, or nobody could ever be missing at a domain
    where only missing mailboxes are asked for.
    """
    reply = said.reply
    vague = (
        said.reading.answer in _BLANKET_ANSWERS
        or reply.enhanced.startswith(_BLANKET_CODES)
        or "access denied" in reply.text.lower()
    )
    if reply.code < 500 or not vague:
        return ""
    local = address.rpartition("@")[0].lower()
    words = (_neutral(word, local) for word in reply.text.lower().split())
    return " ".join([str(reply.code), reply.enhanced, *words])


def _neutral(word: str, local: str) -> str:
    """Blank out what differs from reply to reply: the mailbox's name, session ids, times."""
    return "#" if word.strip(punctuation) == local or any(map(str.isdigit, word)) else word
