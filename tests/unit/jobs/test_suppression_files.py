"""Lists of addresses not to send to, as others write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mailsift.jobs.outcomes.files import read_suppressed
from mailsift.pipeline.errors import MailsiftError

SES = {
    "SuppressedDestinationSummaries": [
        {"EmailAddress": "ann@a.test", "Reason": "BOUNCE", "LastUpdateTime": "2026-10-02T10:00:00Z"},
        {"EmailAddress": "bob@a.test", "Reason": "COMPLAINT", "LastUpdateTime": 1790000000},
    ],
    "NextToken": "abc",
}
OURS = """email,reason,origin,since
ann@a.test,manual,api,2026-10-02T10:00:00+00:00
bob@a.test,complained,ses,
cy@a.test,manual,,
"""
SENDGRID = [
    {"created": 1790000000, "email": "ann@a.test", "reason": "550 5.1.1 unknown user", "status": "5.1.1"}
]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            OURS,
            [("ann@a.test", "", 1790935200.0), ("bob@a.test", "complained", 0.0), ("cy@a.test", "", 0.0)],
        ),
        (
            json.dumps(SES),
            [("ann@a.test", "bounced", 1790935200.0), ("bob@a.test", "complained", 1790000000.0)],
        ),
        ('{"emailAddress":"ann@a.test","reason":"BOUNCE"}\n', [("ann@a.test", "bounced", 0.0)]),
        (
            "ann@a.test,COMPLAINT\nbob@a.test,BOUNCE\n",
            [("ann@a.test", "complained", 0.0), ("bob@a.test", "bounced", 0.0)],
        ),
        ("email,state,reason\nann@a.test,active,COMPLAINT\n", [("ann@a.test", "complained", 0.0)]),
        (json.dumps(SENDGRID), [("ann@a.test", "bounced", 1790000000.0)]),
        (
            "status,reason,email,created\n5.1.1,550 5.1.1 unknown user,ann@a.test,1790000000\n",
            [("ann@a.test", "bounced", 1790000000.0)],
        ),
        ("email,created\nann@a.test,1790000000\n", [("ann@a.test", "", 1790000000.0)]),
        ('["ann@a.test", "bob@a.test"]', [("ann@a.test", "", 0.0), ("bob@a.test", "", 0.0)]),
        (
            'email,name\nAnn A <ann@a.test>,Ann\n"""B, Bob"" <bob@a.test>",Bob\nMy list <none>,My list\n',
            [("ann@a.test", "", 0.0), ("bob@a.test", "", 0.0), ("My list <none>", "", 0.0)],
        ),
        ("ann@a.test\nbob@a.test\n", [("ann@a.test", "", 0.0), ("bob@a.test", "", 0.0)]),
    ],
)
def test_a_list_is_read_by_what_it_holds(
    tmp_path: Path, written: str, read: list[tuple[str, str, float]]
) -> None:
    path = tmp_path / "list"
    path.write_text(written)
    assert list(read_suppressed(path)) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            "email,status\nann@a.test,active\nbob@a.test,subscribed\ncy@a.test,unsubscribed\ndee@a.test,bounced\n",
            [("cy@a.test", "unsubscribed"), ("dee@a.test", "bounced")],
        ),
        (
            '[{"email":"ann@a.test","unsubscribed":false},{"email":"bob@a.test","unsubscribed":true}]',
            [("bob@a.test", "")],
        ),
        ("email;unsubscribed;bounced\nann@a.test;0;0\nbob@a.test;0;1\ncy@a.test;1;0\n", ["bob", "cy"]),
        ("email;complained;bounced\nann@a.test;0;0\nbob@a.test;0;1\n", ["ann", "bob"]),
        ("email,unsub_reason\nann@a.test,N/A\nbob@a.test,NORMAL\n", ["ann", "bob"]),
        ("email,status\nann@a.test,active\nbob@a.test,active\n", ["ann", "bob"]),
        ("email,unsubscribed\nann@a.test,no\nbob@a.test,no\n", ["ann", "bob"]),
        ("email,status,unsubscribed\nann@a.test,active,yes\nbob@a.test,active,no\n", ["ann"]),
    ],
    ids=[
        "standings",
        "a flag",
        "flags",
        "by hand",
        "reasons",
        "entries in force",
        "one flag for all",
        "a flag beside a standing",
    ],
)
def test_whoever_an_export_of_everybody_calls_subscribed_is_not_put_on_the_list(
    tmp_path: Path, written: str, read: list[tuple[str, str]] | list[str]
) -> None:
    path = tmp_path / "list"
    path.write_text(written)
    expected = [one if isinstance(one, tuple) else (f"{one}@a.test", "") for one in read]
    assert [(email, kind) for email, kind, _ in read_suppressed(path)] == expected


def test_whom_a_report_on_a_mailing_says_it_reached_is_not_put_on_the_list(tmp_path: Path) -> None:
    path = tmp_path / "list"
    rows = "ann,Delivered ben,Opened al,Sent bob,Bounced cy,Unsubscribed dee,Deferred eve,Sent eve,Complained"
    path.write_text("email,event\n" + rows.replace(",", "@a.test,").replace(" ", "\n"))
    expected = [("bob", "bounced"), ("cy", "unsubscribed"), ("eve", "complained")]
    assert [(email, kind) for email, kind, _ in read_suppressed(path)] == [
        (f"{name}@a.test", kind) for name, kind in expected
    ]


def test_whoever_was_reached_is_put_on_the_list_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("email,event\nann@a.test,delivered\nbob@a.test,delivered\n")
    assert [email for email, _, _ in read_suppressed(path)] == ["ann@a.test", "bob@a.test"]


def test_a_list_may_name_what_is_no_reason_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("email,reason\nann@a.test,Hard Bounce\nbob@a.test,Soft Bounce\n")
    assert [email for email, _, _ in read_suppressed(path)] == ["ann@a.test", "bob@a.test"]


def test_a_file_without_addresses_is_none(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("name,age\nAnn,7\n")
    with pytest.raises(MailsiftError, match="no_address_column"):
        list(read_suppressed(path))
