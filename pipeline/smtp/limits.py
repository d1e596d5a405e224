"""What servers say about the size of a session, and what this process has learned from it."""

from __future__ import annotations

import re
from typing import Final

from pipeline.replies.classifier import Reply

# "452 4.5.3 Too many recipients", "421 4.7.0 too many errors", "421 Too many messages in this session"
_LIMIT: Final = re.compile(
    r"\btoo many (?:\w+ )?"
    r"(?:recipients?|rcpts?|addresses|messages|mails?|errors|invalid|unknown|bad|commands)\b"
    r"|\b(?:recipients?|rcpts?|messages?) (?:limit|per (?:session|connection|message|transaction))"
    r"|\bmax(?:imum)?\.? (?:number of )?(?:recipients?|rcpts?)",
    re.IGNORECASE,
)
# "451 4.3.0 Multiple destination domains per transaction is unsupported."
_ONE_DOMAIN: Final = re.compile(r"\bmultiple (?:\w+ )?domains\b", re.IGNORECASE)

_ONE_DOMAIN_PROVIDERS: Final = ("google",)


def wants_one_domain(reply: Reply) -> bool:
    """Tell whether the reply asks for a transaction of its own for every domain."""
    return 400 <= reply.code <= 499 and _ONE_DOMAIN.search(reply.text) is not None


def is_session_limit(reply: Reply) -> bool:
    """Tell whether the reply to RCPT is about this session's size, not about the recipient.

    RFC 5321 section 4.5.3.1.10 and RFC 3463 (x.5.3) for the number of recipients.
    """
    if not 400 <= reply.code <= 499:
        return False
    return reply.enhanced == "4.5.3" or _LIMIT.search(reply.text) is not None or wants_one_domain(reply)


class Learned:
    """Limits the providers have shown to this process; they only ever get tighter."""

    def __init__(self) -> None:
        self._recipients: dict[str, int] = {}
        self._one_domain = set(_ONE_DOMAIN_PROVIDERS)

    def recipients(self, provider: str, otherwise: int) -> int:
        """Return the RCPT commands a session may have."""
        return max(1, min(self._recipients.get(provider, otherwise), otherwise))

    def one_domain(self, provider: str) -> bool:
        """Tell whether every domain needs a transaction of its own."""
        return provider in self._one_domain

    def saw_recipients(self, provider: str, taken: int) -> None:
        """Remember that a session was full after so many recipients."""
        self._recipients[provider] = min(taken, self._recipients.get(provider, taken))

    def saw_one_domain(self, provider: str) -> None:
        """Remember that recipients of several domains do not go together."""
        self._one_domain.add(provider)
