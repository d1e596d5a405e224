"""The DNS server over real sockets, judged by dnspython and aiodns."""

from __future__ import annotations

import asyncio
import socket
import time

import aiodns
import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from mailsift.sandbox.server import Sandbox


async def _udp(sandbox: Sandbox, name: str, rtype: str = "MX", *, patience: float = 3) -> dns.message.Message:
    query = dns.message.make_query(name, rtype)
    return await dns.asyncquery.udp(query, "127.0.0.1", patience, sandbox.dns_port)


async def test_every_domain_of_the_world_is_answered_as_its_exchangers_say(sandbox: Sandbox) -> None:
    for domain in sandbox.world.ranked:
        if domain.behaviour.name in {"ordinary", "catch-all", "exim"}:
            answer = await _udp(sandbox, domain.name)
            found = sorted(
                (item.preference, item.exchange.to_text(omit_final_dot=True)) for item in answer.answer[0]
            )
            assert found == sorted(domain.exchangers)


async def test_a_truncated_answer_is_whole_over_tcp(sandbox: Sandbox) -> None:
    query = dns.message.make_query("many-mx.sandbox.test", "MX")
    answer, tcp = await dns.asyncquery.udp_with_fallback(query, "127.0.0.1", 3, sandbox.dns_port)
    assert tcp
    assert len(answer.answer[0]) == 1000
    assert sandbox.counters.snapshot()["dns_tcp"] == 1


async def test_several_questions_may_come_over_one_tcp_connection_in_pieces(sandbox: Sandbox) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.dns_port)
    queries = [dns.message.make_query(name, "MX") for name in ("gmail.com", "outlook.com")]
    data = b"".join(len(query.to_wire()).to_bytes(2, "big") + query.to_wire() for query in queries)
    for octet in data:
        writer.write(bytes([octet]))
        await writer.drain()
    for query in queries:
        size = int.from_bytes(await reader.readexactly(2), "big")
        assert query.is_response(dns.message.from_wire(await reader.readexactly(size)))
    writer.close()


async def test_a_slow_answer_takes_its_time_and_does_not_hold_the_others_up(sandbox: Sandbox) -> None:
    began = time.monotonic()
    slow = asyncio.create_task(_udp(sandbox, "dns-slow.sandbox.test"))
    await _udp(sandbox, "gmail.com")
    assert not slow.done()
    assert (await slow).answer
    assert time.monotonic() - began >= 0.29


async def test_a_silent_server_never_answers_and_a_flaky_one_the_second_time(sandbox: Sandbox) -> None:
    for name in ("dns-silent.sandbox.test", "dns-flaky.sandbox.test"):
        with pytest.raises(dns.exception.Timeout):
            await _udp(sandbox, name, patience=0.2)
    assert (await _udp(sandbox, "dns-flaky.sandbox.test")).answer


async def test_aiodns_finds_the_same_states(sandbox: Sandbox) -> None:
    resolver = aiodns.DNSResolver(nameservers=[f"127.0.0.1:{sandbox.dns_port}"], timeout=1, tries=2)
    try:
        found = await resolver.query_dns("cname.sandbox.test", "MX")
        assert "mx.cname-host.test" in str(found)
        with pytest.raises(aiodns.error.DNSError) as raised:
            await resolver.query_dns("nxdomain.sandbox.test", "MX")
        assert raised.value.args[0] == aiodns.error.ARES_ENOTFOUND
        with pytest.raises(aiodns.error.DNSError) as raised:
            await resolver.query_dns("no-mail.sandbox.test", "MX")
        assert raised.value.args[0] == aiodns.error.ARES_ENODATA
    finally:
        await resolver.close()


async def test_queries_are_counted_by_type(sandbox: Sandbox) -> None:
    for rtype in ("MX", "MX", "A", "AAAA", "HTTPS"):
        await _udp(sandbox, "gmail.com", rtype)
    counts = sandbox.counters.snapshot()
    assert counts["dns"] == {"MX": 2, "A": 1, "AAAA": 1, "HTTPS": 1}
    assert counts["dns_queries"] == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 11,
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05abc",
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x00\x0f\x00\x01",
        b"\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x01",
        b"\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x01",
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\xff",
        b"\x12\x34\x21\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x01",
    ],
)
async def test_rubbish_does_not_stop_the_server(sandbox: Sandbox, data: bytes) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(data, ("127.0.0.1", sandbox.dns_port))
    assert (await _udp(sandbox, "gmail.com")).rcode() == dns.rcode.NOERROR
