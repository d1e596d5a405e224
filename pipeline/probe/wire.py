"""SMTP as bytes: commands that cannot carry anything but their words, and a bounded reader of replies."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.replies.languages import CHINESE, JAPANESE, KOREAN, LANGUAGES, fold

MAX_LINE: Final = 2048
"""Bytes of one reply line; RFC 5321 section 4.5.3.1.5 says 512, real servers say more."""

MAX_LINES: Final = 100
"""Lines of one reply."""

MAX_REPLY: Final = 32_768
"""Bytes of one reply, all lines together."""

STARTTLS: Final = b"STARTTLS\r\n"
RSET: Final = b"RSET\r\n"
QUIT: Final = b"QUIT\r\n"

# RFC 5321 section 4.1.2 and RFC 6531 section 3.3, without the brackets that delimit a path and without any
# control character (C0, DEL, C1, U+2028, U+2029), although a quoted local part may formally hold "<" and ">".
_UTF8 = "\u00a0-\u2027\u202a-\ud7ff\ue000-\U0010ffff"
_ATEXT = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{_UTF8}-]"
_QUOTED = rf'"(?:[ !#-;=?-\[\]-~{_UTF8}]|\\[ -;=?-~])*"'
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DOMAIN = rf"{_NAME}(?:\.{_NAME})*"
_HELO = re.compile(rf"{_DOMAIN}|\[(?:[0-9.]{{7,15}}|IPv6:[0-9A-Fa-f:.]{{2,45}})\]")
_MAX_ADDRESS = 320

# "5.1.1 text" (RFC 2034) and the "#5.1.0 text" of some appliances at the start; "(#5.7.17)" anywhere (qmail).
_ENHANCED = re.compile(r"#?([245]\.\d{1,3}\.\d{1,3})(?=[\s:;,-]|$)[\s:;,-]*")
_ENHANCED_INSIDE = re.compile(r"#([245]\.\d{1,3}\.\d{1,3})\b")

_CHARSETS: Final = (
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "koi8_u", "cp1251", "cp1253", "cp1252"),
    "iso8859_2",
)
_SHIFTED: Final = b"\x1b$"
"""How ISO-2022-JP begins, which has no other octets than ASCII."""

_MIN_KNOWN: Final = 0.5
_MOST_READ: Final = 200


def hello(verb: str, name: str) -> bytes:
    """Return the EHLO or HELO command.

    Args:
        verb: "EHLO" or "HELO".
        name: a host name or an address literal such as "[192.0.2.1]" (RFC 5321 section 4.1.3).

    Raises:
        MailsiftError: `unsafe_command` when the name is anything else.
    """
    if len(name) > 255 or not _HELO.fullmatch(name):
        raise _unsafe("HELO name")
    return _command(verb, name)


def mail_from(sender: str, *, utf8: bool = False) -> bytes:
    """Return MAIL FROM for a sender address, "" for the null sender; utf8 adds SMTPUTF8 (RFC 6531).

    Raises:
        MailsiftError: `unsafe_command` when the sender does not fit the grammar.
    """
    path = _checked_address(sender) if sender else ""
    return _command("MAIL", f"FROM:<{path}> SMTPUTF8" if utf8 else f"FROM:<{path}>")


def rcpt_to(address: str) -> bytes:
    """Return RCPT TO for an address; one with characters beyond ASCII needs SMTPUTF8 in MAIL FROM.

    Raises:
        MailsiftError: `unsafe_command` when the address does not fit the grammar.
    """
    return _command("RCPT", f"TO:<{_checked_address(address)}>")


def is_safe(address: str) -> bool:
    """Tell whether the address may stand in a command."""
    return len(address) <= _MAX_ADDRESS and _address().fullmatch(address) is not None


@cache
def _address() -> re.Pattern[str]:
    """Return what an address is; of no use to a process that only checks its settings, and 8 ms to make."""
    return re.compile(rf"(?:{_ATEXT}+(?:\.{_ATEXT}+)*|{_QUOTED})@{_DOMAIN}")


def _checked_address(address: str) -> str:
    if not is_safe(address):
        raise _unsafe("address")
    return address


def _command(verb: str, arguments: str) -> bytes:
    line = f"{verb} {arguments}\r\n".encode()
    if line.count(b"\r") + line.count(b"\n") + line.count(b"\0") != 2:  # the grammar has already seen to it
        raise _unsafe(verb)
    return line


def _unsafe(what: str) -> MailsiftError:
    return MailsiftError("unsafe_command", f"the {what} cannot be written in an SMTP command")


class WireReply(NamedTuple):
    """One whole reply (RFC 5321 section 4.2).

    Attributes:
        code: three digits, of the last line.
        enhanced: the RFC 3463 code of the first line that has one, or "".
        lines: the words of every line, without either code.
    """

    code: int
    enhanced: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All words in one line."""
        return " ".join(line for line in self.lines if line)


class ReplyParser:
    """Cuts a byte stream into replies; keeps at most one unfinished reply of bounded size.

    Attributes:
        replies: the finished replies, oldest first; the consumer takes them out.
    """

    def __init__(self) -> None:
        self.replies: deque[WireReply] = deque()
        self._unfinished = b""
        self._texts: list[bytes] = []
        self._first_digit = b""
        self._size = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that came has been read, parts of a reply included."""
        return not (self.replies or self._unfinished or self._texts)

    def feed(self, data: bytes) -> None:
        """Take the next bytes in.

        Raises:
            MailsiftError: `bad_reply` when they are no SMTP reply or exceed a limit; replies finished before
                stay readable.
        """
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            self._parse_line(line[:-1] if line.endswith(b"\r") else line)
        if len(self._unfinished) > MAX_LINE:
            raise _bad_reply("a reply line is too long")

    def _parse_line(self, line: bytes) -> None:
        code, separator = line[:3], line[3:4]
        self._size += len(line)
        if len(line) > MAX_LINE or self._size > MAX_REPLY or len(self._texts) >= MAX_LINES:
            raise _bad_reply("a reply is too long")
        if (
            len(code) != 3
            or not code.isdigit()
            or not b"200" <= code <= b"599"
            or separator not in (b" ", b"-", b"")
        ):
            raise _bad_reply("the server does not speak SMTP")
        if self._texts and code[:1] != self._first_digit:  # RFC 5321 section 4.2.1: one code in all lines
            raise _bad_reply("a reply says yes and no")
        self._first_digit = code[:1]
        self._texts.append(line[4:])
        if separator != b"-":
            self.replies.append(_parse_reply(int(code), self._texts))
            self._texts = []
            self._size = 0


def _parse_reply(code: int, raw: list[bytes]) -> WireReply:
    enhanced = ""
    lines = []
    for line in _decode(b"\n".join(raw)).split("\n"):
        text = line.strip()
        match = _ENHANCED.match(text)
        if match:
            enhanced = enhanced or match[1]
            text = text[match.end() :]
        lines.append(text)
    if not enhanced and code >= 400:
        found = _ENHANCED_INSIDE.search(" ".join(lines))
        enhanced = found[1] if found else ""
    return WireReply(code, enhanced, tuple(lines))


def _decode(raw: bytes) -> str:
    """Return the text of a reply: UTF-8, or else the charset in which it has the letters of our words.

    In a wrong one, octets become letters that no word of ours is written with, capitals, or letters of two
    scripts in one word. Where none fits, what is no UTF-8 is replaced.
    """
    try:
        return raw.decode("iso2022_jp" if _SHIFTED in raw else "utf-8")
    except UnicodeDecodeError:
        readings = [text for charset in _CHARSETS if (text := _decode_as(charset, raw))]
        best = max(readings, key=_known_share, default="")
        return best if _known_share(best) >= _MIN_KNOWN else raw.decode("utf-8", "replace")


def _decode_as(charset: str, raw: bytes) -> str:
    try:
        return raw.decode(charset)
    except UnicodeDecodeError:
        return ""


def _known_share(text: str) -> float:
    """Return how many of the first characters beyond ASCII our words have, too, of 1."""
    known = list(islice(_are_known(text), _MOST_READ))
    return sum(known) / len(known) if known else 0.0


def _are_known(text: str) -> Iterator[bool]:
    """Tell of each character beyond ASCII whether it belongs where it stands."""
    beside = f" {text} "
    for place, char in enumerate(text):
        if char.isascii():
            continue
        letter = fold(char)
        in_latin = any(other.isascii() and other.isalpha() for other in beside[place : place + 3 : 2])
        if letter.isascii():
            yield in_latin and char.isalpha()
        elif char.islower():
            yield letter in _letters() and not in_latin
        else:
            yield char in _letters()


@cache
def _letters() -> frozenset[str]:
    """Return the letters beyond ASCII that words for mailboxes are written with; no capital is among them."""
    languages = (*LANGUAGES, CHINESE, JAPANESE, KOREAN)
    text = "".join(words for language in languages for words in astuple(language) if isinstance(words, str))
    return frozenset(char for char in text if not char.isascii())


def _bad_reply(message: str) -> MailsiftError:
    return MailsiftError("bad_reply", message, retryable=True)
