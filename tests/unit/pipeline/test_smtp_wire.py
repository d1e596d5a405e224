"""The grammar of commands and the reader of replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.probe import wire
from mailsift.pipeline.probe.wire import ReplyParser, WireReply


def replies_to(*chunks: bytes) -> list[WireReply]:
    reader = ReplyParser()
    for chunk in chunks:
        reader.feed(chunk)
    return list(reader.replies)


def test_commands_are_written_as_the_standard_says() -> None:
    assert wire.hello("EHLO", "probe.example.org") == b"EHLO probe.example.org\r\n"
    assert wire.hello("HELO", "[192.0.2.1]") == b"HELO [192.0.2.1]\r\n"
    assert wire.mail_from("") == b"MAIL FROM:<>\r\n"
    assert wire.mail_from("probe@example.org") == b"MAIL FROM:<probe@example.org>\r\n"
    assert wire.mail_from("", utf8=True) == b"MAIL FROM:<> SMTPUTF8\r\n"
    assert wire.rcpt_to("ann+tag@example.org") == b"RCPT TO:<ann+tag@example.org>\r\n"
    assert wire.rcpt_to('"ann smith"@example.org') == b'RCPT TO:<"ann smith"@example.org>\r\n'
    assert (
        wire.rcpt_to("jürgen@xn--bcher-kva.example") == "RCPT TO:<jürgen@xn--bcher-kva.example>\r\n".encode()
    )


@pytest.mark.parametrize(
    "address",
    [
        "ann@example.org\r\nRCPT TO:<bob@example.org",
        "ann@example.org\n",
        "ann\r@example.org",
        "ann\x00@example.org",
        "ann\x85@example.org",
        "ann\u2028@example.org",
        "ann\ud800@example.org",
        '"ann\r\nDATA"@example.org',
        '"ann\\\r"@example.org',
        '"a>b"@example.org',
        "<ann@example.org>",
        "ann@example.org>\tSIZE=1",
        "ann smith@example.org",
        "ann@[127.0.0.1]",
        "ann@example..org",
        "@example.org",
        "ann",
        "",
        "a" * 320 + "@example.org",
    ],
)
def test_an_address_that_could_break_out_of_its_command_is_refused(address: str) -> None:
    assert not wire.is_safe(address)
    with pytest.raises(MailsiftError, match="unsafe_command"):
        wire.rcpt_to(address)


@pytest.mark.parametrize("name", ["", "a b", "a\r\nQUIT", "a>", "[::1", "é.example", "-", "x" * 300])
def test_a_helo_name_that_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(MailsiftError, match="unsafe_command"):
        wire.hello("EHLO", name)


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_is_written_is_one_line_with_one_path(local: str, domain: str) -> None:
    try:
        command = wire.rcpt_to(f"{local}@{domain}")
    except MailsiftError:
        return
    assert command.endswith(b">\r\n")
    assert command.count(b"\r") == command.count(b"\n") == command.count(b"<") == command.count(b">") == 1
    assert not any(byte < 0x20 or byte == 0x7F for byte in command[:-2])


def test_lines_are_joined_and_the_last_line_has_the_code() -> None:
    (reply,) = replies_to(b"550-5.1.1 The account\r\n551-5.1.1 does not\r\n552 5.1.1 exist\r\n")
    assert reply == WireReply(552, "5.1.1", ("The account", "does not", "exist"))
    assert reply.text == "The account does not exist"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"250\r\n", WireReply(250, "", ("",))),
        (b"250 \n", WireReply(250, "", ("",))),
        (b"250 Ok\n", WireReply(250, "", ("Ok",))),
        (b"250 2.1.5 Ok\r\n", WireReply(250, "2.1.5", ("Ok",))),
        (b"550 5.1.1\r\n", WireReply(550, "5.1.1", ("",))),
        (b"550 #5.1.0 Address rejected.\r\n", WireReply(550, "5.1.0", ("Address rejected.",))),
        (b"550 5.4.1: denied\r\n", WireReply(550, "5.4.1", ("denied",))),
        (b"550 no mailbox (#5.1.1)\r\n", WireReply(550, "5.1.1", ("no mailbox (#5.1.1)",))),
        (b"550 5.1.1.example.org says no\r\n", WireReply(550, "", ("5.1.1.example.org says no",))),
        (b"550 192.0.2.1 is listed\r\n", WireReply(550, "", ("192.0.2.1 is listed",))),
        (b"550 caf\xe9\r\n", WireReply(550, "", ("café",))),
        (b"220 a\r250 forged\r\n", WireReply(220, "", ("a\r250 forged",))),
    ],
)
def test_replies_of_many_shapes_are_read(line: bytes, reply: WireReply) -> None:
    assert replies_to(line) == [reply]


@given(st.lists(st.sampled_from([b"250 Ok\r\n", b"250-a\r\n250 b\n", b"550 5.1.1 no\r\n"])), st.data())
def test_it_does_not_matter_how_the_bytes_arrive(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert replies_to(*pieces) == replies_to(whole)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"25\r\n",
        b"2500\r\n",
        b"150 hm\r\n",
        b"999 hm\r\n",
        b"250 " + b"a" * 3000 + b"\r\n",
        b"a" * 3000,
        b"250-a\r\n" * 101,
        b"250-2.1.5 welcome\r\n550 5.1.1 unknown\r\n",
        b"550-5.1.1 unknown\r\n450 4.1.1 for now\r\n",
        (b"250-" + b"a" * 1500 + b"\r\n") * 30,
    ],
)
def test_what_is_no_reply_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(MailsiftError, match="bad_reply"):
        replies_to(data)


def test_replies_before_rubbish_stay_readable() -> None:
    reader = ReplyParser()
    with pytest.raises(MailsiftError):
        reader.feed(b"250 Ok\r\nrubbish\r\n")
    assert [reply.code for reply in reader.replies] == [250]


def test_an_unfinished_reply_takes_bounded_memory() -> None:
    reader = ReplyParser()
    for _ in range(wire.MAX_LINES):
        reader.feed(b"250-and another thing\r\n")
    with pytest.raises(MailsiftError, match="bad_reply"):
        reader.feed(b"250-and another thing\r\n")
    assert not reader.replies


@pytest.mark.parametrize(
    ("charset", "words"),
    [
        ("utf-8", "用户不存在"),
        ("gb18030", "该用户不存在"),
        ("gb18030", "您的IP地址已被列入黑名单"),
        ("big5", "收件人信箱容量已滿"),
        ("shift_jis", "そのようなユーザーは存在しません"),
        ("euc_jp", "宛先が見つかりません"),
        ("iso2022_jp", "宛先のユーザーは存在しません"),
        ("euc_kr", "존재하지 않는 사용자입니다"),
        ("koi8_r", "Пользователь не найден"),
        ("cp1251", "Пользователь не найден"),
        ("koi8_u", "Такої скриньки не існує"),
        ("cp1253", "Ο χρήστης δεν υπάρχει"),
        ("latin_1", "Empfänger ungültig: gelöscht"),
        ("iso8859_2", "Nie ma takiego użytkownika"),
    ],
)
def test_a_reply_is_read_in_the_charset_of_its_server(charset: str, words: str) -> None:
    lines = [f"550-5.1.1 {words}".encode(charset), f"550 5.1.1 <ann@a.test> {words}".encode(charset)]
    assert replies_to(b"\r\n".join([*lines, b""])) == [
        WireReply(550, "5.1.1", (words, f"<ann@a.test> {words}"))
    ]


def test_octets_of_no_charset_are_replaced() -> None:
    (reply,) = replies_to(b"550 user \x80\x81 unknown \x1b$B\x80\r\n")
    assert reply.text == "user \ufffd\ufffd unknown \x1b$B\ufffd"
