"""One c-ares channel inside the event loop: its sockets are watched by the loop, not by a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pycares

from pipeline.dns.rules import DnsAnswer, Outcome, Question
from pipeline.errors import MailsiftError

Heard = Callable[[pycares.DNSResult | None, int | None], None]
"""Is called by c-ares with a result or an error code; runs inside C, so it must do little and never raise."""

_FLUSH_EVERY = 10_000
"""Questions after which c-ares drops its own cache, which has no bound (1.2 KiB an answer)."""

_RECEIVE_BUFFER = 1 << 20
"""Bytes; the usual 208 KiB drops answers when hundreds come at once."""

_RECORD_TYPES = {
    Question.MX: pycares.QUERY_TYPE_MX,
    Question.A: pycares.QUERY_TYPE_A,
    Question.AAAA: pycares.QUERY_TYPE_AAAA,
}

_ERRORS = {
    pycares.errno.ARES_ENODATA: DnsAnswer(Outcome.NO_DATA, detail="NODATA"),
    pycares.errno.ARES_ENOTFOUND: DnsAnswer(Outcome.NO_NAME, detail="NXDOMAIN"),
    pycares.errno.ARES_ESERVFAIL: DnsAnswer(Outcome.FAILED, detail="SERVFAIL"),
    pycares.errno.ARES_EREFUSED: DnsAnswer(Outcome.FAILED, detail="REFUSED"),
    pycares.errno.ARES_ETIMEOUT: DnsAnswer(Outcome.FAILED, detail="timeout"),
    pycares.errno.ARES_ECONNREFUSED: DnsAnswer(Outcome.FAILED, detail="no resolver answers"),
    pycares.errno.ARES_EBADRESP: DnsAnswer(Outcome.FAILED, detail="malformed answer"),
    pycares.errno.ARES_ECANCELLED: DnsAnswer(Outcome.FAILED, detail="resolver closed"),
}
_OTHER_ERROR = DnsAnswer(Outcome.FAILED, detail="resolver error")
_CNAME_LOOP = DnsAnswer(Outcome.FAILED, detail="CNAME loop")


class DnsWire:
    """Sends questions through one c-ares channel.

    Its own event thread would fight ours for the interpreter lock and halve the speed, so the loop watches
    its sockets. Names are taken as they are: search domains and the hosts file never apply.

    Args:
        servers: "host:port" or "[v6]:port"; () = those of the system.
        timeout: seconds before a question is repeated for the first time.
        tries: how often a question is sent to each server.
        after: called when the channel has worked, to take up what it has heard.

    Raises:
        MailsiftError: dns_servers_invalid.
    """

    def __init__(
        self, *, servers: Sequence[str], timeout: float, tries: int, after: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._after = after
        self._sent = 0
        self._closed = False
        self._sockets: set[int] = set()
        try:
            self._channel = pycares.Channel(
                sock_state_cb=self._watch,
                servers=servers,
                timeout=timeout,
                tries=tries,
                socket_receive_buffer_size=_RECEIVE_BUFFER,
            )
        except (pycares.AresError, UnicodeEncodeError) as error:
            raise MailsiftError("dns_servers_invalid", "DNS servers must be given as host:port.") from error

    def send(self, name: str, question: Question, heard: Heard) -> None:
        """Ask for an absolute ASCII name; `heard` may be called before this returns."""
        self._sent += 1
        if self._sent % _FLUSH_EVERY == 0:
            self._channel.reinit()
        try:
            self._channel.query(name, _RECORD_TYPES[question], callback=heard)
        except pycares.AresError as error:
            heard(None, error.args[0])

    def pass_time(self) -> None:
        """Let c-ares repeat or give up what is late."""
        self._channel.process_fd(pycares.ARES_SOCKET_BAD, pycares.ARES_SOCKET_BAD)

    def close(self) -> None:
        """Cancel what is open, which is heard at once, and release the sockets; twice is as good as once."""
        if self._closed:
            return
        self._closed = True
        self._channel.cancel()
        for fd in tuple(self._sockets):
            self._unwatch(fd)
        self._channel.close()

    def _read(self, fd: int) -> None:
        self._channel.process_read_fd(fd)
        self._after()

    def _write(self, fd: int) -> None:
        self._channel.process_write_fd(fd)
        self._after()

    def _watch(self, fd: int, readable: bool, writable: bool) -> None:
        """Follow c-ares' wishes about a socket; it may call from the thread that re-reads resolv.conf."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._watch, fd, readable, writable)
            return
        if not (readable or writable):
            self._unwatch(fd)
            return
        self._sockets.add(fd)
        if readable:
            self._loop.add_reader(fd, self._read, fd)
        else:
            self._loop.remove_reader(fd)
        if writable:
            self._loop.add_writer(fd, self._write, fd)
        else:
            self._loop.remove_writer(fd)

    def _unwatch(self, fd: int) -> None:
        self._sockets.discard(fd)
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)


def read_answer(question: Question, result: pycares.DNSResult | None, error: int | None) -> DnsAnswer:
    """Turn what c-ares hands over into an answer.

    A CNAME chain is followed by the resolver; its records stand in the same answer and bound its TTL.
    """
    if error is not None or result is None:
        return _ERRORS.get(error, _OTHER_ERROR)
    ttl = min([record.ttl for record in result.answer], default=0)
    data = [record.data for record in result.answer]
    if question is Question.MX:
        # c-ares escapes what is not printable; `str` is for the bytes pycares makes of the rest
        mx = tuple([(d.priority, str(d.exchange)) for d in data if isinstance(d, pycares.MXRecordData)])
        found = DnsAnswer(Outcome.FOUND, exchangers=mx, ttl=ttl)
    else:
        kind = pycares.ARecordData if question is Question.A else pycares.AAAARecordData
        addresses = tuple([d.addr for d in data if isinstance(d, kind)])
        found = DnsAnswer(Outcome.FOUND, addresses=addresses, ttl=ttl)
    if found.exchangers or found.addresses:
        return found
    return _CNAME_LOOP if _loops(result.answer) else _ERRORS[pycares.errno.ARES_ENODATA]


def _loops(records: Sequence[pycares.DNSRecord]) -> bool:
    """Tell whether the chain of CNAMEs in an answer comes back to a name it has passed."""
    aliases = {r.name: r.data.cname for r in records if isinstance(r.data, pycares.CNAMERecordData)}
    passed: set[str] = set()
    name = next(iter(aliases), "")
    while name in aliases and name not in passed:
        passed.add(name)
        name = aliases[name]
    return name in passed
