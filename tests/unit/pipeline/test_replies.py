from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from pipeline.facts import Answer
from pipeline.replies import Reading, Reply, Stage, classify, redact, simplify
from pipeline.reply_table import REASONS, ROWS

_HERE = Path(__file__).parent
_INVALID = {Answer.NOT_FOUND, Answer.DISABLED}
_ABOUT_THE_MAILBOX = {Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL}
_BEFORE_RCPT = [stage for stage in Stage if stage is not Stage.RCPT]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a table of replies; `expected` has more than one answer where both are honest."""

    expected: frozenset[Answer]
    provider: str
    reply: Reply

    @override
    def __str__(self) -> str:
        return f"{self.provider} {self.reply.stage} {self.reply.code} {self.reply.enhanced} {self.reply.text}"


def _cases(*names: str) -> list[Case]:
    lines = [
        line
        for name in names
        for line in (_HERE / f"reply_cases_{name}.tsv").read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]
    return [_case(*line.split("\t")) for line in lines]


def _case(expected: str, provider: str, stage: str, code: str, enhanced: str, text: str) -> Case:
    answers = frozenset(Answer(name) for name in expected.split("|"))
    return Case(answers, provider, Reply(Stage(stage), int(code), enhanced.strip("-"), text))


WRITTEN_FIRST = _cases("mailbox", "refused", "later")
HELD_OUT = _cases("heldout")
CASES = WRITTEN_FIRST + HELD_OUT


def rcpt(code: int, text: str = "", enhanced: str = "") -> Reply:
    return Reply(Stage.RCPT, code, enhanced, text)


def test_there_are_enough_replies_of_enough_servers_to_mean_something() -> None:
    assert len(WRITTEN_FIRST) >= 300
    assert len(HELD_OUT) >= 80
    assert len({case.provider for case in CASES}) >= 60


def test_every_reply_of_the_tables_is_read_as_expected() -> None:
    wrong = {
        str(case): classify(case.reply) for case in CASES if classify(case.reply).answer not in case.expected
    }
    assert wrong == {}


def test_no_reply_about_us_or_rate_or_greylisting_or_policy_becomes_invalid() -> None:
    others = [case for case in CASES if not case.expected & _INVALID]
    assert len(others) >= 300
    assert [str(case) for case in others if classify(case.reply).answer in _INVALID] == []


def test_a_missing_mailbox_is_recognised_in_at_least_97_percent() -> None:
    missing = [case for case in CASES if case.expected == {Answer.NOT_FOUND}]
    recognised = [case for case in missing if classify(case.reply).answer is Answer.NOT_FOUND]
    assert len(missing) >= 150
    assert len(recognised) >= 0.97 * len(missing)


@pytest.mark.parametrize("code", [421, 450, 451, 452, 454])
def test_words_of_a_missing_mailbox_with_a_temporary_code_are_never_invalid(code: int) -> None:
    missing = [case.reply.text for case in CASES if case.expected & _INVALID]
    assert [text for text in missing if classify(rcpt(code, text)).answer in _INVALID] == []


@pytest.mark.parametrize("stage", _BEFORE_RCPT)
def test_before_rcpt_no_reply_of_the_tables_is_about_the_mailbox(stage: Stage) -> None:
    read = [classify(Reply(stage, case.reply.code, case.reply.enhanced, case.reply.text)) for case in CASES]
    assert not {reading.answer for reading in read} & _ABOUT_THE_MAILBOX


_TELLING = ["user", "unknown", "mailbox", "does not exist", "disabled", "full", "quota", "no such", "5.1.1"]
_WORDS = st.lists(
    st.one_of(
        st.sampled_from(_TELLING),
        st.text(max_size=12),
    ),
    max_size=20,
).map(" ".join)
_ENHANCED = st.sampled_from(["", "5.1.1", "4.1.1", "5.2.1", "5.2.2", "5.7.1", "2.1.5", "5.1.10", "rubbish"])


@given(code=st.integers(400, 499), enhanced=_ENHANCED, text=_WORDS)
def test_no_4xx_whatever_its_words_is_invalid(code: int, enhanced: str, text: str) -> None:
    assert classify(rcpt(code, text, enhanced)).answer not in _INVALID


@given(stage=st.sampled_from(_BEFORE_RCPT), code=st.integers(0, 999), enhanced=_ENHANCED, text=_WORDS)
def test_nothing_before_rcpt_is_about_the_mailbox(stage: Stage, code: int, enhanced: str, text: str) -> None:
    assert classify(Reply(stage, code, enhanced, text)).answer not in _ABOUT_THE_MAILBOX


@given(code=st.integers(0, 999), enhanced=_ENHANCED, text=_WORDS)
def test_every_reply_is_read_by_a_row_of_the_table(code: int, enhanced: str, text: str) -> None:
    assert classify(rcpt(code, text, enhanced)).rule in REASONS


@given(code=st.integers(500, 599), enhanced=_ENHANCED, text=_WORDS)
def test_a_refusal_that_names_our_address_is_never_invalid(code: int, enhanced: str, text: str) -> None:
    reply = rcpt(code, f"{text} [192.0.2.25]", enhanced)
    assert classify(reply, own=["192.0.2.25"]).answer not in _INVALID


def test_row_ids_are_unique_and_every_row_says_why() -> None:
    assert len(REASONS) == len(ROWS)
    assert all(reason.endswith(".") for reason in REASONS.values())


@pytest.mark.parametrize(
    ("own", "answer"),
    [
        (["192.0.2.25"], Answer.REFUSED_US),
        (["probe.example.net"], Answer.REFUSED_US),
        (["PROBE.example.NET"], Answer.REFUSED_US),
        (["92.0.2.25"], Answer.NOT_FOUND),
        (["192.0.2.2"], Answer.NOT_FOUND),
        (["example.net"], Answer.NOT_FOUND),
        ([""], Answer.NOT_FOUND),
        ([], Answer.NOT_FOUND),
    ],
)
def test_only_a_reply_that_names_us_exactly_is_about_us(own: list[str], answer: Answer) -> None:
    reply = rcpt(550, "no such user (probe.example.net 192.0.2.25)", "5.1.1")
    assert classify(reply, own=own).answer is answer


def test_our_name_inside_an_email_address_does_not_make_the_reply_about_us() -> None:
    reply = rcpt(550, "<nobody@example.net>: user unknown", "5.1.1")
    assert classify(reply, own=["example.net"]).answer is Answer.NOT_FOUND


def test_a_rate_reply_that_names_us_is_still_a_rate_reply() -> None:
    reply = rcpt(421, "[192.0.2.25] too many connections", "4.7.28")
    assert classify(reply, own=["192.0.2.25"]).answer is Answer.RATE_LIMITED


def test_a_temporary_refusal_that_names_us_is_about_us() -> None:
    assert classify(rcpt(450, "not you, 192.0.2.25"), own=["192.0.2.25"]).answer is Answer.REFUSED_US


@pytest.mark.parametrize("word", ["spam", "full", "disabled", "blocked", "greylist", "unknown", "sender"])
def test_the_words_of_an_address_do_not_count(word: str) -> None:
    assert classify(rcpt(550, f"<{word}@{word}.example>: Rejected")).answer is Answer.UNCLEAR


def test_the_enhanced_code_is_found_in_the_text_when_it_is_not_given() -> None:
    assert classify(rcpt(550, "#5.1.1 Rejected")) == Reading(Answer.NOT_FOUND, "bad-mailbox-code")
    assert classify(rcpt(550, "Rejected (#5.1.1)")).answer is Answer.NOT_FOUND
    assert classify(rcpt(550, "Rejected 5.1.1.4")).answer is not Answer.NOT_FOUND


def test_a_sentence_broken_over_lines_with_repeated_codes_is_read_whole() -> None:
    text = "The email account that you tried to reach does\n5.1.1 not\n5.1.1 exist. Please try"
    assert classify(rcpt(550, text, "5.1.1")).rule == "no-such-mailbox"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Greylisted, please try again in 300 seconds", 300),
        ("Greylisted, try again in 5 minutes", 300),
        ("grey listed, retry 15 min", 900),
        ("Greylisting in action, please come back in 00:05:00", 300),
        ("Greylisted for 1 minutes", 60),
        ("Greylisting aktiv, bitte in 5 Minuten erneut versuchen", 300),
        ("Greylisted, please retry after 120s", 120),
        ("Too many connections. Please try again in an hour", 3600),
        ("Greylisted, try again in 2 hours", 7200),
        ("Greylisted, try again in 99999 hours", 86400),
        ("Greylisted, come back in 99:59:59", 86400),
        ("Greylisted, please try again later", 0),
        ("Greylisted, see rfc 2821 section 4 in 3 steps", 0),
    ],
)
def test_the_delay_a_server_names_is_read(text: str, seconds: int) -> None:
    assert classify(rcpt(451, text)).retry_after == seconds


def test_a_final_answer_carries_no_delay() -> None:
    assert classify(rcpt(550, "user unknown, try again in 5 minutes", "5.1.1")).retry_after == 0


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "<" * 100_000,
        "user " * 20_000,
        "recipient address not " * 5_000,
        "no " * 33_000,
        "a@" * 50_000,
        "1.1." * 25_000,
        "exceeded a b " * 8_000,
        "sorry, " * 14_000,
        "\x1b[" * 50_000,
        "ﷺ" * 33_000,
        '"a" ' * 25_000,
        "::" * 50_000,
        "x" * 1_999 + "@",
        "http://" * 14_000,
        "\x00\r\n" * 30_000,
    ],
)
def test_hostile_text_costs_little_and_stays_one_printable_line(text: str) -> None:
    started = time.process_time()
    classify(rcpt(550, text), own=["192.0.2.25"])
    shown = redact(text)
    assert time.process_time() - started < 0.5
    assert len(shown) <= 300
    assert shown.isprintable()


def test_escapes_and_controls_do_not_hide_the_words() -> None:
    assert classify(rcpt(550, "user\x00\tunknown\r\n\x1b")).answer is Answer.NOT_FOUND
    assert simplify("Sender’s  Adresse\tÜBER\n5.1.8 <a@b.example>") == "senders adresse uber the-address"


@given(text=st.one_of(st.text(max_size=400), _WORDS))
def test_what_is_shown_is_one_short_printable_line(text: str) -> None:
    shown = redact(text)
    assert len(shown) <= 300
    assert shown.isprintable()


@given(
    local=st.from_regex(r"[a-z0-9][a-z0-9.+_-]{0,30}", fullmatch=True),
    before=st.sampled_from(["", "<", "user ", "(", "to:", '"x" ', "mailto:", "rcpt=", "a@b ", "["]),
    after=st.sampled_from(["", ">", ": unknown", ")", " says no", "/", ";", ">>", "]"]),
)
def test_no_email_address_is_shown(local: str, before: str, after: str) -> None:
    shown = redact(f"{before}{local}@mail.example.com{after}")
    assert not re.search(r"[\w+-]@\w", shown)
    assert f"{local}@" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_is_hidden_and_what_is_kept(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_our_own_names_are_hidden_where_they_are_given() -> None:
    own = ["192.0.2.25", "probe.example.net"]
    assert redact("HELO Probe.Example.Net from 192.0.2.25 refused", own=own) == "HELO <us> from <us> refused"


def test_a_word_cut_at_the_limit_is_left_out() -> None:
    assert "secret" not in redact("\x01" * 1_990 + " x secret.name@example.com unknown")
