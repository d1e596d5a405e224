"""The request to a stranger's server, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpcore
import pytest
import trustme
from typing_extensions import override

from mailsift.events.delivery import LEASE_S
from mailsift.events.retry import ErrorClass
from mailsift.events.sender import RESPONSE_BYTES, ReceiverResolver, SendConfig, WebhookSender
from mailsift.pipeline.dns import client as dns_client
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import AddressGuard
from tests.support.connections import talking
from tests.support.receiver import receiving, status
from tests.unit.pipeline.dns_stub import Says, serving

BODY = b'{"a":1}'
NOBODY_TRUSTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading whom the system trusts takes long


async def nobody(_name: str) -> Sequence[str]:
    return ()


def sender(*, timeout_s: float = 5.0, trust: ssl.SSLContext | None = None) -> WebhookSender:
    return WebhookSender(
        guard=AddressGuard(allow_non_public=True),
        resolve=nobody,
        config=SendConfig(allow_http=True, timeout_s=timeout_s),
        ssl_context=trust or NOBODY_TRUSTED,
    )


def _certified(authority: trustme.CA, name: str) -> ssl.SSLContext:
    """Return what a server of this name speaks TLS with."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(made)
    return made


def _trusting(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(made)
    return made


async def test_the_bytes_arrive_as_they_are_and_the_answer_is_told() -> None:
    async with receiving(status(201, body=b"thanks")) as receiver:
        outcome = await sender().post(receiver.url + "?a=b", {"webhook-id": "1"}, BODY)
    assert (outcome.error, outcome.status_code, outcome.response) == (ErrorClass.NONE, 201, "thanks")
    (request,) = receiver.requests
    assert request.line == "POST /hook?a=b HTTP/1.1"
    assert request.body == BODY
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["webhook-id"] == "1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert "cookie" not in request.headers


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (302, ErrorClass.REDIRECT),
        (404, ErrorClass.HTTP_4XX),
        (410, ErrorClass.HTTP_4XX),
        (500, ErrorClass.HTTP_5XX),
    ],
)
async def test_a_status_is_an_error_class(code: int, error: ErrorClass) -> None:
    async with receiving(status(code, "retry-after: 7")) as receiver:
        outcome = await sender().post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code, outcome.retry_after) == (error, code, "7")


async def test_a_redirect_to_ourselves_is_one_request_only() -> None:
    async with receiving() as inside, receiving() as receiver:
        receiver.answer = status(307, f"location: {inside.url}", "set-cookie: a=b")
        outcome = await sender().post(receiver.url, {}, BODY)
        await sender().post(receiver.url, {}, BODY)
    assert outcome.error is ErrorClass.REDIRECT
    assert (receiver.connections, inside.connections) == (2, 0)
    assert "cookie" not in receiver.requests[1].headers


@pytest.mark.parametrize("location", ["http://[", "https://a b/", "//", "mailto:a@example.com", ""])
async def test_a_redirect_to_what_is_no_url_is_a_redirect(location: str) -> None:
    async with receiving(status(302, f"location: {location}")) as receiver:
        outcome = await sender().post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code) == (ErrorClass.REDIRECT, 302)


@pytest.mark.parametrize("path", ["/a/../b/./c", "//a//b/", "/%7e%41?q='(x)&y=%2e%2E"])
async def test_a_path_is_asked_for_as_it_is_written(path: str) -> None:
    async with receiving() as receiver:
        await sender().post(f"http://127.0.0.1:{receiver.port}{path}", {}, BODY)
    assert receiver.requests[0].line == f"POST {path} HTTP/1.1"


async def test_a_request_has_these_headers_and_no_others() -> None:
    async with receiving() as receiver:
        await sender().post(receiver.url, {"webhook-id": "1"}, BODY)
    assert receiver.requests[0].headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-length": str(len(BODY)),
        "content-type": "application/json",
        "user-agent": "Mailsift-Webhooks/1.0",
        "accept-encoding": "identity",
        "connection": "close",
        "webhook-id": "1",
    }


async def test_what_is_fetched_is_asked_for_uncompressed_and_as_it_is_written() -> None:
    async with receiving(status(200, body=b"thanks")) as receiver:
        assert await sender().fetch(f"http://127.0.0.1:{receiver.port}/a/../b") == b"thanks"
    (request,) = receiver.requests
    assert request.line == "GET /a/../b HTTP/1.1"
    assert request.headers["accept-encoding"] == "identity"


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, receiving() as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await sender().post(receiver.url, {}, BODY)).error is ErrorClass.NONE
    assert (receiver.connections, proxy.connections) == (1, 0)


async def test_an_answer_that_comes_too_late_is_a_timeout() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(20)
        writer.write(status(200))

    async with receiving(slow) as receiver:
        outcome = await sender(timeout_s=0.3).post(receiver.url, {}, BODY)
    assert outcome.error is ErrorClass.TIMEOUT
    assert 290 <= outcome.ms < 2_000


async def test_an_answer_counts_that_comes_within_the_time_of_the_whole_request() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(14)
        writer.write(status(200, body=b"thanks"))

    async with receiving(slow) as receiver:
        outcome = await sender(timeout_s=15).post(receiver.url, {}, BODY)
        assert await sender(timeout_s=15).fetch(receiver.url) == b"thanks"
    assert (outcome.error, outcome.response) == (ErrorClass.NONE, "thanks")


async def test_two_addresses_that_are_silent_leave_time_for_the_third() -> None:
    class Silent(httpcore.AnyIOBackend):
        @override
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *rest: Any, **named: Any
        ) -> httpcore.AsyncNetworkStream:
            if host != "127.0.0.1":
                await asyncio.sleep(timeout or 3600)
                raise httpcore.ConnectTimeout
            return await super().connect_tcp(host, port, timeout, *rest, **named)

    async def resolve(_name: str) -> Sequence[str]:
        return ("127.0.0.2", "127.0.0.3", "127.0.0.1")

    usual = WebhookSender(
        guard=AddressGuard(allow_non_public=True),
        resolve=resolve,
        config=SendConfig(allow_http=True),
        ssl_context=NOBODY_TRUSTED,
        network=Silent(),
    )
    async with receiving() as receiver:
        outcome = await usual.post(f"http://hook.example.com:{receiver.port}/", {}, BODY)
    assert outcome.error is ErrorClass.NONE


async def test_a_machine_without_ipv4_reaches_who_has_ipv6_behind_many_other_addresses() -> None:
    dialled = []

    class WithoutIpv4(httpcore.AnyIOBackend):
        @override
        async def connect_tcp(
            self, host: str, port: int, *rest: Any, **named: Any
        ) -> httpcore.AsyncNetworkStream:
            dialled.append(host)
            if host == "2001:4860::2":
                return await super().connect_tcp("127.0.0.1", port, *rest, **named)
            code = errno.ECONNREFUSED if ":" in host else errno.ENETUNREACH
            raise httpcore.ConnectError from OSError(code, "x")

    async def resolve(name: str) -> Sequence[str]:
        refusing = [f"2001:4860::{n}" for n in range(3, 9)]
        return (*(f"8.8.8.{n}" for n in range(4)), *(["2001:4860::2"] if name[0] == "a" else refusing))

    ours = WebhookSender(
        guard=AddressGuard(),
        resolve=resolve,
        config=SendConfig(allow_http=True),
        ssl_context=NOBODY_TRUSTED,
        network=WithoutIpv4(),
    )
    async with receiving() as receiver:
        outcome = await ours.post(f"http://a.example.com:{receiver.port}/", {}, BODY)
        assert outcome.error is ErrorClass.NONE
        dialled.clear()
        outcome = await ours.post(f"http://b.example.com:{receiver.port}/", {}, BODY)
        assert outcome.error is ErrorClass.REFUSED
    assert [host for host in dialled if ":" in host] == [f"2001:4860::{n}" for n in range(3, 6)]


@pytest.mark.parametrize("drip", [b"X-A: 1\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
async def test_headers_that_drip_for_ever_are_a_timeout_by_the_wall_clock(drip: bytes) -> None:
    async def dripping(writer: asyncio.StreamWriter) -> None:
        if drip.startswith(b"X"):
            writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with receiving(dripping) as receiver:
        outcome = await sender(timeout_s=0.5).post(receiver.url, {}, BODY)
    assert outcome.error is ErrorClass.TIMEOUT
    assert outcome.ms < 2_000


@pytest.mark.parametrize("is_tls", [False, True])
async def test_an_answer_that_never_comes_to_an_end_of_its_headers_costs_us_little(is_tls: bool) -> None:
    sent = 0

    async def pouring(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000)
            await writer.drain()
            sent += 28_000

    authority = trustme.CA()
    theirs = _certified(authority, "127.0.0.1") if is_tls else None
    async with receiving(pouring, tls=theirs) as receiver:
        outcome = await sender(trust=_trusting(authority)).post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code) == (ErrorClass.RESET, 0)
    assert sent < 16 * 1024**2  # most of it lies in buffers of the system


async def test_a_body_that_drips_does_not_change_the_status_that_was_heard() -> None:
    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with receiving(dripping) as receiver:
        outcome = await sender(timeout_s=0.5).post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code) == (ErrorClass.NONE, 200)
    assert outcome.ms < 2_000


async def test_a_body_that_breaks_off_does_not_change_the_status_that_was_heard() -> None:
    async with receiving(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthank") as receiver:
        outcome = await sender().post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code, outcome.response) == (ErrorClass.NONE, 200, "thank")


@pytest.mark.parametrize("body", [BODY, BODY * 3_000])
async def test_an_answer_counts_of_who_closes_before_the_request_is_read(body: bytes) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n")

    async with talking(refuse) as port:
        outcomes = [await sender().post(f"http://127.0.0.1:{port}/", {}, body) for _ in range(5)]
    assert {(outcome.error, outcome.status_code) for outcome in outcomes} == {(ErrorClass.HTTP_4XX, 410)}


async def test_a_body_that_tls_makes_nothing_of_does_not_change_the_status_that_was_heard() -> None:
    async def breaking_off(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthank")
        await writer.drain()
        ours = writer.get_extra_info("socket")
        os.write(ours.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody has encrypted

    authority = trustme.CA()
    async with receiving(breaking_off, tls=_certified(authority, "127.0.0.1")) as receiver:
        outcome = await sender(trust=_trusting(authority)).post(receiver.url, {}, BODY)
    assert (outcome.error, outcome.status_code, outcome.response) == (ErrorClass.NONE, 200, "thank")


async def test_plain_http_is_refused_unless_it_is_allowed() -> None:
    async with receiving() as receiver:
        usual = WebhookSender(
            guard=AddressGuard(allow_non_public=True), resolve=nobody, ssl_context=NOBODY_TRUSTED
        )
        with pytest.raises(MailsiftError, match="webhook_url_invalid"):
            usual.check(receiver.url)
        assert (await usual.post(receiver.url, {}, BODY)).error is ErrorClass.BLOCKED
    assert receiver.connections == 0


def test_a_request_has_fifteen_seconds_by_the_wall_clock_and_sixteen_kib_of_its_answer_are_read() -> None:
    assert (SendConfig().timeout_s, RESPONSE_BYTES) == (15.0, 16 * 1024)
    assert 3 * SendConfig().timeout_s < LEASE_S


async def test_half_a_gigabyte_of_gzip_is_neither_read_nor_unpacked() -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 500
    sent = 0

    async def pouring(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"%x\r\n%b\r\n" % (len(bomb), bomb))
            await writer.drain()
            sent += len(bomb)

    async with receiving(pouring) as receiver:
        tracemalloc.start()
        outcome = await sender().post(receiver.url, {}, BODY)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (outcome.error, outcome.status_code, outcome.response) == (ErrorClass.NONE, 200, "")
    assert sent < 20 * len(bomb)
    assert peak < 8 * 1024**2


async def test_of_an_endless_answer_only_the_beginning_is_kept() -> None:
    async def pouring(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"10000\r\n%b\r\n" % (b"<b>" * 22_000)[:0x10000])
            await writer.drain()

    async with receiving(pouring) as receiver:
        outcome = await sender().post(receiver.url, {}, BODY)
    assert (outcome.error, len(outcome.response)) == (ErrorClass.NONE, 4_096)
    assert outcome.ms < 4_000


async def test_a_name_that_looks_like_an_address_to_the_library_does_not_exist() -> None:
    assert (await sender().post("http://1.2b3c4/", {}, BODY)).error is ErrorClass.DNS


async def test_a_port_nobody_listens_on_is_refused() -> None:
    async with receiving() as receiver:
        url = receiver.url
    assert (await sender().post(url, {}, BODY)).error is ErrorClass.REFUSED


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n\r\n"])
async def test_what_is_no_http_is_a_reset(answer: bytes) -> None:
    async with receiving(answer) as receiver:
        assert (await sender().post(receiver.url, {}, BODY)).error is ErrorClass.RESET


async def test_tls_is_checked_against_the_name_and_whom_we_trust() -> None:
    authority = trustme.CA()
    ours, other = _certified(authority, "127.0.0.1"), _certified(authority, "other.example")
    trust = _trusting(authority)
    async with receiving(tls=ours) as receiver:
        assert (await sender(trust=trust).post(receiver.url, {}, BODY)).error is ErrorClass.NONE
        assert (await sender().post(receiver.url, {}, BODY)).error is ErrorClass.TLS
    async with receiving(tls=other) as receiver:
        assert (await sender(trust=trust).post(receiver.url, {}, BODY)).error is ErrorClass.TLS
        assert not receiver.requests


async def test_a_name_that_moves_to_loopback_is_blocked_where_the_socket_is_opened() -> None:
    zone = {"hook.example.com": {"A": Says(["8.8.8.8"], ttl=0)}}
    async with receiving() as receiver, serving(zone) as dns:
        names = ReceiverResolver([dns.server])
        outside = WebhookSender(
            guard=AddressGuard(),
            resolve=names.resolve,
            config=SendConfig(allow_http=True, timeout_s=3),
            ssl_context=NOBODY_TRUSTED,
        )
        url = outside.check(f"http://hook.example.com:{receiver.port}/")
        assert await names.resolve("hook.example.com") == ["8.8.8.8"]
        for record in ("127.0.0.1", "10.0.0.1", "169.254.169.254"):
            zone["hook.example.com"] = {"A": Says([record], ttl=0)}
            assert (await outside.post(url, {}, BODY)).error is ErrorClass.BLOCKED
        mixed = f"http://mixed.example.com:{receiver.port}/"
        zone["mixed.example.com"] = {"A": Says(["8.8.8.8"]), "AAAA": Says(["::ffff:127.0.0.1"])}
        assert (await outside.post(mixed, {}, BODY)).error is ErrorClass.BLOCKED
        nowhere = f"http://nowhere.example.com:{receiver.port}/"
        assert (await outside.post(nowhere, {}, BODY)).error is ErrorClass.DNS
        await names.aclose()
    assert receiver.connections == 0


async def test_the_checked_address_is_dialled_and_the_name_is_what_the_receiver_sees() -> None:
    zone = {"hook.example.com": {"A": Says(["127.0.0.1"])}}
    async with receiving() as receiver, serving(zone) as dns:
        names = ReceiverResolver([dns.server])
        local = WebhookSender(
            guard=AddressGuard(allow_non_public=True),
            resolve=names.resolve,
            config=SendConfig(allow_http=True, timeout_s=3),
            ssl_context=NOBODY_TRUSTED,
        )
        url = f"http://hook.example.com:{receiver.port}/"
        assert (await local.post(url, {}, BODY)).error is ErrorClass.NONE
        await names.aclose()
    assert receiver.requests[0].headers["host"] == f"hook.example.com:{receiver.port}"


async def test_when_the_machine_is_told_to_ask_another_resolver_that_one_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving({"hook.example.com": {"A": Says(["8.8.8.8"])}}) as dns:
        servers = ["127.0.0.1:9"]  # nobody is there
        monkeypatch.setattr(dns_client, "system_servers", lambda: servers)
        names = ReceiverResolver()
        servers[:] = [dns.server]
        with pytest.raises(MailsiftError, match="resolver_failed"):
            await names.resolve("hook.example.com")
        assert await names.resolve("hook.example.com") == ["8.8.8.8"]
        await names.aclose()


@pytest.mark.parametrize("name", ["xn--ls8h.la", "xn--a.example.com", "a_b.example.com"])
async def test_a_name_is_asked_for_as_it_is_written_whether_idna_knows_it_or_not(name: str) -> None:
    async def here(_name: str) -> Sequence[str]:
        return ("127.0.0.1",)

    ours = WebhookSender(
        guard=AddressGuard(allow_non_public=True),
        resolve=here,
        config=SendConfig(allow_http=True),
        ssl_context=NOBODY_TRUSTED,
    )
    async with receiving(status(200, body=b"a@b.com")) as receiver:
        url = f"http://{name}:{receiver.port}/"
        assert (await ours.post(url, {}, BODY)).error is ErrorClass.NONE
        assert await ours.fetch(url) == b"a@b.com"
        assert [piece async for piece in ours.read(url)] == [b"a@b.com"]
    assert {one.headers["host"] for one in receiver.requests} == {f"{name}:{receiver.port}"}


def _drip(every_s: float, *, head: bytes, piece: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return answer


@pytest.mark.parametrize(
    ("head", "piece"),
    [(b"\r\n", b"a"), (b"", b"x-more: headers\r\n"), (b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n")],
    ids=["body", "head", "chunks"],
)
async def test_a_list_that_drips_is_read_for_minutes_and_not_for_ever(head: bytes, piece: bytes) -> None:
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    async with receiving(_drip(30.0, head=head, piece=piece)) as receiver:

        async def read() -> None:
            async for _ in sender().read(receiver.url):
                assert loop.time() - began < 3_600

        with pytest.raises(MailsiftError) as raised:
            await read()
    assert (raised.value.code, raised.value.retryable) == ("place_unavailable", True)
    assert loop.time() - began < 3_600


async def test_a_list_that_comes_slowly_is_read_to_its_end_however_slowly_it_is_taken() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            writer.write(b"a@example.com\n" * 500)
            await writer.drain()
            await asyncio.sleep(50)

    size = 0
    async with receiving(slow) as receiver:
        async for piece in sender().read(receiver.url):
            size += len(piece)
            if size < 10:
                await asyncio.sleep(3_600)
    assert size == 100 * 500 * 14


async def test_a_url_that_was_stored_is_checked_again() -> None:
    async with receiving() as receiver:
        strict = WebhookSender(guard=AddressGuard(), resolve=nobody, ssl_context=NOBODY_TRUSTED)
        outcome = await strict.post(receiver.url, {}, BODY)
    assert outcome.error is ErrorClass.BLOCKED
    assert receiver.connections == 0


class Faulty(httpcore.AsyncNetworkBackend):
    """A machine on which connections fail the way the test says, by address."""

    def __init__(self, faults: Mapping[str, OSError]) -> None:
        self._faults = faults

    @override
    async def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError from self._faults[host]


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"127.0.0.1": errno.EMFILE}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.ENOBUFS, "127.0.0.2": errno.ENFILE}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.ENETUNREACH}, ErrorClass.NOT_SENT),
        ({"::1": errno.ENETUNREACH}, ErrorClass.REFUSED),  # a machine without IPv6 is no fault
        ({"127.0.0.1": errno.ENETUNREACH, "::1": errno.EAFNOSUPPORT}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.ENETUNREACH, "::1": errno.ENETUNREACH}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.ENETDOWN, "::1": errno.ENETDOWN}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.EMFILE, "::1": errno.ENETUNREACH}, ErrorClass.NOT_SENT),
        ({"127.0.0.1": errno.ENETUNREACH, "::1": errno.ECONNREFUSED}, ErrorClass.REFUSED),
        ({"127.0.0.1": errno.EHOSTUNREACH}, ErrorClass.REFUSED),
        ({"127.0.0.1": errno.ECONNREFUSED, "::1": errno.ENETUNREACH}, ErrorClass.REFUSED),
        ({"127.0.0.1": errno.ECONNREFUSED, "127.0.0.2": errno.EMFILE}, ErrorClass.REFUSED),
        ({"127.0.0.1": errno.ENETDOWN, "127.0.0.2": errno.ECONNREFUSED}, ErrorClass.REFUSED),
    ],
)
async def test_a_fault_is_ours_when_no_address_says_it_is_theirs(
    faults: dict[str, int], error: ErrorClass
) -> None:
    async def resolve(_name: str) -> Sequence[str]:
        return list(faults)

    outside = WebhookSender(
        guard=AddressGuard(allow_non_public=True),
        resolve=resolve,
        config=SendConfig(allow_http=True),
        ssl_context=NOBODY_TRUSTED,
        network=Faulty({host: OSError(code, "x") for host, code in faults.items()}),
    )
    assert (await outside.post("http://hook.example.com/", {}, BODY)).error is error
