"""Reply rows about us: block lists, sender, relaying, authentication, policy."""

from __future__ import annotations

from pipeline.facts import Answer
from pipeline.replies import words
from pipeline.replies.row import BEFORE_RCPT, OURSELVES, Row

BEFORE_RECIPIENT = (
    Row(
        "before-rcpt-permanent",
        Answer.REFUSED_US,
        "No recipient had been named yet, so the refusal is about us.",
        codes=("5",),
        stages=BEFORE_RCPT,
    ),
)

NAMES_US = (
    Row(
        "names-us",
        Answer.REFUSED_US,
        "The permanent refusal names our own address or host name.",
        codes=("5",),
        text=OURSELVES,
    ),
)

STRONG = (
    Row(
        "block-list",
        Answer.REFUSED_US,
        "The reply speaks of a block list or of our reputation.",
        codes=("4", "5"),
        text=words.BLOCK_LIST,
    ),
    Row(
        "bad-sender-code",
        Answer.REFUSED_US,
        "RFC 3463 X.1.7 and X.1.8 are about the sender's address.",
        codes=("4", "5"),
        enhanced=r"1\.[78]",
    ),
    Row(
        "sender",
        Answer.REFUSED_US,
        "The reply is about our sender address; any mailbox it calls unknown is the sender's.",
        codes=("4", "5"),
        text=words.SENDER,
    ),
    Row(
        "our-host",
        Answer.REFUSED_US,
        "The reply is about our host: its address, its name or its network.",
        codes=("4", "5"),
        text=words.CLIENT,
    ),
    Row(
        "proof-of-identity",
        Answer.REFUSED_US,
        "The server wants authentication or encryption, or will not relay for us.",
        codes=("4", "5"),
        text=words.AUTHENTICATION,
    ),
    Row(
        "authentication-code",
        Answer.REFUSED_US,
        "RFC 4954: 530, 534, 535 and 538 ask the client to authenticate or encrypt.",
        codes=("530", "534", "535", "538"),
    ),
    Row(
        "host-takes-no-mail",
        Answer.REFUSED_US,
        "RFC 7504: 521 is a host that takes no mail, from us or from anybody.",
        codes=("521",),
    ),
    Row(
        "content",
        Answer.REFUSED_US,
        "The reply judges the message or the way it is sent; no message was sent.",
        codes=("4", "5"),
        text=words.CONTENT,
    ),
)

NAMES_US_FOR_NOW = (
    Row(
        "names-us-for-now",
        Answer.REFUSED_US,
        "The temporary refusal names our own address or host name, and neither a rate nor greylisting.",
        codes=("4",),
        text=OURSELVES,
    ),
)

POLICY = (
    Row(
        "policy",
        Answer.REFUSED_US,
        "A rule of the house refuses the mail; it says nothing about whether the mailbox exists.",
        codes=("5",),
        text=words.POLICY,
    ),
    Row(
        "names-an-address",
        Answer.REFUSED_US,
        "The refusal names an IP address and no reason to do with the mailbox.",
        codes=("5",),
        text=words.IP_LITERAL,
    ),
    Row(
        "policy-code",
        Answer.REFUSED_US,
        "RFC 3463 X.7.X is security or policy, and no word speaks of the mailbox.",
        codes=("5",),
        enhanced=r"7\.\d+",
        unless=rf"\b{words.BOX}\b",
    ),
)
