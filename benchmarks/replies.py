"""How many replies a CPU second are read: worded in ways of their own, every one new, and repeated."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice, product

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


_SUBJECTS = (
    "The account,Das Postfach,La cuenta,Le compte,Skrzynka,Our postmaster,Mail,This office,Ящик,Il nome"
)
_MIDDLES = (
    "you wrote to,de cette personne,meiner Kollegin,for that name,używana kiedyś,пользователя,of old times"
)
_SAYINGS = "went away,ist verzogen,ya no está,n'y est plus,nie działa,не нужен,is of no use,likes tea,gone"


def odd_replies(start: int, count: int) -> list[SmtpReply]:
    """Return that many replies whose wording no rule was written for, from the place `start` on."""
    sentences = product(*(words.split(",") for words in (_SUBJECTS, _MIDDLES, _SAYINGS, _SUBJECTS)))
    return [
        SmtpReply(Stage.RCPT, 550, "", " ".join(words)) for words in islice(sentences, start, start + count)
    ]


def new_replies(start: int, count: int) -> list[SmtpReply]:
    """Return that many replies, no two with the same words (but for the plain "Ok")."""
    return [
        SmtpReply(Stage.RCPT, code, enhanced, text.format(user=f"x{number:07}"))
        for number in range(start, start + count)
        for code, enhanced, text in (_WORDS[number % len(_WORDS)],)
    ]


def seen_replies(_start: int, count: int) -> list[SmtpReply]:
    """Return that many replies that are the same few again and again."""
    return new_replies(0, len(_WORDS)) * (count // len(_WORDS))


def rate(replies: Sequence[SmtpReply]) -> float:
    """Return replies read and redacted a CPU second."""
    started = time.process_time()
    for reply in replies:
        classify(reply, own=_OWN)
        redact(reply.text, own=_OWN)
    return len(replies) / (time.process_time() - started)


_KINDS: dict[str, tuple[Callable[[int, int], list[SmtpReply]], int]] = {
    "wordings of their own": (odd_replies, 2_000),
    "new words every time": (new_replies, 10_000),
    "words seen before": (seen_replies, 10_000),
}


def main() -> None:
    """Print each rate: the median of three runs, none of which has seen the replies of another."""
    print(f"load {os.getloadavg()[0]:.1f}; one core; medians of three")
    for kind, (make, count) in _KINDS.items():
        median = statistics.median(rate(make(turn * count, count)) for turn in range(3))
        print(f"{kind:<22}{median:>9,.0f} replies a CPU second")


if __name__ == "__main__":
    main()
