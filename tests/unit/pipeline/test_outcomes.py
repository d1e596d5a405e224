"""Bounces, complaints and webhooks as they are written out there; what they say of the mailbox."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.outcomes import messages
from mailsift.pipeline.outcomes.messages import read_message
from mailsift.pipeline.outcomes.outcome import (
    ACCEPTED,
    DAY_SECONDS,
    Diagnosis,
    Outcome,
    OutcomeKind,
    OutcomePolicy,
    diagnose,
    fates,
    mailbox_fact,
)
from mailsift.pipeline.outcomes.senders import SenderKind, read_webhook

_K, _A = OutcomeKind, Answer
NOW = 1_793_000_000.0


def _dsn(
    fields: str, *, prose: str = "Sorry.", to: str = "jane@shop.example", reporter: str = "mx.example"
) -> str:
    return (
        f"From: Mail Delivery System <MAILER-DAEMON@{reporter}>\nTo: news@sender.example\n"
        "Subject: Undelivered Mail Returned to Sender\nDate: Tue, 03 Nov 2026 10:00:01 +0000\n"
        'MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary="=_b"\n\n'
        f"--=_b\nContent-Type: text/plain\n\n{prose}\n"
        "--=_b\nContent-Type: message/delivery-status\n\n"
        f"Reporting-MTA: dns; {reporter}\n\n{fields}\n"
        "--=_b\nContent-Type: text/rfc822-headers\n\n"
        f"From: news@sender.example\nTo: {to}\nMessage-ID: <m1@sender.example>\n\n--=_b--\n"
    )


def _plain(body: str, *, sender: str = "MAILER-DAEMON@mx.example", headers: str = "") -> str:
    return (
        f"Return-Path: <>\nFrom: {sender}\nTo: news@sender.example\nSubject: failure notice\n"
        f"Date: Wed, 4 Nov 2026 09:00:00 +0100\n{headers}\n{body}"
    )


_HTML = "Content-Type: text/html\n"


@dataclass(frozen=True)
class Case:
    name: str
    message: str
    expected: list[tuple[str, OutcomeKind, Answer]]


CASES = [
    Case(
        "postfix",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 5.1.1 <jane@shop.example>: Recipient address\n"
            "    rejected: User unknown in virtual mailbox table\n"
        ),
        [("jane@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "two recipients, one only late",
        _dsn(
            "Final-Recipient: rfc822;a@shop.example\nAction: failed\nStatus: 5.2.2\n"
            "Diagnostic-Code: smtp;552 5.2.2 The email account is over quota\n\n"
            "Final-Recipient: rfc822;b@shop.example\nAction: delayed\nStatus: 4.4.1\n"
            "Diagnostic-Code: smtp;451 4.4.1 connection timed out\n",
            to="a@shop.example, b@shop.example",
        ),
        [("a@shop.example", _K.BOUNCED, _A.FULL), ("b@shop.example", _K.DEFERRED, _A.TEMPORARY)],
    ),
    Case(
        "forwarded: the list's address is the one that was sent to",
        _dsn(
            "Final-Recipient: rfc822; elsewhere@other.example\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 no such user\n",
            reporter="mx.shop.example",
        ),
        [("jane@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "forwarded, as the trace of the message says",
        _dsn(
            "Final-Recipient: rfc822; elsewhere@other.example\nAction: failed\nStatus: 5.1.1\n",
            to="jane@shop.example\nReceived: from mx.sender.example by mx.shop.example\n"
            "\tfor <Jane@shop.example>; Tue, 03 Nov 2026 10:00:00 +0000",
        ),
        [("jane@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "forwarded, as the address says that the report came to",
        _dsn("Final-Recipient: rfc822; elsewhere@other.example\nAction: failed\nStatus: 5.1.1\n").replace(
            "To: news@sender.example", "To: bounces+jane=shop.example@sender.example", 1
        ),
        [("jane@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "a blind copy failed: the archive of whom it was sent to as well, who may have it",
        _dsn("Final-Recipient: rfc822; archive@crm.example\nAction: failed\nStatus: 5.1.1\n"),
        [("archive@crm.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "a copy failed",
        _dsn(
            "Final-Recipient: rfc822; joe@shop.example\nAction: failed\nStatus: 5.1.1\n",
            to="jane@shop.example\nCc: joe@shop.example",
            reporter="mx.shop.example",
        ),
        [("joe@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "delivered, as was asked for",
        _dsn("Final-Recipient: rfc822; jane@shop.example\nAction: delivered\nStatus: 2.0.0\n"),
        [("jane@shop.example", _K.DELIVERED, _A.ACCEPTED)],
    ),
    Case(
        "handed on: nobody knows what became of it (RFC 3464 section 2.3.3)",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: relayed (to another system)\nStatus: 2.0.0\n"
        ),
        [],
    ),
    Case(
        "Postfix was asked to verify the address: no message was sent",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: deliverable\nStatus: 2.1.5\n"
            "Diagnostic-Code: smtp; 250 2.1.5 Ok\n"
        ),
        [],
    ),
    Case(
        "the time was up",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: failed\nStatus: 4.4.7\n"
            "Diagnostic-Code: smtp; delivery time expired; connect to mx.shop.example: Connection refused\n"
        ),
        [("jane@shop.example", _K.BOUNCED, _A.TEMPORARY)],
    ),
    Case(
        "the domain is for DNS to say",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: failed\nStatus: 5.4.4\n"
            "Diagnostic-Code: X-Postfix; Host or domain name not found. Name service error for\n"
            "    name=shop.example type=A: Host not found\n"
        ),
        [("jane@shop.example", _K.BOUNCED, _A.UNCLEAR)],
    ),
    Case(
        "an international address (RFC 6533)",
        _dsn(
            "Final-Recipient: utf-8; j\\x{FC}rgen@shop.example\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 5.1.1 unknown user\n",
            to="undisclosed",
        ),
        [("jürgen@shop.example", _K.BOUNCED, _A.NOT_FOUND)],
    ),
    Case(
        "a tag that begins like an encoded character is none (RFC 3461 section 4)",
        _dsn(
            "Original-Recipient: rfc822;jane+2024@shop.example\n"
            "Final-Recipient: rfc822; jane+2024@shop.example\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 5.1.1 unknown user\n\n"
            "Final-Recipient: rfc822; jane+2B40@shop.example\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 5.1.1 unknown user\n"
        ),
        [
            ("jane+2024@shop.example", _K.BOUNCED, _A.NOT_FOUND),
            ("jane+40@shop.example", _K.BOUNCED, _A.NOT_FOUND),
        ],
    ),
    Case(
        "no diagnostic: the text for people",
        _dsn(
            "Final-Recipient: rfc822; jane@shop.example\nAction: failed\nStatus: 5.0.0\n",
            prose="<jane@shop.example>: the mailbox is disabled\n    550 5.2.1 account has been disabled",
        ),
        [("jane@shop.example", _K.BOUNCED, _A.DISABLED)],
    ),
    Case(
        "qmail",
        _plain(
            "Hi. This is the qmail-send program at mx.example.\n"
            "I'm afraid I wasn't able to deliver your message to the following addresses.\n"
            "This is a permanent error; I've given up. Sorry it didn't work out.\n\n"
            "<carol@shop.example>:\n192.0.2.9 does not like recipient.\n"
            "Remote host said: 550 sorry, no mailbox here by that name (#5.1.1)\nGiving up on 192.0.2.9.\n\n"
            "<dave@shop.example>:\nuser is over quota. (#5.2.2)\n\n"
            "--- Below this line is a copy of the message.\n\nReturn-Path: <news@sender.example>\n"
        ),
        [("carol@shop.example", _K.BOUNCED, _A.NOT_FOUND), ("dave@shop.example", _K.BOUNCED, _A.FULL)],
    ),
    Case(
        "exim",
        _plain(
            "This message was created automatically by mail delivery software.\n\n"
            "A message that you sent could not be delivered to one or more of its\n"
            "recipients. This is a permanent error. The following address(es) failed:\n\n"
            "  bob@shop.example\n    host mx.shop.example [192.0.2.5]\n"
            "    SMTP error from remote mail server after RCPT TO:<bob@shop.example>:\n"
            "    550 5.7.1 Message rejected: listed at a block list\n",
            sender="Mail Delivery System <Mailer-Daemon@exim.example>",
            headers="X-Failed-Recipients: bob@shop.example\nAuto-Submitted: auto-replied\n",
        ),
        [("bob@shop.example", _K.BOUNCED, _A.REFUSED_US)],
    ),
    Case(
        "exim still tries",
        _plain(
            "This message was created automatically by mail delivery software.\n"
            "A message that you sent has not been delivered to all of its recipients\nafter 24 hours.\n"
            "The address to which the message has not yet been delivered is:\n\n  bob@shop.example\n"
            "    host mx.shop.example [192.0.2.5]: 450 4.2.1 try later\n\n"
            "No action is required on your part. Delivery attempts will continue for some time.\n",
            headers="X-Failed-Recipients: bob@shop.example\n",
        ),
        [("bob@shop.example", _K.DEFERRED, _A.TEMPORARY)],
    ),
    Case(
        "away, and a street number",
        _plain(
            "I am out of the office; 550 Main Street is empty.\n",
            sender="frank@shop.example",
            headers="Auto-Submitted: auto-replied\nX-Autoreply: yes\n",
        ),
        [],
    ),
    Case("any other mail", "From: a@b.example\nTo: c@d.example\nSubject: hi\n\nhello\n", []),
    Case(
        "a complaint (RFC 5965)",
        "From: fbl@isp.example\nTo: fbl@sender.example\nSubject: complaint\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="x"\n\n'
        "--x\nContent-Type: text/plain\n\nThis is an abuse report.\n"
        "--x\nContent-Type: message/feedback-report\n\n"
        "Feedback-Type: abuse\nVersion: 1\nOriginal-Rcpt-To: <erin@isp.example>\n\n"
        "--x\nContent-Type: message/rfc822\n\nFrom: news@sender.example\nTo: erin@isp.example\n\nx\n--x--\n",
        [("erin@isp.example", _K.COMPLAINED, _A.ACCEPTED)],
    ),
    Case(
        "not spam after all",
        'From: f@isp.example\nMIME-Version: 1.0\nContent-Type: multipart/report; boundary="x"\n\n'
        "--x\nContent-Type: message/feedback-report\n\nFeedback-Type: not-spam\n"
        "Original-Rcpt-To: erin@isp.example\n\n--x--\n",
        [],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_message_tells_what_happened_to_whom(case: Case, ends: str) -> None:
    found = read_message(case.message.replace("\n", ends).encode())
    assert [(one.address, one.kind, one.diagnosis.answer) for one in found] == case.expected


def test_a_report_names_its_time_and_its_message() -> None:
    (outcome,) = read_message(CASES[0].message.encode())
    assert (outcome.happened_at, outcome.message_id, outcome.origin) == (
        1_793_700_001.0,
        "m1@sender.example",
        "dsn",
    )
    assert "@shop" not in outcome.diagnosis.text


@pytest.mark.parametrize("zone", ["+0100", "CET", "GMT+0100"])
def test_the_time_of_a_bounce_is_that_of_its_zone(zone: str) -> None:
    (outcome,) = read_message(
        "From: MAILER-DAEMON@mx.example\nTo: news@sender.example\n"
        f"Date: Tue, 3 Nov 2026 10:00:01 {zone}\nSubject: failure notice\n\n"
        "<jane@b.example>:\n550 5.1.1 user unknown\n".encode()
    )
    assert outcome.happened_at == 1_793_696_401.0


@pytest.mark.parametrize("word", ["=?utf-8?b?a?=", "=?utf-8?b?w7x?= =?x-none?q?=FC?=", "=?utf-8?q?=?="])
def test_a_header_whose_encoded_words_are_broken_stands_as_it_is(word: str) -> None:
    message = _plain("<jane@shop.example>: 550 5.1.1 User unknown").replace("failure notice", word)
    (outcome,) = read_message(message.encode())
    assert (outcome.address, outcome.diagnosis.answer) == ("jane@shop.example", _A.NOT_FOUND)


@pytest.mark.parametrize("raw", [b"", b"no headers at all", b"\xff\xfe\x00", b"\n\n\n"])
def test_what_is_no_message_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(MailsiftError, match="malformed_message"):
        read_message(raw)


WEBHOOKS: list[tuple[SenderKind, Any, list[tuple[OutcomeKind, Answer]]]] = [
    (
        SenderKind.SES,
        {
            "eventType": "Bounce",
            "bounce": {
                "bounceType": "Permanent",
                "bouncedRecipients": [
                    {
                        "emailAddress": "x@y.example",
                        "action": "failed",
                        "diagnosticCode": "smtp; 550 5.1.1 user unknown",
                    }
                ],
            },
        },
        [(_K.BOUNCED, _A.NOT_FOUND)],
    ),
    (
        SenderKind.SES,
        {
            "notificationType": "Bounce",
            "bounce": {
                "bounceType": "Permanent",
                "bounceSubType": "OnAccountSuppressionList",
                "bouncedRecipients": [
                    {
                        "emailAddress": "x@y.example",
                        "status": "5.1.1",
                        "diagnosticCode": "Amazon SES did not send the message to this address because it"
                        " is on the suppression list for your account.",
                    }
                ],
            },
        },
        [(_K.BOUNCED, _A.UNCLEAR)],  # nobody asked the mailbox
    ),
    (
        SenderKind.SES,
        {
            "eventType": "DeliveryDelay",
            "deliveryDelay": {"delayedRecipients": [{"emailAddress": "x@y.example"}]},
        },
        [(_K.DEFERRED, _A.UNCLEAR)],
    ),
    (SenderKind.SES, {"eventType": "Open", "open": {}}, []),
    (
        SenderKind.SENDGRID,
        [
            {
                "email": "x@y.example",
                "event": "bounce",
                "type": "blocked",
                "reason": "550 5.7.1 spam",
                "status": "5.7.1",
            },
            {"email": "x@y.example", "event": "dropped", "reason": "Bounced Address"},
            {"email": "x@y.example", "event": "open"},
            {"email": "x@y.example", "event": "spamreport"},
        ],
        [
            (_K.BOUNCED, _A.REFUSED_US),
            (_K.BOUNCED, _A.UNCLEAR),
            (_K.DELIVERED, _A.ACCEPTED),  # who opened it has it
            (_K.COMPLAINED, _A.ACCEPTED),
        ],
    ),
    (
        SenderKind.MAILGUN,
        {
            "event-data": {
                "event": "failed",
                "severity": "temporary",
                "recipient": "x@y.example",
                "delivery-status": {"code": 452, "message": "4.2.2 The mailbox is over quota"},
            }
        },
        [(_K.DEFERRED, _A.FULL)],
    ),
    (
        SenderKind.POSTMARK,
        {"RecordType": "Bounce", "Type": "AutoResponder", "Email": "x@y.example", "Details": "550 away"},
        [],
    ),
    (SenderKind.BREVO, {"event": "unsubscribed", "email": "x@y.example"}, [(_K.UNSUBSCRIBED, _A.ACCEPTED)]),
    (SenderKind.SPARKPOST, [{"msys": {}}], []),
    (
        SenderKind.LISTMONK,
        {"type": "soft", "email": "x@y.example", "meta": '{"reason": "451 4.7.1 greylisted"}'},
        [(_K.DEFERRED, _A.GREYLISTED)],
    ),
]


@pytest.mark.parametrize(("sender", "posted", "expected"), WEBHOOKS)
def test_of_a_webhook_the_diagnostic_counts_and_not_the_category(
    sender: SenderKind, posted: object, expected: list[tuple[OutcomeKind, Answer]]
) -> None:
    found = read_webhook(sender, json.dumps(posted).encode())
    assert [one and (one.kind, one.diagnosis.answer) for one in found] == expected


@pytest.mark.parametrize("bad", [7, None, [], {"event": "bounce"}, {"event": "bounce", "email": "nobody"}])
def test_an_event_that_cannot_be_read_takes_no_other_with_it_and_counts(bad: object) -> None:
    good = {"event": "delivered", "email": "x@y.example", "timestamp": 1}
    found = read_webhook(SenderKind.SENDGRID, json.dumps([good, bad, good]).encode())
    assert [one and one.address for one in found] == ["x@y.example", None, "x@y.example"]
    with pytest.raises(MailsiftError, match="malformed_outcome"):
        read_webhook(SenderKind.SENDGRID, json.dumps([bad, bad]).encode())


def test_half_a_character_of_json_is_no_reason_to_store_nothing() -> None:
    event = {"event": "bounce", "email": "a\ud83d@y.example", "reason": "550 user\ud83d", "smtp-id": "\udca9"}
    (outcome,) = filter(None, read_webhook(SenderKind.SENDGRID, json.dumps([event]).encode()))
    assert (outcome.address, outcome.message_id) == ("a\ufffd@y.example", "\ufffd")
    report = _dsn("Final-Recipient: utf-8; a\\x{D83D}@y.example\nAction: failed\n", to="undisclosed")
    (named,) = read_message(report.encode())
    assert named.address == "a\ufffd@y.example"


@pytest.mark.parametrize("body", [b"", b"[", b"7", b'"x"', b"[[]]", b'{"event": {}}', b"null"])
@pytest.mark.parametrize("sender", SenderKind)
def test_a_broken_webhook_is_an_error_with_a_code_or_tells_nothing(sender: SenderKind, body: bytes) -> None:
    if body == b'{"event": {}}':
        assert read_webhook(sender, body) == ()
        return
    with pytest.raises(MailsiftError, match="malformed_outcome"):
        read_webhook(sender, body)


def _outcome(kind: OutcomeKind, days: float, answer: Answer = Answer.ACCEPTED) -> Outcome:
    diagnosis = ACCEPTED if answer is Answer.ACCEPTED else Diagnosis(answer, "rule", 550)
    return Outcome("x@y.example", kind, NOW - days * DAY_SECONDS, diagnosis, "file")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], None),
        ([_outcome(_K.DELIVERED, 1)], _A.ACCEPTED),
        ([_outcome(_K.DELIVERED, 91)], None),
        ([_outcome(_K.BOUNCED, 91, _A.NOT_FOUND)], _A.NOT_FOUND),
        ([_outcome(_K.BOUNCED, 366, _A.NOT_FOUND)], None),
        ([_outcome(_K.BOUNCED, 2, _A.NOT_FOUND), _outcome(_K.DELIVERED, 1)], _A.ACCEPTED),
        ([_outcome(_K.DELIVERED, 2), _outcome(_K.BOUNCED, 1, _A.DISABLED)], _A.DISABLED),
        ([_outcome(_K.DEFERRED, 1, _A.NOT_FOUND)], None),
        ([_outcome(_K.BOUNCED, 1, _A.FULL), _outcome(_K.DELIVERED, 2)], _A.ACCEPTED),
        ([_outcome(_K.BOUNCED, 1, _A.REFUSED_US)], None),
        ([_outcome(_K.DELIVERED, 2), _outcome(_K.BOUNCED, 1, _A.UNCLEAR)], None),
        # its sender keeps back what comes after a bounce: that takes nothing of the bounce back
        ([_outcome(_K.BOUNCED, 9, _A.NOT_FOUND), _outcome(_K.BOUNCED, 1, _A.UNCLEAR)], _A.NOT_FOUND),
        (
            [
                _outcome(_K.BOUNCED, 9, _A.NOT_FOUND),
                _outcome(_K.DELIVERED, 5),
                _outcome(_K.BOUNCED, 1, _A.UNCLEAR),
            ],
            None,
        ),
        ([_outcome(_K.COMPLAINED, 3)], _A.ACCEPTED),
    ],
)
def test_the_newest_outcome_that_decides_does(history: list[Outcome], expected: Answer | None) -> None:
    fact = mailbox_fact(history, OutcomePolicy(), NOW)
    assert (fact.answer if fact else None) == expected


@pytest.mark.parametrize("arrival", [_K.DELIVERED, _K.COMPLAINED, _K.UNSUBSCRIBED])
@pytest.mark.parametrize("later", [0.0, 0.001])
def test_of_two_without_a_time_nobody_knows_which_is_how_it_is_now(
    arrival: OutcomeKind, later: float
) -> None:
    arrived = replace(_outcome(arrival, later), undated=True)
    gone = replace(_outcome(_K.BOUNCED, 0, _A.NOT_FOUND), undated=True)
    policy = OutcomePolicy()

    assert mailbox_fact([arrived, gone], policy, NOW) is None
    assert fates([NOW - DAY_SECONDS], [gone, arrived]) == [None]
    for one in (arrived, gone):
        fact = mailbox_fact([one], policy, NOW)
        assert fact is not None
        assert fact.answer is one.diagnosis.answer
    dated = mailbox_fact([_outcome(_K.BOUNCED, 3, _A.DISABLED), arrived, gone], policy, NOW)
    assert dated is not None
    assert dated.answer is _A.DISABLED
    late = mailbox_fact(
        [_outcome(_K.DELIVERED, 3), gone], policy, NOW
    )  # of one alone it counts from its arrival
    assert late is not None
    assert late.answer is _A.NOT_FOUND


@pytest.mark.parametrize(
    ("history", "within", "expected"),
    [
        ([_outcome(_K.DELIVERED, 5)], 6 * DAY_SECONDS, _A.ACCEPTED),
        ([_outcome(_K.DELIVERED, 5)], 4 * DAY_SECONDS, None),
        ([_outcome(_K.BOUNCED, 5, _A.NOT_FOUND)], 4 * DAY_SECONDS, None),
        ([_outcome(_K.DELIVERED, 0)], 0.0, None),
        ([_outcome(_K.DELIVERED, 91)], 100 * DAY_SECONDS, None),  # the policy holds all the same
    ],
)
def test_who_says_how_old_an_answer_may_be_is_told_nothing_older(
    history: list[Outcome], within: float, expected: Answer | None
) -> None:
    fact = mailbox_fact(history, OutcomePolicy(), NOW, within=within)
    assert (fact.answer if fact else None) == expected


def test_a_finding_says_by_which_policy_it_was_made() -> None:
    fact = mailbox_fact([_outcome(_K.DELIVERED, 1)], OutcomePolicy(delivered_days=30), NOW)

    assert fact is not None
    assert asdict(fact)["policy"] == {"delivered_days": 30, "bounced_days": 365}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("250 2.0.0 OK", _A.UNCLEAR),
        ("smtp; 550-5.1.1 The email account that you tried to reach does not exist.", _A.NOT_FOUND),
        ("554 delivery error: dd This user doesn't have a yahoo.example account", _A.NOT_FOUND),
        ("", _A.UNCLEAR),
    ],
)
def test_a_diagnostic_is_read_by_the_reply_table(text: str, answer: Answer) -> None:
    assert diagnose(text).answer is answer


_PROSE = """Return-Path: <>
From: Postmaster <postmaster@relay.example>
To: news@sender.example
Subject: {subject}

{text}
"""
_JUNK = """From: staff@hotmail.com
To: fbl@sender.example
Subject: complaint about message from 203.0.113.9
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: message/rfc822

X-HmXmrOriginalRecipient: zara@b.test
From: news@sender.example
To: somebody@b.test

Hi
--b--
"""
_EZMLM = """Return-Path: <>
Delivered-To: our-list-return-{number}-zara=b.test@lists.sender.example
From: MAILER-DAEMON@b.test
To: our-list-return-{number}-zara=b.test@lists.sender.example
Subject: failure notice

<zara-inbox@store7.b.test>:
user does not exist
"""
_HIDDEN = """From: fbl@b.test
Content-Type: multipart/report; report-type=feedback-report; boundary="b"

--b
Content-Type: message/feedback-report

Feedback-Type: abuse
Original-Mail-From: <bounce+zara=b.test@sender.example>
Original-Rcpt-To: redacted

--b
Content-Type: message/rfc822

To: redacted@b.test

Hi
--b--
"""
_UTF8 = """From: MAILER-DAEMON@relay.example
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; relay.example

Final-Recipient: utf-8; zürä@b.test
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 mailbox does not exist

--b
Content-Type: message/rfc822

To: zürä@b.test

Hi
--b--
"""


_NUMBERED = """From: postmaster@b.test
To: bounces-421-zara=b.test@mail.sender.example
Subject: Mail Error

Sorry. The user you wrote to is not known here.
"""
_BY_LOCAL_PART = """From: Mailer-Daemon@mail.b.test
To: news@sender.example
Subject: Message status - undeliverable

The message that you sent was undeliverable to the following:
\tzara (The recipient's mailbox is full: disk space limit exceeded)

Original message follows:

 To: zara@b.test
 From: news@sender.example
"""
_OTHER_BOUNDARY = """From: MAILER-DAEMON@b.test
Subject: Undeliverable mail
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="AAA"

--BBB
Content-Type: message/delivery-status

Reporting-MTA: dns; b.test

Final-Recipient: rfc822; zara@b.test
Action: failed
Status: 5.1.1

--BBB--
"""
_INSIDE = """From: mailman-bounces@sender.example
To: list-owner@sender.example
Subject: Bounce action notification
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain

    Member:     zara@b.test
    Action:     Subscription disabled.

--b
Content-Type: message/rfc822

From: MAILER-DAEMON@b.test
Subject: Undelivered Mail Returned to Sender

<zara@b.test>: unknown user: "zara"
--b--
"""
_FORWARDED = """From: Tim <tim@sender.example>
To: it@sender.example
Subject: Fwd: Undelivered Mail Returned to Sender

Please take it out.

---------- Forwarded message ---------
From: Mail Delivery System <MAILER-DAEMON@sender.example>
Subject: Undelivered Mail Returned to Sender

<zara@b.test>: host mx.b.test[192.0.2.140] said: 550 5.1.1
    User unknown (in reply to RCPT TO command)
"""
_WRITTEN = """From: Zara <zara@b.test>
To: news@sender.example
Subject: Re: Sale

{text}

> Get it while you can: this is spam
"""
_DESK = """From: Abuse Desk <abuse@b.test>
To: abuse@sender.example
Subject: [Spam report] complaint from our customer zara@b.test

It came from 203.0.113.12.
"""
_OPENED = """From: zara@b.test
To: news@sender.example
Subject: Read: Sale
MIME-Version: 1.0
Content-Type: multipart/report; report-type=disposition-notification; boundary="b"

--b
Content-Type: message/disposition-notification

Final-Recipient: rfc822; zara@b.test
Disposition: manual-action/MDN-sent-manually; displayed

--b--
"""
_GATEWAY = """From: "Mail Gateway" <no-reply@b.test>
To: news@sender.example
Subject: Your e-mail could not be delivered
Content-Type: text/html

<p>Your message to <b>zara@b.test</b></p><p>550 5.1.1 user unknown</p>
"""
_UNKNOWN_GATEWAY = """From: mail_service_7@b.test
To: news@sender.example
Subject: Returned Mail - Error During Delivery

------ Failed Recipients ------

<zara@b.test>: No such user here. [SMTP Error Code 550]
-------- Returned Mail --------

From: news-bounces@sender.example
To: zara@b.test
"""
_EXCHANGE = """Your message

  To:      news@lists.sender.example
  Cc:      team@lists.sender.example
  Sent:    Fri, 4 Oct 2024 17:10:56 -0400

did not reach the following recipient(s):

{address} on Fri, 4 Oct 2024 17:12:28 -0400
    The recipient name is not recognized"""
_EMPTY_STATUS = """Subject: Utilisateur inconnu
To: news@sender.example
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: 8bit

A message could not be delivered to:
zara@b.test
L'adresse de messagerie ci-dessus n'existe pas. Veuillez la vérifier.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; b.test

--b--
"""
_CHINESE = """Return-Path: <>
From: MAILER-DAEMON@b.test
To: news@sender.example
Subject: =?gb2312?B?zcvQxQ==?=
Content-Type: text/plain; charset="gb2312"
Content-Transfer-Encoding: 8bit

邮件无法发送到您指定的地址。

<zara@b.test>:
用户不存在
"""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            _PROSE.format(
                subject="Non remis : Bonjour",
                text="Votre message n'a pas pu être remis au destinataire suivant :\n\nzara@b.test\n\n"
                "Motif : l'adresse du destinataire n'existe pas.",
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            _PROSE.format(  # the relay is the one that tells, and not what is refused
                subject="failure notice",
                text="I wasn't able to deliver your message to the following addresses.\n\n"
                "<zara@b.test>:\nvpopmail: no such user in this domain",
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (  # what fails is where it was forwarded to
            _PROSE.format(
                subject="Mail delivery failed: returning message to sender",
                text="The following address failed:\n\n  z.new@far.test\n    (generated from zara@b.test)\n"
                "    550 5.1.1 No such user",
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (_EZMLM.format(number="217"), ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_EZMLM.format(number="warn-1715600000.abcdefghij"), ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_HIDDEN, ("zara@b.test", _K.COMPLAINED, _A.ACCEPTED)),
        (_JUNK, ("zara@b.test", _K.COMPLAINED, _A.ACCEPTED)),
        (_UTF8, ("zürä@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_NUMBERED, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_BY_LOCAL_PART, ("zara@b.test", _K.BOUNCED, _A.FULL)),
        (_OTHER_BOUNDARY, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_INSIDE, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_FORWARDED, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_GATEWAY, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (_WRITTEN.format(text="I never signed up for this."), ("zara@b.test", _K.COMPLAINED, _A.ACCEPTED)),
        (
            _WRITTEN.format(text="Bitte nehmen Sie mich aus dem Verteiler."),
            ("zara@b.test", _K.UNSUBSCRIBED, _A.ACCEPTED),
        ),
        (_DESK, ("zara@b.test", _K.COMPLAINED, _A.ACCEPTED)),
        (_OPENED, ("zara@b.test", _K.DELIVERED, _A.ACCEPTED)),
        (_UNKNOWN_GATEWAY, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (  # the list, to which it was addressed, is none that it did not reach
            _PROSE.format(subject="Undeliverable: News", text=_EXCHANGE.format(address="zara@b.test")),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            _PROSE.format(
                subject="Undeliverable: News", text=_EXCHANGE.format(address="c=US;o=B;dda:SMTP=zara@b.test;")
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (_EMPTY_STATUS, ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND)),
        (
            _plain(
                "Your mail to the following recipients could not be delivered because they are not accepting "
                "mail with attachments:\n\tzara\n",
                sender="Mail Delivery Subsystem <MAILER-DAEMON@b.test>",
            ),
            ("zara@b.test", _K.BOUNCED, _A.REFUSED_US),
        ),
        (
            _plain(
                "The following address(es) failed:\n\n"
                "  z@far.test\n    (ultimately generated from zara@b.test)\n    550 5.1.1 No such user\n"
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            _plain("---The following addresses had delivery errors---\n\nzara@b.co.test [User unknown]\n"),
            ("zara@b.co.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            _plain(
                "Could not be delivered because of\n\n550 5.1.1 User unknown\n\n"
                "The following recipients were affected: \n    zara@b.test\n\n\n"
                "Additional Information\n======================\n"
                "Original Sender:    <news@a.test>\nRemote-MTA:\t\t<mx.b.test>\n"
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            (
                "From: post_master@b.test\nTo: news@a.test\nSubject: Re:News\nMIME-Version: 1.0\n"
                'Content-Type: multipart/mixed;\nboundary="AAA"\n\n--AAA\nContent-Type: text/plain\n\n'
                "Error message below:\n550 - Requested action not taken: no such user here\n\n"
                "Message details:\n  MAIL FROM: news@a.test\n  RCPT TO: zara@b.test\n\n--AAA--\n"
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (  # Exim at a host that keeps the mail in files
            _dsn(
                "Final-Recipient: rfc822;/mail/spool/b.test/zara\nAction: failed\nStatus: 5.0.0",
                prose="save to /mail/spool/b.test/zara\n  generated by zara%b.test@mx.b.test\n"
                "  mailbox is full: retry timeout exceeded",
            ).replace("From:", "X-Failed-Recipients: zara%b.test@mx.b.test\nFrom:", 1),
            ("zara@b.test", _K.BOUNCED, _A.FULL),
        ),
        (  # Amazon SNS sends what it is told by mail, too
            (
                "From: AWS Notifications <no-reply@sns.amazonaws.com>\nTo: ops@a.test\n"
                "Subject: AWS Notification Message\nContent-Type: text/plain\n\n"
                '{"notificationType":"Complaint","complaint":{"timestamp":"2026-11-03T10:00:00.000Z",'
                '"complainedRecipients":[{"emailAddress":"zara@b.test"}]},"mail":{"messageId":"m1"}}\n\n'
                "--\nIf you wish to stop receiving notifications from this topic, click the link below\n"
            ),
            ("zara@b.test", _K.COMPLAINED, _A.ACCEPTED),
        ),
        (  # what SNS tells a web address, told by mail; a mail server has broken its line
            (
                "From: SES <no-reply@sns.amazonaws.com>\nTo: ops@a.test\nSubject: AWS Notification\n\n"
                '{\n  "Type" : "Notification",\n  "Message" : "{\\"notificationType\\":\\"Bounce\\",'
                '\\"bounce\\":{\\"bounceType\\":\\"Permanent\\",\\"bouncedRecipients\\":[{'
                '\\"emailAddress\\":\\"zara@b.test\\",\\"diagnosticCode\\":\\"550 user un!\n known\\"}],'
                '\\"timestamp\\":\\"2026-11-03T10:00:00.000Z\\"},\\"mail\\":{\\"messageId\\":\\"m1\\"}}"\n}\n'
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (  # the address stands in what is said of the message before it stands in the list
            _plain(
                "Your message\n\n  To:      zara@b.test\n  Subject: News\n"
                "  Sent:    Thu, 29 Apr 2005 23:34:45 +0000\n\n"
                "did not reach the following recipient(s):\n\nzara@b.test on Thu, 29 Apr 2005 23:34:45\n"
                "    The recipient name is not recognized\n"
            ),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
        (
            (
                "From: no-reply@b.test\nTo: news@a.test\nSubject: メールエラー通知\n"
                "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"
                "送信先のメールボックスが一杯のため、送信できませんでした。\n\n"
                "     Could not be delivered to: <zara@b.test>\n     As their mailbox is full.\n"
            ),
            ("zara@b.test", _K.BOUNCED, _A.FULL),
        ),
        (  # the boundary is spoilt by a header that has lost its line
            _OTHER_BOUNDARY.replace("BBB\nContent", "BBB\nContent-Description: Report\nContent", 1),
            ("zara@b.test", _K.BOUNCED, _A.NOT_FOUND),
        ),
    ],
)
def test_messages_of_servers_that_write_their_own_way(
    message: str, expected: tuple[str, OutcomeKind, Answer]
) -> None:
    (found,) = read_message(message.encode())
    assert (found.address, found.kind, found.diagnosis.answer) == expected


def test_each_recipient_of_a_list_in_quotes_has_its_own_words() -> None:
    message = _plain(
        "This is a permanent error. The following address\nfailed:\n\n"
        '"yuri@b.test":\nSMTP error from remote server after RCPT command:\nhost: mx.b.test\n'
        "5.2.2 <yuri@b.test>... Mailbox Full\n"
        '"zara@b.test":\nSMTP error from remote server after RCPT command:\nhost: mx.b.test\n'
        "5.1.1 <zara@b.test>... User Unknown\n"
    )
    found = {one.address: one.diagnosis.answer for one in read_message(message.encode())}
    assert found == {"yuri@b.test": _A.FULL, "zara@b.test": _A.NOT_FOUND}


@pytest.mark.parametrize(
    ("message", "charset"),
    [(_CHINESE, "gb2312"), (_CHINESE, "utf-8"), (_EMPTY_STATUS, "latin-1"), (_EMPTY_STATUS, "utf-8")],
)
def test_a_bounce_is_read_in_its_charset_and_in_utf_8_that_is_labelled_as_another(
    message: str, charset: str
) -> None:
    (found,) = read_message(message.encode(charset))
    assert (found.address, found.diagnosis.answer) == ("zara@b.test", _A.NOT_FOUND)
    assert any(words in found.diagnosis.text for words in ("用户不存在", "vérifier"))


@pytest.mark.parametrize("text", ["a@" + "b." * 200, "c=US;" * 400 + "SMTP=", "550-" * 500, "label " * 500])
def test_a_text_made_to_be_searched_for_ever_is_read_to_its_end(text: str) -> None:
    assert read_message(_plain(f"User unknown\n{text}\n").encode()) == ()


def test_each_of_several_that_are_named_in_the_same_way_is_told() -> None:
    text = "".join(f"Unknown user: {name}@b.test\n\n553 5.3.0 Addressee unknown\n\n" for name in "xyz")
    found = read_message(_plain(text).encode())
    assert [(one.address, one.diagnosis.answer) for one in found] == [
        (f"{name}@b.test", _A.NOT_FOUND) for name in "xyz"
    ]


_BY_THEMSELVES = [
    ("550 5.1.1 user unknown", _A.NOT_FOUND),
    ("mail for shop.example loops back to myself", _A.UNCLEAR),
    ("local configuration error", _A.UNCLEAR),
]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 2, 1), (2, 0), (1, 2, 0)])
@pytest.mark.parametrize(
    ("begin", "each", "end"),
    [
        ("<{to}>:\n    {words}\n\n", "", ""),
        ("{words}\n{to}\n\n", "", ""),
        ("{to}\n", "\n... while talking to mx.shop.example:\n>>> RCPT To:<{to}>\n<<< {words}", "\nbye\n"),
        ("{to}<mailto:{to}>\nIt could not be delivered.\n\n", "{to}\nServer returned '{words}'\n\n", ""),
    ],
    ids=["behind", "above", "transcript", "twice"],
)
def test_what_is_said_of_one_recipient_is_said_of_no_other(
    begin: str, each: str, end: str, order: tuple[int, ...]
) -> None:
    reports = [(f"{'abc'[place]}{'jane'[place:]}@shop.example", *_BY_THEMSELVES[place]) for place in order]
    prose = (
        "".join(part.format(to=to, words=words) for part in (begin, each) for to, words, _ in reports) + end
    )
    fields = "\n\n".join(
        f"Final-Recipient: rfc822; {to}\nAction: failed\nStatus: 5.0.0" for to, *_ in reports
    )

    plain = read_message(_plain(f"These could not be delivered:\n\n{prose}").encode())
    structured = read_message(_dsn(fields + "\n", prose=prose).encode())

    for found in (plain, structured):
        assert [(one.address, one.diagnosis.answer) for one in found] == [(to, is_) for to, _, is_ in reports]


def test_an_address_that_ends_like_another_is_another() -> None:
    prose = "<joanna@shop.example>:\n550 5.1.1 user unknown\n\n<anna@shop.example>:\n552 5.2.2 mailbox full\n"
    found = read_message(_plain(prose).encode())
    assert [(one.address, one.diagnosis.answer) for one in found] == [
        ("joanna@shop.example", _A.NOT_FOUND),
        ("anna@shop.example", _A.FULL),
    ]


def test_whom_a_server_names_in_its_words_has_not_bounced() -> None:
    prose = (
        "<jane@shop.example>: host mx.shop.example said: 535 5.7.8 relay user\n"
        "    relay@sender.example (in reply to RCPT TO command)\n\n"
        "<bob@shop.example>: host mx.shop.example said: 550 5.5.0\n"
        "    Requested action not taken: mailbox unavailable (in reply to RCPT TO command)\n"
    )
    found = read_message(_plain(prose).encode())
    assert [(one.address, one.diagnosis.answer) for one in found] == [
        ("jane@shop.example", _A.REFUSED_US),
        ("bob@shop.example", _A.NOT_FOUND),
    ]


def test_the_headline_of_a_report_is_no_reason() -> None:
    prose = "The following message to <jane@shop.example> was undeliverable.\nThe reason:\n5.3.0 - setup\n"
    (outcome,) = read_message(_plain(prose).encode())
    assert outcome.diagnosis.answer is _A.UNCLEAR


def test_a_server_that_refuses_for_good_does_not_end_what_is_still_tried() -> None:
    prose = (
        "A message that you sent has not yet been delivered.\n\n  jane@shop.example\n"
        "    553 messages from 192.0.2.1 will be permanently deferred: 550 user unknown\n\n"
        "Delivery attempts will continue.\n"
    )
    (outcome,) = read_message(_plain(prose).encode())
    assert outcome.kind is _K.DEFERRED


def test_a_refusal_for_spam_is_no_complaint() -> None:
    message = (
        "From: postmaster@shop.example\nTo: news@sender.example\n"
        "Subject: DELIVERY FAILURE: 554 5.7.1 spam message rejected\n\n"
        "554 5.7.1 spam message rejected\njane@shop.example\n"
    )
    (outcome,) = read_message(message.encode())
    assert (outcome.address, outcome.kind, outcome.diagnosis.answer) == (
        "jane@shop.example",
        _K.BOUNCED,
        _A.REFUSED_US,
    )


_RETURNED = (
    "From: News <news@sender.example>\nTo: jane@shop.example\nSubject: Your account\n"
    "Message-ID: <m1@sender.example>\n\nYour account is disabled: 550 5.1.1 user unknown\n"
)


@pytest.mark.parametrize(
    "copy",
    [
        f"Your message was:\n\n{_RETURNED}",
        "\n".join(f"> {line}" for line in _RETURNED.splitlines()),
        "----- Ursprüngliche Nachricht -----\nYour account is disabled: 550 5.1.1 user unknown\n",
        _RETURNED.replace("From", "Von").replace("To:", "An:").replace("Subject", "Betreff"),
    ],
    ids=["announced", "quoted", "separated", "translated"],
)
def test_what_a_message_of_ours_says_is_no_reason_of_its_bounce(copy: str) -> None:
    prose = f"It could not be delivered.\n\n<jane@shop.example>: message too large\n\n{copy}\n"
    (outcome,) = read_message(_plain(prose).encode())
    assert (outcome.address, outcome.kind) == ("jane@shop.example", _K.BOUNCED)
    assert outcome.diagnosis.answer not in {_A.NOT_FOUND, _A.DISABLED}


def test_a_report_may_name_the_message_before_it_says_why() -> None:
    prose = (
        "Your message\n\n  To: jane@shop.example\n  Subject: News\n  Sent: Tue, 3 Nov 2026\n\n"
        "did not reach the following recipient(s):\n\njane@shop.example\n    550 5.1.1 user unknown\n"
    )
    (outcome,) = read_message(_plain(prose).encode())
    assert (outcome.address, outcome.diagnosis.answer) == ("jane@shop.example", _A.NOT_FOUND)


@pytest.mark.parametrize("sender", ["postmaster@sender.example", "quarantine@filter.example"])
@pytest.mark.parametrize(
    ("subject", "is_bounce"),
    [
        ("Quarantine digest: 3 undeliverable messages", False),
        ("Undeliverable messages in your quarantine", False),
        ("Undeliverable mail digest", False),
        ("Quarantäne-Bericht: 3 unzustellbare Nachrichten", False),
        ("Spam digest", False),
        ("You have 3 messages on hold (undeliverable)", False),
        ("Undeliverable: Your quarantine report", True),
        ("Undeliverable mail", True),
    ],
)
def test_what_a_filter_tells_of_others_mail_is_nothing_that_became_of_ours(
    subject: str, sender: str, *, is_bounce: bool
) -> None:
    message = _plain(
        "could not be delivered:\n\njane@shop.example\n    550 5.1.1 user unknown\n", sender=sender
    )
    message = message.replace("Return-Path: <>\n", "").replace("failure notice", subject)
    assert [one.kind for one in read_message(message.encode())] == [_K.BOUNCED] * is_bounce


@pytest.mark.parametrize("subject", ["Your message was quarantined as spam", "Message blocked as spam"])
def test_what_a_mail_server_tells_of_its_spam_filter_is_no_complaint(subject: str) -> None:
    message = _plain(
        "The message to <jane@shop.example> was classified as spam.\n", sender="postmaster@shop.example"
    )
    outcomes = read_message(message.replace("failure notice", subject).encode())
    assert _K.COMPLAINED not in {one.kind for one in outcomes}


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("To: jane@shop.example", ["jane@shop.example"]),
        ("To: jane@shop.example, bob@shop.example", []),
        ("To: team@sender.example\nList-Post: <mailto:team@sender.example>", []),
    ],
)
def test_a_complaint_that_names_nobody_is_by_the_only_recipient_and_not_by_a_list(
    original: str, expected: list[str]
) -> None:
    message = (
        "From: fbl@isp.example\nTo: fbl@sender.example\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="x"\n\n'
        "--x\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n\n"
        f"--x\nContent-Type: message/rfc822\n\nFrom: news@sender.example\n{original}\n\nx\n--x--\n"
    )
    assert [one.address for one in read_message(message.encode())] == expected


def test_the_text_of_a_report_about_somebody_else_says_nothing_of_its_recipient() -> None:
    fields = "Final-Recipient: rfc822; jane@shop.example\nAction: failed\nStatus: 5.0.0\n"
    (outcome,) = read_message(_dsn(fields, prose="<bob@shop.example>:\n550 5.1.1 User unknown").encode())
    assert (outcome.address, outcome.diagnosis.answer) == ("jane@shop.example", _A.UNCLEAR)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("bounces+12-jane=shop.example@sender.example", ["jane@shop.example"]),
        ("bounces+jane+info=shop.example@sender.example", []),  # of the list "jane", or of the tag "info"?
    ],
)
def test_a_return_address_that_can_be_read_in_two_ways_names_nobody(to: str, expected: list[str]) -> None:
    message = _plain("The reason given was:\n550 5.1.1 user unknown\n").replace("news@sender.example", to, 1)
    assert [one.address for one in read_message(message.encode())] == expected


def test_neither_a_sender_nor_a_mailing_list_is_taken_for_the_recipient() -> None:
    refused = "It could not be delivered because they are not accepting mail from anna@lists.sender.example."
    assert read_message(_plain(refused).encode()) == ()
    returned = (
        "One or more of the recipients are not a valid user of the system.\n\n"
        "--- Original message ---\nTo: club@sender.example\nList-Post: <mailto:club@sender.example>\n"
    )
    assert read_message(_plain(returned).encode()) == ()


_WITHOUT_A_DOMAIN = {
    "en": "Address not found\nYour message wasn't delivered to {0} because the domain {1} couldn't be found.",
    "de": "Adresse nicht gefunden\nIhre Nachricht an {0} wurde nicht zugestellt, weil die Domain {1} nicht "
    "gefunden wurde.",
    "fr": "Adresse introuvable\nVotre message n'a pas été remis à {0}, car le domaine {1} est introuvable.",
    "es": "No se ha encontrado la dirección\nNo se ha entregado tu mensaje a {0} porque no se ha podido "
    "encontrar el dominio {1}.",
    "pt": "Endereço não encontrado\nSua mensagem não foi entregue a {0}: o domínio {1} não foi encontrado.",
    "it": "Indirizzo non trovato\nIl messaggio non è stato recapitato a {0}: "
    "il dominio {1} non è stato trovato.",
    "nl": "Adres niet gevonden\nJe bericht is niet bezorgd bij {0}: het domein {1} kan niet worden gevonden.",
    "pl": "Nie znaleziono adresu\nWiadomość nie została dostarczona na adres {0}, ponieważ nie znaleziono "
    "domeny {1}.",
}


@pytest.mark.parametrize("language", _WITHOUT_A_DOMAIN)
def test_a_domain_that_is_not_found_is_no_missing_mailbox_in_any_language(language: str) -> None:
    prose = _WITHOUT_A_DOMAIN[language].format("jane@typo.example", "typo.example")
    message = _plain(prose, headers="X-Failed-Recipients: jane@typo.example\n")
    assert _reported(message) == [("jane@typo.example", OutcomeKind.BOUNCED, Answer.UNCLEAR)]


@pytest.mark.parametrize(
    "fields",
    [
        "Status: 4.0.0\nDiagnostic-Code: smtp; DNS Error: lookup of typo.example responded with NXDOMAIN\n",
        "Status: 5.1.2\n",
        "Status: 5.4.4\n",
        "Status: 5.4.310\n",
    ],
)
def test_fields_that_speak_of_the_domain_are_believed_before_the_text_for_people(fields: str) -> None:
    message = _dsn(
        f"Final-Recipient: rfc822; jane@typo.example\nAction: failed\n{fields}",
        prose="The address jane@typo.example was not found: there is no such recipient.",
        to="jane@typo.example",
    )
    ((_, kind, answer),) = _reported(message)
    assert kind is OutcomeKind.BOUNCED
    assert answer not in {Answer.NOT_FOUND, Answer.DISABLED}


@pytest.mark.parametrize(
    "message",
    [
        _WRITTEN.format(text="Thank you, I will order one."),
        _GATEWAY.replace("Content-Type", "List-Unsubscribe: <https://b.test/u>\nContent-Type"),
        _GATEWAY.replace("Subject: ", "Subject: Re: "),
        _GATEWAY.replace("550 5.1.1 user unknown", "The parcel comes tomorrow."),
    ],
    ids=["an answer", "a newsletter on bounces", "an answer about one", "a parcel"],
)
def test_other_mail_reports_nothing(message: str) -> None:
    assert read_message(message.encode()) == ()


@pytest.mark.parametrize(
    "greeting",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        json.dumps(
            {
                "notificationType": "AmazonSnsSubscriptionSucceeded",
                "message": "You have successfully subscribed your Amazon SNS topic to receive notifications.",
            }
        ),
    ],
)
def test_what_amazon_says_when_a_topic_is_connected_tells_nothing_and_is_no_damage(greeting: str) -> None:
    assert read_webhook(SenderKind.SES, greeting.encode()) == ()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Spam Reporting Address", _K.COMPLAINED),
        ("Unsubscribed Address", _K.UNSUBSCRIBED),
        ("Bounced Address", _K.BOUNCED),
    ],
)
def test_what_a_sender_drops_because_of_an_earlier_wish_tells_the_wish(
    reason: str, kind: OutcomeKind
) -> None:
    event = {"event": "dropped", "email": "zara@b.test", "reason": reason, "timestamp": NOW}
    (found,) = filter(None, read_webhook(SenderKind.SENDGRID, json.dumps([event]).encode()))
    assert found.kind is kind


@pytest.mark.parametrize(
    ("sender", "posted"),
    [
        (
            SenderKind.SES,
            {
                "eventType": "Reject",
                "mail": {"destination": ["a@b.test"]},
                "reject": {"reason": "Bad content"},
            },
        ),
        (
            SenderKind.SES,
            {
                "eventType": "Rendering Failure",
                "mail": {"destination": ["a@b.test"]},
                "failure": {"errorMessage": "Attribute 'user' does not exist."},
            },
        ),
        (
            SenderKind.POSTMARK,
            {
                "RecordType": "Bounce",
                "Type": "TemplateRenderingFailed",
                "Email": "a@b.test",
                "Details": "user unknown to the template",
            },
        ),
        (
            SenderKind.BREVO,
            {"event": "error", "email": "a@b.test", "reason": "the sender you used does not exist"},
        ),
        (
            SenderKind.SPARKPOST,
            {"type": "generation_failure", "rcpt_to": "a@b.test", "raw_reason": "'user' does not exist"},
        ),
        (
            SenderKind.MAILGUN,
            {"event": "rejected", "recipient": "a@b.test", "reject": {"reason": "Sandbox user is unknown"}},
        ),
        (
            SenderKind.POSTMARK,
            {
                "RecordType": "Bounce",
                "Type": "SMTPApiError",
                "Email": "a@b.test",
                "Details": "no such server",
            },
        ),
        (SenderKind.SENDGRID, {"event": "dropped", "email": "a@b.test", "reason": "Spam Content"}),
        (SenderKind.SENDGRID, {"event": "dropped", "email": "a@b.test", "reason": "Invalid SMTPAPI header"}),
        (
            SenderKind.SENDGRID,
            {"event": "dropped", "email": "a@b.test", "reason": "Recipient List over Package Quota"},
        ),
    ],
)
def test_what_a_sender_could_not_send_says_nothing_of_the_mailbox(sender: SenderKind, posted: Any) -> None:
    (outcome,) = filter(None, read_webhook(sender, json.dumps(posted).encode()))
    assert (outcome.address, outcome.kind) == ("a@b.test", OutcomeKind.BOUNCED)
    assert outcome.diagnosis.was_never_sent
    for earlier in (_outcome(_K.DELIVERED, 3), _outcome(_K.BOUNCED, 3, _A.NOT_FOUND)):
        fact = mailbox_fact([earlier, replace(outcome, happened_at=NOW)], OutcomePolicy(), NOW)
        assert fact is not None
        assert fact.answer is earlier.diagnosis.answer


@pytest.mark.parametrize(
    ("sender", "posted"),
    [
        (
            SenderKind.POSTMARK,
            {
                "RecordType": "SubscriptionChange",
                "Recipient": "a@b.test",
                "SuppressSending": True,
                "SuppressionReason": "HardBounce",
            },
        ),
        (SenderKind.SENDGRID, {"event": "dropped", "email": "a@b.test", "reason": "Bounced Address"}),
        (SenderKind.BREVO, {"event": "blocked", "email": "a@b.test", "reason": "blocked : due to blacklist"}),
    ],
)
def test_what_a_senders_own_list_kept_back_takes_an_earlier_delivery_back(
    sender: SenderKind, posted: Any
) -> None:
    (outcome,) = filter(None, read_webhook(sender, json.dumps([posted]).encode()))
    kept_back = replace(outcome, happened_at=NOW)
    assert kept_back.diagnosis.was_never_sent
    assert mailbox_fact([_outcome(_K.DELIVERED, 3), kept_back], OutcomePolicy(), NOW) is None


@pytest.mark.parametrize(
    ("sender", "posted"),
    [
        (SenderKind.POSTMARK, {"RecordType": "Bounce", "Type": "SoftBounce", "Email": "a@b.test"}),
        (SenderKind.POSTMARK, {"Type": "SoftBounce", "Email": "a@b.test"}),
        (SenderKind.BREVO, {"event": "softBounce", "email": "a@b.test"}),
        (
            SenderKind.MAILGUN,
            {"items": [{"event": "failed", "severity": "temporary", "recipient": "a@b.test"}]},
        ),
    ],
)
def test_a_soft_bounce_may_pass_however_the_sender_writes_it(sender: SenderKind, posted: Any) -> None:
    (outcome,) = filter(None, read_webhook(sender, json.dumps(posted).encode()))
    assert (outcome.address, outcome.kind) == ("a@b.test", OutcomeKind.DEFERRED)


class Counted:
    """A compiled pattern that counts how often it is asked."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        self.asked += 1
        return getattr(self._pattern, name)


@pytest.mark.parametrize("recipients", [50, 400])
def test_a_bounce_that_names_many_in_a_row_is_looked_at_once_for_each(
    recipients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("_LISTED", "_BETWEEN_NAMES", "_REPLY_WITH_CODE")
    counted = {name: Counted(getattr(messages, name)) for name in names}
    for name, pattern in counted.items():
        monkeypatch.setattr(messages, name, pattern)
    prose = "\n\n".join(f"user{number}@example.com" for number in range(recipients))
    raw = f"From: MAILER-DAEMON@mx.example\nSubject: Undelivered mail\n\n{prose}\n\n550 no such user"
    assert len(messages.read_message(raw.encode())) == recipients
    assert counted["_LISTED"].asked <= 2
    assert counted["_BETWEEN_NAMES"].asked <= recipients
    assert counted["_REPLY_WITH_CODE"].asked <= 6 * recipients


_NO_USER = "Action: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 User unknown\n"


def _reported(message: str) -> list[tuple[str, OutcomeKind, Answer]]:
    return [(one.address, one.kind, one.diagnosis.answer) for one in read_message(message.encode())]


def test_one_of_several_behind_a_role_may_be_missing_and_the_role_is_there() -> None:
    names = "Original-Recipient: rfc822; {}@shop.example\nFinal-Recipient: rfc822; {}\n"
    gone = _dsn(names.format("info", "karl@home.example") + _NO_USER, to="info@shop.example")
    assert _reported(gone) == [("info@shop.example", _K.BOUNCED, _A.UNCLEAR)]
    same = _dsn(names.format("info", "info@exchange.shop.example") + _NO_USER, to="info@shop.example")
    assert _reported(same) == [("info@shop.example", _K.BOUNCED, _A.NOT_FOUND)]
    person = _dsn(names.format("karl", "karl.k@home.example") + _NO_USER, to="karl@shop.example")
    assert _reported(person) == [("karl@shop.example", _K.BOUNCED, _A.NOT_FOUND)]


def test_nor_is_a_role_missing_in_the_words_of_exim() -> None:
    text = (
        "A message that you sent could not be delivered to one or more of its recipients.\n"
        "This is a permanent error. The following address(es) failed:\n\n"
        "  karl@home.example\n    (generated from sales@shop.example)\n"
        "    SMTP error from remote mail server after RCPT TO:<karl@home.example>:\n"
        "    550 5.1.1 no such user\n"
    )
    reported = _reported(_plain(text, headers="X-Failed-Recipients: karl@home.example\n"))
    assert reported == [("sales@shop.example", _K.BOUNCED, _A.UNCLEAR)]


def test_a_message_that_arrived_at_one_of_two_behind_an_address_arrived() -> None:
    group = "Original-Recipient: rfc822; karl@shop.example\nFinal-Recipient: rfc822; {}@home.example\n"
    fields = f"{group.format('a')}{_NO_USER}\n{group.format('b')}Action: delivered\nStatus: 2.0.0\n"
    assert _reported(_dsn(fields, to="karl@shop.example")) == [
        ("karl@shop.example", _K.DELIVERED, _A.ACCEPTED)
    ]


def test_a_recipient_without_a_domain_is_the_one_of_that_name_whom_the_message_was_sent_to() -> None:
    fields = "Final-Recipient: rfc822; jane\n" + _NO_USER
    assert _reported(_dsn(fields)) == [("jane@shop.example", _K.BOUNCED, _A.NOT_FOUND)]
    assert _reported(_dsn(fields, to="janet@shop.example")) == []
    assert _reported(_dsn(fields, to="jane@shop.example, jane@home.example")) == []


def test_no_event_of_a_batch_is_left_out_however_many_there_are() -> None:
    events = [{"event": "delivered", "email": f"a{n}@example.com", "timestamp": 1} for n in range(10_001)]

    assert len(read_webhook(SenderKind.SENDGRID, json.dumps(events).encode())) == 10_001


_REPLIES = (
    "550 5.1.1 <jane@shop.example>: Recipient address rejected: User unknown in virtual mailbox table",
    "550 Requested action not taken: mailbox unavailable",
    "550 5.2.1 The account is inactive",
    "552 5.2.2 Mailbox full",
    "554 5.7.1 Service unavailable; Client host [192.0.2.9] blocked using zen.example",
    "451 4.7.1 Greylisted, try again in 5 minutes",
    "550-5.1.1 The email account that you tried to reach does not exist. 550 5.1.1 Please check it.",
    "550 Отправлять некому: такого пользователя нет",
    "500 Command unrecognized",
)
_WRAPPED = (
    "host mx.shop.example[192.0.2.1] said: {}",
    "host mx.shop.example[192.0.2.1] said: {} (in reply to RCPT TO command)",
    "bounced; status=bounced (host mx.shop.example[192.0.2.1] said: {} (in reply to RCPT TO command))",
    "SMTP error from remote mail server after RCPT TO:<jane@shop.example>: {}",
    "host mx [192.0.2.1]: SMTP error from remote mail server after pipelined RCPT TO:<jane@shop.example>: {}",
    "SMTP error from remote mailer after RCPT TO:<jane@shop.example>: host mx [192.0.2.1]: {}",
    "192.0.2.1 does not like recipient. Remote host said: {} Giving up on 192.0.2.1.",
    "Remote Server returned '{}'",
    "mx.shop.example #<mx.shop.example smtp;{}> #SMTP#",
    "Reason: [{{LED={}}};{{MSG=}};{{FQDN=mx}};{{IP=192.0.2.1}};{{LRT=11/3/2026 10:00:00 AM}}]. Stage: Send",
    "The response from the remote server was: {}",
    "5.1.0 - Unknown address error {}",
    "Response from 192.0.2.1: {}",
)


@pytest.mark.parametrize("wrapped", _WRAPPED)
def test_a_reply_is_read_the_same_whatever_a_report_writes_around_it(wrapped: str) -> None:
    read = {reply: diagnose(wrapped.format(reply)).answer for reply in _REPLIES}
    assert read == {reply: diagnose(reply).answer for reply in _REPLIES}


@pytest.mark.parametrize(
    "wrapped",
    [
        "host mx.shop.example[192.0.2.1] said: {} (in reply to MAIL FROM command)",
        "host mx.shop.example[192.0.2.1] refused to talk to me: {}",
        "SMTP error from remote mail server after MAIL FROM:<news@sender.example> SIZE=1234: {}",
        "SMTP error from remote mail server after pipelined MAIL FROM:<news@sender.example>: {}",
        "SMTP error from remote mail server after EHLO mail.sender.example: {}",
        "SMTP error from remote mail server after initial connection: {}",
        "Connected to 192.0.2.1 but sender was rejected. Remote host said: {}",
    ],
)
def test_a_refusal_before_the_recipient_was_named_is_of_the_sender(wrapped: str) -> None:
    read = {diagnose(wrapped.format(reply)).answer for reply in _REPLIES if reply.startswith("55")}
    assert read == {Answer.REFUSED_US}


@pytest.mark.parametrize(
    "elsewhere",
    [
        "Neue Adresse: jane@new.example",
        "Neue Mailadresse: jane@new.example",
        "Meine neue E-Mail-Adresse lautet jane@new.example",
        "New address:\njane@new.example",
        "Nouvelle adresse : jane@new.example",
        "Mi nuevo correo electrónico es jane@new.example",
        "Nuovo indirizzo: jane@new.example",
        "Novo endereço: jane@new.example",
        "Nieuw adres: jane@new.example",
        "Nowy adres: jane@new.example",
        "Ny adress: jane@new.example",
        "Новый адрес: jane@new.example",
        "新しいメールアドレス: jane@new.example",
        "Please use: jane@new.example",
        "Moved to: jane@new.example",
        "Nachfolger: bob@new.example",
        "Ansprechpartner: bob@new.example",
        "This address was changed to jane@new.example",
    ],
)
@pytest.mark.parametrize(
    "failed",
    [
        "I wasn't able to deliver your message.\n\n550 5.1.1 <jane@shop.example> user unknown.\n{}\n",
        "Your message to <jane@shop.example> could not be delivered.\n550 5.1.1 user unknown\n{}\n",
        "Could not be delivered:\n\n<jane@shop.example>:\n550 5.1.1 user unknown\n{}\n",
    ],
)
def test_where_somebody_is_now_is_not_the_address_that_is_gone(elsewhere: str, failed: str) -> None:
    read = read_message(_plain(failed.format(elsewhere)).encode())
    assert [(one.address, one.diagnosis.answer) for one in read] == [("jane@shop.example", Answer.NOT_FOUND)]


@pytest.mark.parametrize(
    "text",
    [
        "The server said:\n550-jane@shop.example\n550-does not exist\n550 goodbye\n",
        "Undelivered. host said: 550-jane@shop.example no such user\n",
        ">>> RCPT To:<jane@shop.example>\n<<< 550-jane@shop.example no such user\n<<< 550 Bye\n",
    ],
)
def test_a_code_is_no_part_of_the_address_behind_it(text: str) -> None:
    assert {one.address for one in read_message(_plain(text).encode())} == {"jane@shop.example"}


def test_an_address_may_begin_like_a_code() -> None:
    text = "I could not deliver:\n\n<550-jane@shop.example>:\n550 no such user\n"
    assert [one.address for one in read_message(_plain(text).encode())] == ["550-jane@shop.example"]


@pytest.mark.parametrize(
    "listed", ["<jane@shop.example>\n    (reason: 550 5.1.1 bob@shop.example took over)", ""]
)
@pytest.mark.parametrize("behind", ["550 5.1.1 <jane@shop.example>... User unknown\n", ""])
def test_whom_a_reply_names_in_a_transcript_is_not_gone(listed: str, behind: str) -> None:
    head = (
        f"   ----- The following addresses had permanent fatal errors -----\n{listed}\n\n" if listed else ""
    )
    text = (
        f"{head}   ----- Transcript of session follows -----\n... while talking to mx.shop.example.:\n"
        f">>> RCPT To:<jane@shop.example>\n<<< 550 5.1.1 bob@shop.example took over\n{behind}"
    )
    assert [one.address for one in read_message(_plain(text).encode())] == ["jane@shop.example"]


@pytest.mark.parametrize(
    "message",
    [
        _plain("<!--" * 12_000, headers=_HTML),
        _plain("<script" * 12_000, headers=_HTML),
        _plain("dostarcz" * 8_000),
        _plain("доставк" * 8_000),
        _plain("550 no such user").replace("failure notice", "odpowied" * 8_000),
        _plain("550 no such user").replace("failure notice", "=?utf-8?q?a?= " * 30_000),
        _dsn(
            "".join(f"Final-Recipient: rfc822; x{place}\nAction: failed\n\n" for place in range(4_000)),
            to=", ".join(f"jane{place}@shop.example" for place in range(4_000)),
        ),
        _plain("550 no such user", headers=f"Content-Type: multipart/report{'; smtp' * 4_000}\n"),
    ],
    ids=["comment", "script", "polish", "russian", "subject", "encoded", "names", "parameters"],
)
def test_a_message_takes_no_longer_than_its_length_says(message: str) -> None:
    started = time.process_time()
    read_message(message.encode())
    assert time.process_time() - started < 3.0  # it was between ten seconds and a minute
