"""How many replies a second are read: worded in ways of their own, every one new, and repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
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


def odd_replies(count: int) -> list[SmtpReply]:
    """Return that many replies whose wording no rule was written for."""
    sentences = product(*(words.split(",") for words in (_SUBJECTS, _MIDDLES, _SAYINGS, _SUBJECTS)))
    return [SmtpReply(Stage.RCPT, 550, "", " ".join(words)) for words in islice(sentences, count)]


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
    """Print the rates."""
    print(f"wordings of their own {rate(odd_replies(5_000)):>9,.0f} replies/s")
    print(f"new words every time  {rate(replies(10_000)):>9,.0f} replies/s")
    print(f"words seen before     {rate(replies(len(_WORDS)) * 1_000):>9,.0f} replies/s")


if __name__ == "__main__":
    main()
