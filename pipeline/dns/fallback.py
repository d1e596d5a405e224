"""Questions whose answer did not fit a datagram, was odd or late: asked by aiodns, over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import aiodns
import pycares

from mailsift.pipeline.dns.message import NO_DATA, NO_NAME, ResourceRecord, answer_from
from mailsift.pipeline.dns.nameserver import in_words_of_cares
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType

_QUESTIONS: Final = 2_000
_SECONDS: Final = 30.0
"""How long one aiodns resolver is used: it remembers answers, and what it remembers is no second opinion."""

_FLAGS: Final = pycares.ARES_FLAG_USEVC | pycares.ARES_FLAG_STAYOPEN | pycares.ARES_FLAG_NOSEARCH

_ERRORS: Final = {
    aiodns.error.ARES_ENODATA: NO_DATA,
    aiodns.error.ARES_ENOTFOUND: NO_NAME,
    aiodns.error.ARES_ESERVFAIL: DnsAnswer(DnsOutcome.FAILED, detail="SERVFAIL"),
    aiodns.error.ARES_EREFUSED: DnsAnswer(DnsOutcome.FAILED, detail="REFUSED"),
    aiodns.error.ARES_ETIMEOUT: DnsAnswer(DnsOutcome.FAILED, detail="timeout"),
    aiodns.error.ARES_ECONNREFUSED: DnsAnswer(DnsOutcome.FAILED, detail="no resolver answers"),
    aiodns.error.ARES_EBADRESP: DnsAnswer(DnsOutcome.FAILED, detail="malformed answer"),
}
NO_ANSWER_DETAILS: Final = frozenset({"timeout", "no resolver answers", "malformed answer", "resolver error"})
"""Details of failures that are no answer of the resolver's."""

_OTHER_ERROR: Final = DnsAnswer(DnsOutcome.FAILED, detail="resolver error")


class AiodnsFallback:
    """Asks one resolver over TCP, on a connection that many questions share.

    Args:
        server: "host:port" or "[v6]:port".
        timeout: seconds until a question is given up.
    """

    def __init__(self, server: str, *, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = in_words_of_cares(server)
        self._timeout = timeout
        self._resolver: aiodns.DNSResolver | None = None
        self._asked = 0
        self._born = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    def ask(self, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]) -> None:
        """Ask for the records of an absolute name; `done` gets the answer later, exactly once."""
        future = self._current().query_dns(name, record_type.value)
        future.add_done_callback(lambda answered: done(_read(name, record_type, answered)))

    def forget(self) -> None:
        """Drop what is remembered, and with it the connection once its open questions have had their time."""
        old, self._resolver = self._resolver, None
        if old is not None:
            closing = self._loop.create_task(self._close_later(old))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Release sockets and timers; open questions fail."""
        self.forget()
        self._closed.set()
        await asyncio.gather(*self._closing)

    async def _close_later(self, resolver: aiodns.DNSResolver) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._timeout):
                await self._closed.wait()
        await resolver.close()

    def _current(self) -> aiodns.DNSResolver:
        now = self._loop.time()
        if self._asked >= _QUESTIONS or now - self._born >= _SECONDS:
            self.forget()
        if self._resolver is None:
            self._asked, self._born = 0, now
            self._resolver = aiodns.DNSResolver(
                nameservers=[self._server], loop=self._loop, timeout=self._timeout, tries=1, flags=_FLAGS
            )
        self._asked += 1
        return self._resolver


def _read(name: str, record_type: RecordType, answered: asyncio.Future[pycares.DNSResult]) -> DnsAnswer:
    if answered.cancelled():
        return DnsAnswer(DnsOutcome.FAILED, detail="resolver closed")
    error = answered.exception()
    if error is not None:
        return _ERRORS.get(error.args[0], _OTHER_ERROR) if error.args else _OTHER_ERROR
    result = answered.result()
    records = [record for one in result.answer if (record := _record(one)) is not None]
    return answer_from(name.lower(), record_type, records, exists=True, zone=_zone(result))


def _record(one: pycares.DNSRecord) -> ResourceRecord | None:
    """Take what is asked for from what c-ares has read; it escapes what is not printable."""
    data, owner = one.data, one.name.rstrip(".").lower()
    if isinstance(data, pycares.MXRecordData):
        return ResourceRecord(
            owner, one.type, one.ttl, (data.priority, str(data.exchange).rstrip(".").lower())
        )
    if isinstance(data, pycares.ARecordData | pycares.AAAARecordData):
        return ResourceRecord(owner, one.type, one.ttl, data.addr)
    if isinstance(data, pycares.CNAMERecordData):
        return ResourceRecord(owner, one.type, one.ttl, str(data.cname).rstrip(".").lower())
    if isinstance(data, pycares.NSRecordData):
        return ResourceRecord(owner, one.type, one.ttl, str(data.nsdname).rstrip(".").lower())
    return None


def _zone(result: pycares.DNSResult) -> str | None:
    owners = (one.name for one in result.authority if isinstance(one.data, pycares.SOARecordData))
    return next((owner.rstrip(".").lower() for owner in owners), None)
