from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.replies.redaction import redact


@given(text=st.text(max_size=400))
def test_what_is_shown_is_one_short_printable_line(text: str) -> None:
    redacted = redact(text)
    assert len(redacted) <= 300
    assert redacted.isprintable()


@given(
    local=st.from_regex(r"[a-z0-9][a-z0-9.+_-]{0,30}", fullmatch=True),
    before=st.sampled_from(["", "<", "user ", "(", "to:", '"x" ', "mailto:", "rcpt=", "a@b ", "["]),
    after=st.sampled_from(["", ">", ": unknown", ")", " says no", "/", ";", ">>", "]"]),
)
def test_no_email_address_is_shown(local: str, before: str, after: str) -> None:
    redacted = redact(f"{before}{local}@mail.example.com{after}")
    assert not re.search(r"[\w+-]@\w", redacted)
    assert f"{local}@" not in redacted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<nobody@example.com>: User unknown", "<address>: User unknown"),
        ('"john doe"@example.com unknown', "<address> unknown"),
        ("ＮＯ nobody＠example.com", "ＮＯ <address>"),
        ("user%40example.com unknown", "<address> unknown"),
        ("blocked using zen.spamhaus.org", "blocked using zen.spamhaus.org"),
        ("unknown[192.0.2.9]: rejected", "<host>: rejected"),
        ("mx.example.org (192.0.2.9) no", "<host> no"),
        ("IP 192.0.2.9 and 2001:db8::9 listed", "IP <ip> and <ip> listed"),
        ("see https://bl.example/q?ip=192.0.2.9 now", "see https://bl.example/q now"),
        ("see https://bl.example/192.0.2.9", "see https://bl.example/<id>"),
        ("see https://192.0.2.9/x", "see https://<host>"),
        ("id a1si2345678wrs.1 - gsmtp", "id <id> - gsmtp"),
        ("\x1b[31mred\x1b[0m \u202eevil", "red evil"),
        ("try again in 00:05:00", "try again in 00:05:00"),
    ],
)
def test_what_is_hidden_and_what_is_kept(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_our_own_names_are_hidden_where_they_are_given() -> None:
    own = ["192.0.2.25", "probe.example.net"]
    assert redact("HELO Probe.Example.Net from 192.0.2.25 refused", own=own) == "HELO <us> from <us> refused"


def test_a_word_cut_at_the_limit_is_left_out() -> None:
    assert "secret" not in redact("\x01" * 1_990 + " x secret.name@example.com unknown")
