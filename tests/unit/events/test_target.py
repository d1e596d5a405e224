from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.target import parse_target
from pipeline.errors import MailsiftError
from pipeline.guard import AddressGuard

GUARD = AddressGuard()


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://Example.COM:443/Hook?a=%20b", "https://example.com/Hook?a=%20b"),
        ("https://hooks.example.com:8443/x", "https://hooks.example.com:8443/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://8.8.8.8/x", "https://8.8.8.8/x"),
        ("https://[2606:4700:0000::1111]/", "https://[2606:4700::1111]/"),
        ("https://my_host.example.com/", "https://my_host.example.com/"),
    ],
)
def test_a_url_has_one_spelling(url: str, stored: str) -> None:
    assert parse_target(url, guard=GUARD).url == stored
    assert parse_target(stored, guard=GUARD).url == stored


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "http://example.com/",
        "https://example.com:80/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://user@example.com/",
        "https://user:pass@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/\\x",
        "https://example.com/#f",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://example.com\n",
        "https://example.com/%zz",
        "https://localhost/",
        "https://example.com./",
        "https://127.0.0.1./",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://0/",
        "https://0177.0.0.1/",
        "https://127.0.0.01/",
        "https://1.2.3.4.5/",
        "https://exa%6dple.com/",
        "https://[::1%25eth0]/",
        "https://[1.2.3.4]x/",
        "https://-a.example.com/",
        "https://a..example.com/",
        "https://example.com/" + "a" * 2_048,
        "https://１２７.0.0.1/",
    ],
)
def test_a_url_that_parsers_may_read_differently_is_refused(url: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        parse_target(url, guard=GUARD)
    assert refused.value.code == "webhook_url_invalid"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
    ],
)
def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        parse_target(f"https://{host}/", guard=GUARD)
    assert refused.value.code == "webhook_url_blocked"


@given(st.text(alphabet="abz019.-_:/?#@\\[]%x\u3002\uff0e １é", max_size=30))
def test_what_is_accepted_is_read_the_same_by_another_parser(rest: str) -> None:
    try:
        target = parse_target("https://" + rest, guard=GUARD, allow_http=True)
    except MailsiftError:
        return
    other = httpx.URL(target.url)
    assert other.host == target.host
    assert (other.port or 443) == target.port
    assert other.raw_path.decode() == target.path
