from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from mailsift.events.retry import AttemptOutcome, ErrorClass
from mailsift.events.sender import SendConfig, WebhookSender
from mailsift.events.webhook_url import parse_webhook_url
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import AddressGuard

GUARD = AddressGuard()
UNTRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to load whom the system trusts takes a while


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
    assert parse_webhook_url(url, guard=GUARD).url == stored
    assert parse_webhook_url(stored, guard=GUARD).url == stored


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com\\@127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://0/",
        "http://127.0.0.1./",
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
        "http\u017f://example.com/",  # U+017F and U+212A are an s and a k to who takes no heed of case
        "https://example.com/\u017f",
        "https://example.com/?\u212a",
    ],
)
def test_a_url_that_parsers_may_read_differently_is_refused(url: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        parse_webhook_url(url, guard=GUARD)
    assert refused.value.code == "webhook_url_invalid"


# From the multicast ones on: what Python's ipaddress calls global, in one version or another.
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
        "224.0.0.1",
        "239.255.255.255",
        "[ff02::1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[fec0::1]",
        "[3fff::1]",
        "[5f00::1]",
        "[2002:7f00:1::1]",
        "192.88.99.1",
        "168.63.129.16",
    ],
)
def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        parse_webhook_url(f"https://{host}/", guard=GUARD)
    assert refused.value.code == "webhook_url_blocked"


@given(st.text(alphabet="abz019.-_:/?#@\\[]%x\u3002\uff0e １é", max_size=30))
def test_what_is_accepted_is_read_the_same_by_another_parser(rest: str) -> None:
    try:
        target = parse_webhook_url("https://" + rest, guard=GUARD, allow_http=True)
    except MailsiftError:
        return
    other = httpx.URL(target.url)
    assert other.raw_host.decode() == target.host  # its `host` is decoded for people
    assert (other.port or 443) == target.port
    assert other.raw_path.decode() == target.path


class Watching(AddressGuard):
    """Notes every address it is asked about, and lets none be dialled: the first question is the URL's."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    @override
    def allows(self, address: str) -> bool:
        self.asked.append(address)
        return len(self.asked) == 1 and super().allows(address)


def dialled(url: str) -> str:
    """Return whom a request to this URL would reach: the name that is looked up, or the address."""
    guard, names = Watching(), list[str]()

    async def resolve(name: str) -> Sequence[str]:
        names.append(name)
        return ["192.0.2.1"]

    async def post() -> AttemptOutcome:
        outside = WebhookSender(
            guard=guard, resolve=resolve, config=SendConfig(allow_http=True), ssl_context=UNTRUSTING
        )
        return await outside.post(url, {}, b"{}")

    assert asyncio.run(post()).error is ErrorClass.BLOCKED
    return names[0] if names else guard.asked[1]


HOSTS = st.one_of(
    st.text(alphabet="abz019.-_:/?#@\\[]%xA\u3002\uff0e １éß", min_size=1, max_size=24),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda ip: f"[{ip.exploded.upper()}]"),
    st.from_regex(r"\A[a-zA-Z0-9_]{1,8}(\.[a-zA-Z]{2,6}){1,2}(:[0-9]{1,5})?\Z"),
    st.integers(0, 2**32).map(str),
)


@given(HOSTS, st.sampled_from(["", "/", "/@127.0.0.1/", "/a?b=c@127.0.0.1", "?x=//127.0.0.1"]))
@example("ß\u3002A", "")
def test_the_host_that_is_stored_is_the_host_that_is_dialled(host: str, rest: str) -> None:
    try:
        stored = parse_webhook_url(f"http://{host}{rest}", guard=GUARD, allow_http=True).url
    except MailsiftError:
        return
    assert dialled(stored) == urlsplit(stored).hostname == httpx.URL(stored).raw_host.decode()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Hook.EXAMPLE.com:8080/x", "hook.example.com"),
        ("http://bücher.example/@10.0.0.1/", "xn--bcher-kva.example"),
        ("http://8.8.8.8/", "8.8.8.8"),
        ("http://[2606:4700:0000::1111]/", "2606:4700::1111"),
    ],
)
def test_a_host_is_dialled_as_it_is_written(url: str, host: str) -> None:
    assert dialled(parse_webhook_url(url, guard=GUARD, allow_http=True).url) == host
