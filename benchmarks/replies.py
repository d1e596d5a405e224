"""How many replies a second are read: every one new, and repeated as one server's replies are."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mailsift.pipeline.replies.classifier import SmtpReply, classify
from mailsift.pipeline.replies.redaction import redact
from mailsift.pipeline.replies.table import Stage

_WORDS = (
    (250, "2.1.5", "Ok"),
    (550, "5.1.1", "<{user}@example.com>: Recipient address rejected: User unknown in virtual mailbox table"),
    (
        550,
        "5.1.1",
        "The email account that you tried to reach does not exist. Learn more at https://g.example {user}",
    ),
    (550, "5.4.1", "[{user}@example.com]: Recipient address rejected: Access denied. AS(201806281) [{user}]"),
    (450, "4.2.0", "<{user}@example.com>: Recipient address rejected: Greylisted for 300 seconds"),
    (554, "5.7.1", "Service unavailable; Client host [192.0.2.25] blocked using zen.spamhaus.org {user}"),
    (552, "5.2.2", "<{user}@example.com> Quota exceeded (mailbox for user is full)"),
    (550, "", "Administrative prohibition {user}"),
    (452, "4.5.3", "Error: too many recipients {user}"),
    (550, "5.2.1", "The email account {user} that you tried to reach is disabled."),
)
_OWN = ("192.0.2.25", "probe.example.net")


def replies(count: int) -> list[SmtpReply]:
    """Return that many replies, no two with the same words (but for the plain "Ok")."""
    return [
        SmtpReply(Stage.RCPT, code, enhanced, text.format(user=f"x{number:07}"))
        for number in range(count)
        for code, enhanced, text in (_WORDS[number % len(_WORDS)],)
    ]


def rate(heard: Sequence[SmtpReply]) -> float:
    """Return replies read and redacted a second."""
    started = time.perf_counter()
    for reply in heard:
        classify(reply, own=_OWN)
        redact(reply.text, own=_OWN)
    return len(heard) / (time.perf_counter() - started)


def main() -> None:
    """Print the two rates."""
    print(f"new words every time  {rate(replies(10_000)):>9,.0f} replies/s")
    print(f"words seen before     {rate(replies(len(_WORDS)) * 1_000):>9,.0f} replies/s")


if __name__ == "__main__":
    main()
