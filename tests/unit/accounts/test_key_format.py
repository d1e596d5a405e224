"""What a key looks like, and what peppers do."""

from __future__ import annotations

import random
import re
import string

import pytest

from mailsift.accounts.keys import checked_origins, hashed, hint, is_key, new_key, read_peppers
from mailsift.pipeline.errors import MailsiftError

CHOOSE = random.Random(1).choice


def test_a_key_has_its_prefix_32_random_digits_and_a_checksum() -> None:
    key = new_key(CHOOSE)
    assert re.fullmatch(r"svc_key_[0-9A-Za-z]{38}", key)
    assert is_key(key)
    assert new_key(CHOOSE) != key


def test_a_single_wrong_character_is_seen() -> None:
    key = new_key(CHOOSE)
    for place in range(len(key)):
        other = "x" if key[place] != "x" else "y"
        assert not is_key(key[:place] + other + key[place + 1 :])
    assert not any(
        is_key(text) for text in ("", "svc_key_", key + "0", key + "\n", "١" * 46, string.printable)
    )


def test_what_is_stored_depends_on_the_pepper_and_shows_little() -> None:
    key = new_key(CHOOSE)
    one, two = read_peppers("1:0123456789abcdef, 2:fedcba9876543210")
    assert hashed(key, one) != hashed(key, two)
    assert len(hashed(key, one)) == 32
    assert len(set(hint(key)[8:]) & set(key)) <= 8
    assert hint(key) != key


@pytest.mark.parametrize(
    "text", ["", "1:short", "nocolon0123456789abcdef", "1:0123456789abcdef,1:fedcba9876543210"]
)
def test_bad_peppers_are_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(MailsiftError) as caught:
        read_peppers(text)
    assert caught.value.code == "bad_peppers"
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "example.com",
        "http://example.com",
        "https://*.example.com",
        "https://example.com/path",
        "https://example.com?x",
        "https://jane@example.com",
        "https://exa mple.com",
        "https://b\N{ZERO WIDTH SPACE}\N{LATIN SMALL LETTER U WITH DIAERESIS}\N{SNOWMAN}.example",
        "https://.example.com",
        "javascript:1",
        "null",
    ],
)
def test_what_is_no_origin_gets_no_key(origin: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        checked_origins([origin])
    assert refused.value.code == "bad_origin"


def test_an_origin_is_written_as_browsers_send_it() -> None:
    typed = ["https://WWW.Example.com:443/", "https://www.example.com", "http://localhost:8000"]
    assert checked_origins(typed) == ("https://www.example.com", "http://localhost:8000")
    given = [
        "https://B\N{LATIN CAPITAL LETTER U WITH DIAERESIS}cher.example:443",
        "https://xn--bcher-kva.example",
    ]
    assert checked_origins(given) == ("https://xn--bcher-kva.example",)
