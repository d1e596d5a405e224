"""One TCP connection to a mail server: bytes out, whole replies in, everything bounded."""

from __future__ import annotations

import asyncio
import ssl
from enum import StrEnum
from typing import Final, cast

from python_socks import ProxyError
from python_socks.async_.asyncio import Proxy
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.fair_clock import FairTimeout
from mailsift.pipeline.smtp.config import Source
from mailsift.pipeline.smtp.wire import ReplyParser, WireReply

_MAX_UNREAD: Final = 1024
"""Unrequested replies that are kept; more is a flood."""

_LONGEST_HANDSHAKE: Final = 300.0
"""Seconds by the plain clock; the fair one ends a handshake long before that."""


class Ending(StrEnum):
    """Why a session ended."""

    DONE = "done"
    UNREACHED = "unreached"  # no connection
    REFUSED = "refused"  # a refusal before the first RCPT
    LIMIT = "limit"  # the server takes no more recipients in this session
    DROPPED = "dropped"  # the server hung up, said 421 or talked nonsense
    SLOW = "slow"  # a deadline passed
    UNTIED = "untied"  # which reply belongs to which command is not certain


class SessionError(MailsiftError):
    """The session cannot go on."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(f"session_{ending}", "the SMTP session ended early", retryable=True)
        self.ending = ending


class SmtpConnection(asyncio.Protocol):
    """The connection; open one with `dial`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: SessionError | None = None
        self._spoke_no_smtp = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except MailsiftError:
            self._spoke_no_smtp = True
        if self._spoke_no_smtp or len(self._parser.replies) > _MAX_UNREAD:
            self._fail(Ending.DROPPED)
            self.close()
        if self._parser.replies:
            self._wake()

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        self._fail(Ending.DROPPED)

    @property
    def is_quiet(self) -> bool:
        """Whether the server has sent nothing but the replies that were read."""
        return self._parser.is_idle and not self._spoke_no_smtp

    def send(self, data: bytes) -> None:
        """Queue bytes for the server; a lost connection shows at the next reply."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def reply(self, within: float) -> WireReply:
        """Return the next reply.

        Args:
            within: seconds for the whole reply, however its bytes trickle in.

        Raises:
            SessionError: DROPPED, or SLOW when the time is over.
        """
        replies = self._parser.replies
        if not replies:
            await self._wait_for_reply(within)
        return replies.popleft()

    async def start_tls(self, context: ssl.SSLContext, within: float) -> None:
        """Encrypt the connection (RFC 3207).

        Raises:
            SessionError: UNTIED when something was slipped in behind the server's last reply (section 6 of
                the RFC), DROPPED when the handshake fails.
        """
        if not self.is_quiet:
            raise SessionError(Ending.UNTIED)
        self._parser = ReplyParser()
        transport = self._transport
        if transport is None or self._error is not None:
            raise SessionError(Ending.DROPPED)
        try:
            async with FairTimeout(within):
                self._transport = await self._loop.start_tls(
                    transport,
                    self,
                    context,
                    ssl_handshake_timeout=_LONGEST_HANDSHAKE,
                    ssl_shutdown_timeout=within,
                )
        except OSError:  # ssl.SSLError and timeouts are among them
            raise SessionError(Ending.DROPPED) from None

    def close(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _wait_for_reply(self, within: float) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            async with FairTimeout(within):
                await self._waiter
        except TimeoutError:
            raise SessionError(Ending.SLOW) from None
        finally:
            self._waiter = None

    def _fail(self, ending: Ending) -> None:
        if self._error is None:
            self._error = SessionError(ending)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._parser.replies:
            waiter.set_result(None)
        elif self._error is not None:
            waiter.set_exception(self._error)


async def dial(address: str, port: int, source: Source, *, within: float) -> SmtpConnection:
    """Open a connection to an IP address that has already been checked.

    Args:
        address: the destination; never a name, so nobody resolves it a second time.
        port: TCP port.
        source: our own address or proxy.
        within: seconds for everything.

    Raises:
        SessionError: UNREACHED.
    """
    loop = asyncio.get_running_loop()
    try:
        async with FairTimeout(within):
            if source.proxy:
                sock = await Proxy.from_url(source.proxy).connect(dest_host=address, dest_port=port)
                _, connection = await loop.create_connection(SmtpConnection, sock=sock)
            else:
                local = (source.bind, 0) if source.bind else None
                _, connection = await loop.create_connection(SmtpConnection, address, port, local_addr=local)
    except (OSError, ProxyError):  # a passed deadline is an OSError too
        raise SessionError(Ending.UNREACHED) from None
    return connection
