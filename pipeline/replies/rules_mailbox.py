"""Reply rows about the mailbox: accepted, full, disabled, not found."""

from __future__ import annotations

from pipeline.facts import Answer
from pipeline.replies import words
from pipeline.replies import words_mailbox as box
from pipeline.replies.row import RCPT, Row

ACCEPTED = (
    Row(
        "accepted-unverified",
        Answer.UNCLEAR,
        "RFC 5321 section 3.5.3: 252 takes the mail but says that the mailbox was not verified.",
        codes=("252",),
        stages=RCPT,
    ),
    Row(
        "accepted",
        Answer.ACCEPTED,
        "RFC 5321 section 4.2.1: a 2yz reply accepts the recipient, 251 by forwarding.",
        codes=("2",),
        stages=RCPT,
    ),
)

INTERNATIONAL = (
    Row(
        "no-international-addresses",
        Answer.NOT_ASKABLE,
        "RFC 6531 X.6.7: the server takes no address that is not ASCII.",
        codes=("5",),
        enhanced=r"6\.7",
        stages=RCPT,
    ),
)

DIRECTORY = (
    Row(
        "exchange-directory",
        Answer.NOT_FOUND,
        'Exchange Online\'s 5.4.1 "Access denied" is how its directory says that it has no such user.',
        codes=("5",),
        enhanced=r"4\.1",
        text=r"\brecipient address(?:es)? rejected ?: access denied",
        stages=RCPT,
    ),
)

FULL = (
    Row(
        "full",
        Answer.FULL,
        "The reply speaks of the mailbox's quota or storage.",
        codes=("4", "5"),
        text=box.FULL,
        unless=box.NOT_FULL,
        stages=RCPT,
    ),
    Row(
        "full-code",
        Answer.FULL,
        "RFC 3463 X.2.2 is a full mailbox.",
        codes=("4", "5"),
        enhanced=r"2\.2",
        stages=RCPT,
    ),
)

SWITCHED_OFF = (
    Row(
        "mailbox-blocked",
        Answer.DISABLED,
        "RFC 3463 X.2.1 for a mailbox that is blocked or inactive; of ours nothing is named.",
        codes=("5",),
        enhanced=r"2\.1",
        text=box.BOX_CLOSED,
        unless=words.any_of(
            words.SENDER, words.CLIENT, words.LISTED, words.AUTHENTICATION, words.CONTENT, words.IP_LITERAL
        ),
        stages=RCPT,
    ),
)

DISABLED = (
    Row(
        "disabled",
        Answer.DISABLED,
        "The reply says that the mailbox is closed.",
        codes=("5",),
        enhanced=words.NO_POLICY_CODE,
        text=words.any_of(box.BOX_CLOSED, box.CLOSED_BOX),
        unless=r"\boutbound",
        stages=RCPT,
    ),
    Row(
        "disabled-5.7",
        Answer.DISABLED,
        "The same words with a policy code count where the reply says nothing else.",
        codes=("5",),
        text=rf"{box.AT_ONCE}(?:{box.BOX_CLOSED}|{box.CLOSED_BOX})",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "disabled-code",
        Answer.DISABLED,
        "RFC 3463 X.2.1 with words that say the mailbox takes no mail.",
        codes=("5",),
        enhanced=r"2\.1",
        text=r"\bnot accepting\b|\b(?:not|unable to) receiv|\bno longer accepts?\b|\bdisabled\b|\binactive\b",
        stages=RCPT,
    ),
)

DOMAIN = (
    Row(
        "something-else-missing",
        Answer.UNCLEAR,
        "Something is not there, but it is a domain, a host or a table of the server and not the mailbox.",
        codes=("5",),
        text=words.any_of(
            r"\b(?:host|hostname|domain|dns|record|mx|server)s? (?:name )?(?:is |was |may |does )?"
            r"(?:not found|unknown|not exist|invalid|lookup)\b",
            r"\b(?:no such|unknown|invalid) (?:host|domain|database)\b",
            r"\b(?:database|table|ldap|map|backend)\b(?: \w+)?:? "
            r"(?:not found|unknown|unavailable|error|fail)",
            r"\bfind the recipient domain\b",
        ),
        stages=RCPT,
    ),
)

NOT_FOUND = (
    Row(
        "no-such-mailbox",
        Answer.NOT_FOUND,
        "The reply says that the mailbox, its user or its address does not exist.",
        codes=("5",),
        enhanced=words.NO_POLICY_CODE,
        text=box.NO_SUCH_MAILBOX,
        unless=words.any_of(words.RULE, words.OURS),
        stages=RCPT,
    ),
    Row(
        "no-such-mailbox-5.7",
        Answer.NOT_FOUND,
        "The same words with a policy code count where the reply says nothing else.",
        codes=("5",),
        text=rf"{box.AT_ONCE}(?:{box.NO_SUCH_MAILBOX})",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "unroutable",
        Answer.NOT_FOUND,
        "Exim's words for an address that no router of its own accepts.",
        codes=("5",),
        text=r"\bunroute?able address\b|\bnot our customer\b|\buser does not have an? \S+ account\b",
        stages=RCPT,
    ),
    Row(
        "not-local",
        Answer.NOT_FOUND,
        "RFC 5321 section 3.4: 551 is a user who is not here.",
        codes=("551",),
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "opensmtpd-expansion",
        Answer.NOT_FOUND,
        "OpenSMTPD answers 524 5.2.4 when an address expands to no user of its own.",
        codes=("524",),
        enhanced=r"2\.4",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "mailbox-unavailable",
        Answer.NOT_FOUND,
        "RFC 5321's words for 550, and no policy is named.",
        codes=("5",),
        text=r"\bmailbox (?:the-address )?(?:is )?(?:unavailable|not available)\b",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "bad-mailbox-code",
        Answer.NOT_FOUND,
        "RFC 3463 X.1.1, X.1.3, X.1.6 and X.1.10 are about the mailbox, and no word speaks of us.",
        codes=("5",),
        enhanced=r"1\.(?:1|3|6|10)",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "bad-address-code",
        Answer.NOT_FOUND,
        "RFC 3463 X.1.0 with the recipient's address as its subject.",
        codes=("5",),
        enhanced=r"1\.0",
        text=rf"\b{words.BOX}\b",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
)
