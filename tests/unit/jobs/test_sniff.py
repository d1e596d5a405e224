"""The bounds a file is held to before any parser sees it, each by itself."""

from __future__ import annotations

import gzip
import os
import random
import time
import zipfile
from pathlib import Path

import pytest

from mailsift.jobs.intake import sniff
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import (
    Dialect,
    FileContainer,
    TextScan,
    addresses_in_line,
    check_is_list,
    check_size,
    check_workbook,
    container_of,
    dialect_of,
    encoding_of,
    gunzip,
    is_bare_address,
)
from mailsift.pipeline.errors import MailsiftError
from tests.support.hostile_files import workbook

NOISE = random.Random(1).randbytes(3_000_000)  # packs hardly, so that its ratio is that of no bomb


def test_what_a_gzip_unpacks_to_is_bounded_below_the_ratio_of_a_bomb_too(tmp_path: Path) -> None:
    source = tmp_path / "list.gz"
    source.write_bytes(gzip.compress(NOISE))
    gunzip(source, tmp_path / "out", IntakeLimits(bytes=len(NOISE)))
    assert (tmp_path / "out").read_bytes() == NOISE
    with pytest.raises(MailsiftError) as refused:
        gunzip(source, tmp_path / "out", IntakeLimits(bytes=len(NOISE) - 1))
    assert refused.value.code == "file_too_large"


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    source = tmp_path / "list"
    source.write_bytes(b"x" * 1000)
    check_size(source, IntakeLimits(bytes=1000))
    with pytest.raises(MailsiftError) as refused:
        check_size(source, IntakeLimits(bytes=999))
    assert refused.value.code == "file_too_large"


def test_what_a_workbook_unpacks_to_is_bounded(tmp_path: Path) -> None:
    source = tmp_path / "book"
    source.write_bytes(workbook(**{"xl/sharedStrings.xml": NOISE}))
    unpacked = len(NOISE) + len("<workbook/>")
    check_workbook(source, IntakeLimits(bytes=unpacked))
    with pytest.raises(MailsiftError) as refused:
        check_workbook(source, IntakeLimits(bytes=unpacked - 1))
    assert refused.value.code == "file_too_large"


@pytest.mark.parametrize("head", [b"a@b.test\n" * 9 + b"\0", b"a\0\0\0@\0\0\0" * 9, b"\0" * 9 + b"a@b.test"])
def test_nul_bytes_that_are_no_letters_of_utf_16_are_no_text(head: bytes) -> None:
    with pytest.raises(MailsiftError, match="binary_file"):
        encoding_of(head)


def scan(folder: Path, data: bytes, line_bytes: int) -> TextScan:
    (folder / "list").write_bytes(data)
    return TextScan(folder / "list", IntakeLimits(line_bytes=line_bytes))


@pytest.mark.parametrize(
    ("data", "is_utf8"),
    [
        (b"abc\n", True),
        ("ab\n\u00e9\n".encode(), True),  # its last letter lies across the seam of two blocks
        (b"ab\n\xc3" + b"abcd", False),  # and here what should follow does not
        (b"ab\n\xc3", False),
        (b"ab\n\xe9\n", False),
    ],
)
def test_letters_across_the_seam_of_two_blocks_are_read(tmp_path: Path, data: bytes, is_utf8: bool) -> None:
    assert scan(tmp_path, data, 4).utf8 is is_utf8


@pytest.mark.parametrize(
    ("data", "quotes", "blanks", "lone"),
    [
        (b"ab\ncd\n", False, False, False),
        (b'a"\nb\n', True, False, False),
        (b"\nab\n", False, True, False),  # the first line is empty
        (b"abc\n\nd", False, True, False),  # both at the seam
        (b"ab\n\r\nc", False, True, False),
        (b"abc\n\r\nd", False, True, False),
        (b"ab\r\ncd\r\n", False, False, False),
        (b"abc\r\nd", False, False, False),  # one line's end across the seam
        (b"abc\rd", False, False, True),
        (b"a\rb", False, False, True),
        (b"abc\r", False, False, True),
    ],
)
def test_what_needs_care_is_seen_wherever_a_block_ends(
    tmp_path: Path, data: bytes, quotes: bool, blanks: bool, lone: bool
) -> None:
    seen = scan(tmp_path, data, 4)
    assert (seen.quotes, seen.blanks, seen.lone_returns) == (quotes, blanks, lone)


def test_a_line_may_be_as_long_as_the_limit_and_the_first_that_is_longer_is_named(tmp_path: Path) -> None:
    scan(tmp_path, b"abcd\nabcd\nabcd", 4)
    for data, line in ((b"abcde\n", 1), (b"ab\nc\nabcdef", 3), (b"abcd\rabcde", 1)):
        with pytest.raises(MailsiftError, match=f"Line {line} is longer than 4 bytes"):
            scan(tmp_path, data, 4)
    with pytest.raises(MailsiftError, match="a NUL byte near line 2"):
        scan(tmp_path, b"abc\nd\0", 4)


def test_a_file_is_large_from_64_mebibytes_on() -> None:
    assert sniff.BOMB_BYTES == 64 * 2**20


def test_a_bomb_is_what_is_large_and_was_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniff, "BOMB_BYTES", 4 * 2**20)
    source, most = tmp_path / "list.gz", gzip.compress(bytes(4 * 2**20), 1)
    for more, is_bomb in ((b"", False), (b"x", True), (NOISE[:50_000], True), (NOISE, False)):
        source.write_bytes(most + gzip.compress(more, 1))
        if not is_bomb:
            gunzip(source, tmp_path / "out", IntakeLimits())
            continue
        with pytest.raises(MailsiftError, match="compression_bomb"):
            gunzip(source, tmp_path / "out", IntakeLimits())


def test_a_large_workbook_of_more_than_ten_thousand_parts_is_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sniff, "BOMB_BYTES", 4 * 2**20)
    source = tmp_path / "book"
    with zipfile.ZipFile(source, "w") as archive:  # nothing is packed
        archive.writestr("xl/workbook.xml", bytes(5 * 2**20))
        for number in range(9_999):
            archive.writestr(str(number), b"")
    check_workbook(source, IntakeLimits())
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr("one more", b"")
    with pytest.raises(MailsiftError, match="compression_bomb"):
        check_workbook(source, IntakeLimits())


def test_what_is_too_large_is_told_in_mebibytes(tmp_path: Path) -> None:
    source = tmp_path / "list"
    source.write_bytes(b"")
    os.truncate(source, 3 * 2**20 + 1)
    with pytest.raises(MailsiftError, match="larger than 3 MiB"):
        check_size(source, IntakeLimits(bytes=3 * 2**20))


@pytest.mark.parametrize("control", [b"\x01", b"\x1f", b"\x7f"])
def test_one_control_character_in_a_hundred_is_still_text(control: bytes) -> None:
    assert encoding_of(b"a" * 990 + control * 10) == "utf-8"
    with pytest.raises(MailsiftError, match=r"binary_file.* Save the list as CSV"):
        encoding_of(b"a" * 989 + control * 11)
    assert encoding_of(b"\xe4\xff\r\n\t\x0b\x0c\x1b" * 100) == "utf-8"


def test_a_control_character_strays_into_a_short_list_too() -> None:
    assert encoding_of(b"email,name\nann@example.com,Ann\x1f\x01\n\x7fjoe@example.com,Joe\n") == "utf-8"
    with pytest.raises(MailsiftError, match="binary_file"):
        encoding_of(b"\x01\x02\x03\x04\x05\x06 and so on, which no list has")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_told_by_its_nul_bytes_with_a_few_on_the_other_side(encoding: str) -> None:
    assert encoding_of(("ann@b.test\n" * 3 + "\u0100").encode(encoding)) == encoding


def test_a_long_line_of_many_cells_is_told_by_its_columns(tmp_path: Path) -> None:
    for line, code in (
        (b"a;b;c;", "too_many_columns"),
        (b"a,b,cd", "line_too_long"),
        (b"a,b;c|", "line_too_long"),
    ):
        (tmp_path / "list").write_bytes(line * 2)
        with pytest.raises(MailsiftError, match=code):
            TextScan(tmp_path / "list", IntakeLimits(line_bytes=6, columns=2))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("xl/workbook.bin", "XLSB"),
        ("Index/Document.iwa", "Numbers"),
        ("content.xml", "ODS"),
        ("list.csv", "zip archive"),
    ],
)
def test_a_package_that_is_no_workbook_is_told_what_it_is(tmp_path: Path, part: str, expected: str) -> None:
    with zipfile.ZipFile(tmp_path / "book", "w") as archive:
        archive.writestr(part, b"")
    with pytest.raises(MailsiftError, match=rf"unsupported_format: .*{expected}.*(?:XLSX|CSV)"):
        check_workbook(tmp_path / "book", IntakeLimits())


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\xff\xff\xff\xff\x78\0\0\0", "Arrow IPC stream"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        (b"SQLite format 3\0\x10\0", "SQLite"),
        (b"\0\1\0\0Standard Jet DB\0", "Access"),
        (b"list.csv".ljust(257, b"\0") + b"ustar\x0000", "tar archive"),
        (b"list.csv".ljust(257, b"\0") + b"ustar  \0", "tar archive"),
        ("email\n".encode("utf-32"), "UTF-32"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip archive; unpack it"),
        (b"Rar!\x1a\x07", "RAR archive; unpack it"),
        (rb"{\rtf1\ansi a@example.com", "rich text document; save it as plain text"),
    ],
)
def test_a_file_of_another_kind_is_told_what_it_is(head: bytes, expected: str) -> None:
    with pytest.raises(MailsiftError, match=f"unsupported_format: .*{expected}"):
        container_of(head)


def test_lists_in_a_zip_archive_are_to_be_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export", "w") as archive:
        archive.writestr("subscribed.csv", b"")
    with pytest.raises(MailsiftError, match=r"unsupported_format: .*; unpack it and send the list"):
        check_workbook(tmp_path / "export", IntakeLimits())


def test_letters_of_an_address_are_no_archive() -> None:
    assert container_of(b"ann@example.com\n" * 16 + b"mustard@example.com\n") is FileContainer.TEXT


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("From ann@example.com Mon Jan  1 00:00:00 2024\nFrom: Ann", "mailbox"),
        (
            "Return-Path: <ann@example.com>\r\nTo: b@example.com,\r\n c@x.com\r\nMIME-Version: 1.0",
            "message",
        ),
        ("# extended LDIF\n#\n\nversion: 1\ndn: cn=Ann\nmail: ann@example.com\n", "LDIF"),
        ("From ann@example.com Mon Jan  1 00:00:00 2024\nFrom: Ann", "mailbox of messages; paste"),
        ("BEGIN:VCALENDAR\nVERSION:2.0", "calendar"),
        ("-[ RECORD 1 ]---\nemail | ann@example.com\n", "field on each line .* as CSV"),
        ("Expanded display is on.\n┌─[ RECORD 1 ]─┐\n│ email │ ann@example.com │\n", "field on each line"),
        (
            "*************************** 1. row ****************\nemail: ann@example.com\n",
            "field on each line",
        ),
        ("-- dump\n\nSET NAMES utf8;\nINSERT INTO `c` (`email`) VALUES\n('ann@example.com');", "SQL"),
        ("<contacts>\n <contact id='1'>", "XML"),
        ("<!-- saved -->\n<html><body><table><tr><td>a@example.com", "web page"),
        ('ID;PWXL;N;E\r\nP;PGeneral\r\nC;Y1;X1;K"a@example.com"\r\n', "SYLK"),
    ],
)
def test_a_text_that_is_no_list_is_told_what_it_is(head: str, expected: str) -> None:
    with pytest.raises(MailsiftError, match=f"unsupported_format: .*{expected}"):
        check_is_list(head)


@pytest.mark.parametrize(
    "head",
    [
        "From,To\n",
        "To: ann@example.com,\nb@example.com\nSubject: x\n",
        "dn,mail\n",
        "ID;Phone;Email\n1;;a@example.com\n",
        "-- exported today\nemail\n",
        "<Name>,<Email>\n",
        "<ann@example.com>\n<bob@example.com>\n",
        "insert,email\n",
        "-- x\n" * 10_000,
        "A: b\r\n c\r\n" * 5_000,
    ],
)
def test_a_text_that_may_be_a_list_is_not_refused_however_it_begins(head: str) -> None:
    check_is_list(head)


def test_a_colon_behind_addresses_parts_cells() -> None:
    assert dialect_of("ann@example.com:x1\nbob@example.com:x2\n") == Dialect(delimiter=":", columns=2)
    assert dialect_of("email,at\nann@example.com,10:30\nbob@example.com,11:00\n").delimiter == ","
    assert dialect_of("mailto:ann@example.com\nmailto:bob@example.com\n").delimiter == ""


@pytest.mark.parametrize(
    "text",
    [
        "a@" + "." * 20_000 + "@",
        "a@" + "b." * 10_000 + ",x",
        "ann@example.com" + "\n" * 20_000 + "bob@example.com",
        "ann@example.com" + "\t" * 50_000 + "x",
        "ann@example.com" + " \t" * 25_000 + "x",
    ],
)
def test_what_stands_there_thousands_of_times_takes_no_longer_than_it_is(text: str) -> None:
    started = time.process_time()
    assert not is_bare_address(text)
    assert not addresses_in_line(text)
    dialect_of(f"x,{text}\n")
    assert time.process_time() - started < 1.0  # it was between some seconds and a minute


def test_an_address_has_a_dot_behind_its_domains_first_letter_and_before_its_last() -> None:
    assert all(map(is_bare_address, ["a@b.c", "a@b..c", "a@..c", "a@.b.c", "a@b.c.", "a@b.c.d"]))
    assert not any(map(is_bare_address, ["a@b", "a@.c", "a@b.", "a@..", "@b.c", "a@b@c.d"]))
