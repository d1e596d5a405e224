"""HTTP as bytes on a socket: half of a request, too much of one, and what is none at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailsift.runtime.api_server import RequestLimits
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running

LIMITS = RequestLimits(seconds=0.3, answer_seconds=1.0, idle_seconds=1)
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/email/single-validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture
async def hurried(settings: Settings) -> AsyncIterator[Api]:
    """An API that waits for a third of a second."""
    async with running(settings, LIMITS) as found:
        yield found


async def exchange(api: Api, *pieces: bytes, between: float = 0.0, sent: bool = False) -> bytes:
    """Send these pieces and return all that comes back until the API closes the connection.

    Where all is `sent` nothing more comes, and the answer is complete.
    """
    host, _, port = urlsplit(api.url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(between)
        if sent:
            return await asyncio.wait_for(reader.readuntil(b"}"), 20)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def problem_of(answer: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    found = json.loads(body)
    assert found["success"] is False
    assert found["request_id"].encode() in head
    assert int(head.split(b" ")[1]) == found["status"]
    return found["status"], found


HALVES = (
    GET,
    b"GET /heal",
    POST + b"Content-Length: 40\r\n\r\n",
    POST + b'Content-Length: 40\r\n\r\n{"email":',
    POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
)


async def test_a_body_in_a_transfer_coding_that_nobody_undoes_is_not_taken(hurried: Api) -> None:
    chunks = b"2\r\n{}\r\n0\r\n\r\n"
    codings = (b"gzip, chunked", b"deflate,chunked", b"GZIP , Chunked", b"chunked", b" Chunked ")
    requests = (POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + chunks for coding in codings)
    *coded, plain, spaced = await asyncio.gather(*(exchange(hurried, request) for request in requests))
    for coding, answer in zip(codings, coded, strict=False):
        status, code = problem_of(answer)
        assert (status, code["code"]) == (501, "transfer_coding_unknown"), coding
    for answer in (plain, spaced):
        assert problem_of(answer)[0] == 401


async def test_half_a_request_ends_in_time(hurried: Api) -> None:
    own = f"Host: x\r\nAuthorization: Bearer {await hurried.key('alice')}".encode()
    for answer in await asyncio.gather(
        *(exchange(hurried, half.replace(b"Host: x", own)) for half in HALVES)
    ):
        status, found = problem_of(answer)
        assert (status, found["code"]) == (408, "request_timeout")


async def test_who_says_nothing_is_left_without_a_word(hurried: Api) -> None:
    assert await exchange(hurried) == b""
    assert await exchange(hurried, b"\r\n") == b""


async def test_who_drips_does_not_gain_time(hurried: Api) -> None:
    answer = await exchange(hurried, *(GET[n : n + 1] for n in range(12)), between=0.1)
    assert answer == b"" or problem_of(answer)[0] == 408
    body = [POST + b"Content-Length: 400\r\n\r\n", *(b" " for _ in range(12))]
    answer = await exchange(hurried, *body, between=0.1)
    assert answer == b"" or problem_of(answer)[0] == 408


async def test_who_takes_nothing_of_an_answer_is_left_after_a_while_and_who_takes_some_is_not(
    hurried: Api,
) -> None:
    host, _, port = urlsplit(hurried.url).netloc.partition(":")
    async with hurried.client(await hurried.key("alice")) as client:
        await client.get("/openapi.json")  # the first one takes a while by itself
    request, asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n", 150  # more than kernels keep
    for pause, whole in ((2.5, False), (0.0, True)):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write((request + b"\r\n") * (asked - 1) + request + b"Connection: close\r\n\r\n")
        await asyncio.sleep(pause)
        got = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := await asyncio.wait_for(reader.read(1 << 20), 20):
                got += piece
        assert (got.count(b"HTTP/1.1 200 OK") == asked) == whole
        writer.close()


async def test_who_was_answered_may_ask_again_for_as_long_as_it_says(hurried: Api) -> None:
    asks = GET + b"\r\n"
    answer = await exchange(hurried, asks, asks, between=0.6)  # longer than a head may take
    assert answer.count(b"HTTP/1.1 200 OK") == 2


async def test_a_slow_list_that_goes_on_is_taken(hurried: Api) -> None:
    key = await hurried.key("alice")
    pieces = [b"a%d@example.com\n" % n * 100 for n in range(8)]
    head = (
        "POST /v1/bulk/jobs?mode=fast HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nConnection: close\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {sum(map(len, pieces))}\r\n\r\n"
    )
    answer = await exchange(hurried, head.encode(), *pieces, between=0.1)
    assert answer.startswith(b"HTTP/1.1 202 ")


async def test_an_answer_may_take_longer_than_a_request(hurried: Api) -> None:
    key = await hurried.key("alice")
    async with hurried.client(key) as client:
        job = (await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"][
            "job_id"
        ]
        answer = await client.get(f"/v1/bulk/jobs/{job}", params={"wait": 1})
        assert answer.status_code == 200


@pytest.mark.parametrize("pieces", [1, 7])
async def test_headers_are_bounded(api: Api, pieces: int) -> None:
    for large in (b"X-A: " + b"a" * 17_000, b"X-A: b\r\n" * 2_200, b"Cookie: " + b"a" * 100_000):
        whole = GET + large + b"\r\n\r\n"
        step = len(whole) // pieces + 1
        answer = await exchange(api, *(whole[at : at + step] for at in range(0, len(whole), step)))
        assert answer == b"" or problem_of(answer)[0] == 431, large[:9]  # a reset may overtake the answer
        if pieces == 1:
            assert answer, large[:9]


async def test_a_long_url_is_bounded(api: Api) -> None:
    answer = await exchange(api, b"GET /healthz?a=" + b"b" * 17_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert problem_of(answer)[1]["code"] == "header_fields_too_large"


async def test_what_is_large_and_allowed_passes(api: Api) -> None:
    answer = await exchange(api, GET + b"Connection: close\r\nX-A: " + b"a" * 15_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: y\r\n"])
async def test_a_request_names_its_host_once(api: Api, hosts: bytes) -> None:
    answer = await exchange(api, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + hosts + b"\r\n")
    assert problem_of(answer)[1]["code"] == "bad_request"


async def test_http_1_0_needs_no_host(api: Api) -> None:
    assert (await exchange(api, b"GET /healthz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


NO_HTTP = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"HELO there\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n bad header\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    POST + b"Content-Length: -1\r\n\r\n",
)


async def test_what_is_no_http_is_told_in_json(api: Api) -> None:
    for garbage in NO_HTTP:
        status, found = problem_of(await exchange(api, garbage))
        assert (status, found["code"]) == (400, "bad_request"), garbage


@pytest.mark.parametrize(
    "behind", [b"NONSENSE\r\n\r\n", GET + b"X: " + b"x" * 20_000, b"\x16\x03\x01\x02\x00"]
)
async def test_nonsense_behind_requests_takes_none_of_their_answers(api: Api, behind: bytes) -> None:
    answers = await exchange(api, GET + b"\r\n" + GET + b"\r\n" + behind)
    assert answers.count(b"HTTP/1.1 200") == 2


async def test_a_broken_body_behind_requests_takes_none_of_their_answers(api: Api) -> None:
    broken = b"POST /v1/bulk/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n"
    answers = await exchange(api, GET + b"\r\n" + GET + b"\r\n" + broken)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200", b"400"]


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("key", ["", "alice"])
async def test_who_sends_a_list_and_hears_no_before_its_end_hears_it(
    api: Api, version: bytes, key: str
) -> None:
    """As Python's urllib does, which ends every connection: what was unread then reset it, answer and all."""
    own = f"Authorization: Bearer {await api.key(key)}\r\n".encode() if key else b""
    head = (
        b"POST /v1/bulk/jobs HTTP/%s\r\nHost: x\r\nConnection: close\r\nContent-Type: text/csv\r\n" % version
    )
    size = 300_000_000 if key else 40_000_000
    pieces = [b"ann@example.com\n" * 65_536] * 40  # of a list that is too large, or of nobody
    answer = await exchange(api, head + own + b"Content-Length: %d\r\n\r\n" % size, *pieces, sent=True)
    assert problem_of(answer)[0] == (413 if key else 401)


async def test_nobody_waits_for_a_list_that_was_not_asked_for(settings: Settings) -> None:
    """Who is told no before a 100 sends nothing more: the connection is over."""
    asks = b"Content-Length: 9\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    async with running(settings, RequestLimits(seconds=60)) as api:
        assert problem_of(await exchange(api, POST + asks))[0] == 401


async def test_who_is_asked_for_a_list_and_told_no_before_its_end_hears_it(api: Api) -> None:
    own = f"Authorization: Bearer {await api.key('alice')}\r\nConnection: close\r\n".encode()
    asks = b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [b"100000\r\n" + b"a" * 0x100000 + b"\r\n"] * 40
    asked, refused = (await exchange(api, POST + own + asks, *pieces, sent=True)).split(b"\r\n\r\n", 1)
    assert asked == b"HTTP/1.1 100 Continue"
    assert problem_of(refused)[0] == 413


async def test_http_1_0_knows_of_no_100(api: Api) -> None:
    own = f"Authorization: Bearer {await api.key('alice')}\r\n".encode()
    head = POST.replace(b"1.1", b"1.0") + own + b"Content-Length: 44\r\nExpect: 100-continue\r\n\r\n"
    answer = await exchange(api, head + b'{"email": "ann@example.com", "mode": "fast"}')
    assert answer.startswith(b"HTTP/1.1 200 ")


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
OFFERS = (H2C, b"Upgrade: TLS/1.2, websocket\r\nConnection: keep-alive, upgrade\r\n")


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("at_once", [True, False])
async def test_who_offers_another_protocol_is_answered_in_this_one(
    api: Api, offer: bytes, at_once: bool
) -> None:
    """Java's client offers HTTP/2 with everything it sends in the clear, lists too."""
    body = b'{"email": "ann@example.com", "mode": "fast"}'
    own = b"Host: x\r\n" + offer + f"Authorization: Bearer {await api.key('alice')}\r\n".encode()
    head = POST.replace(b"Host: x\r\n", own)
    pieces = [
        head + b"Content-Length: %d\r\n\r\n" % len(body),
        body,
        head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body),
        body + b"\r\n0\r\n\r\n",
        GET + offer + b"\r\n",
        GET + b"Connection: close\r\n\r\n",
    ]
    answer = await exchange(api, *([b"".join(pieces)] if at_once else pieces), between=0.05)
    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"HTTP/1.1") == 4
    assert answer.count(b'"result":"passed"') == 2


async def test_the_rest_of_connection_counts_beside_an_offer(api: Api) -> None:
    offer = b"Upgrade: h2c\r\nConnection: upgrade, close\r\n\r\n"
    answer = await exchange(api, GET + offer + GET + b"\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"HTTP/1.1") == 1


async def test_a_tunnel_is_refused(api: Api) -> None:
    for target in (b"example.com:443", b"/healthz"):
        connect = b"CONNECT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % target
        for offer in (b"", H2C):
            assert problem_of(await exchange(api, connect + offer + b"\r\n"))[0] in {400, 405}


DATA_SEGMENTS_IN = 152
"""Where Linux' `struct tcp_info` has them, four bytes."""


async def test_a_small_answer_comes_as_one_packet_and_a_head_alone_is_not_kept(api: Api) -> None:
    host, _, port = urlsplit(api.url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for count in range(1, 6):
        writer.write(GET + b"\r\n")
        await asyncio.wait_for(reader.readuntil(b"true}"), 20)
        info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        assert int.from_bytes(info[DATA_SEGMENTS_IN : DATA_SEGMENTS_IN + 4], sys.byteorder) == count
    for last in (b"", b"Connection: close\r\n"):
        writer.write(GET.replace(b"GET", b"HEAD") + last + b"\r\n")
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()
