"""One HTTP request to a stranger's server: the address is checked where the socket is opened."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import httpcore
import httpx
from typing_extensions import override

from mailsift.events.retry import AttemptOutcome, ErrorClass, error_class, printable_text, read_directive
from mailsift.events.webhook_url import WebhookUrl, is_this_machine, not_public, parse_webhook_url
from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.rules import DnsOutcome, RecordType
from mailsift.pipeline.errors import MailsiftError, causes_of
from mailsift.pipeline.guard import AddressGuard, read_address

ResolveHost = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, () when it has none; raises `resolver_failed` when nobody knows."""


class ReceiverResolver:
    """Looks up the addresses behind a receiver's name; created inside a running loop.

    No search domain and no hosts file of this machine has a say, and the client's deadline bounds every
    question.

    Args:
        servers: "host:port", tried in order; () = those of the system.
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._client = DnsClient(servers=servers, timeout=1.0, tries=4, concurrency=50)

    async def resolve(self, name: str) -> Sequence[str]:
        """Return the addresses of a name, IPv4 first; () when it has none.

        Raises:
            MailsiftError: `resolver_failed`: no address was heard of, but for a failure of the resolver there
                might be one.
        """
        kinds = (RecordType.A, RecordType.AAAA)
        answers = await asyncio.gather(*(self._client.answer(name, kind) for kind in kinds))
        found = [address for answer in answers for address in answer.addresses]
        if not found and any(answer.outcome is DnsOutcome.FAILED for answer in answers):
            self._client.refresh()  # the machine may be told to ask others by now
            raise MailsiftError("resolver_failed", "The DNS resolver isn’t responding.", retryable=True)
        return found

    async def aclose(self) -> None:
        """Release the sockets."""
        await self._client.aclose()


_ADDRESSES: Final = 3
"""How many addresses of a name are tried; one to which there is no way takes no time and does not count."""

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What this machine has too few of: descriptors, memory, ports."""
_OFFLINE: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EAFNOSUPPORT})
"""No way out at all, if it is IPv4: many a machine has no IPv6, which says nothing beside an IPv4 address."""
RESPONSE_BYTES: Final = 16 * 1024
"""What is read of a response before the connection is closed."""
_ANSWER_BYTES: Final = 256 * 1024
"""What a connection may bring before it is closed, whatever is made of it: interim answers have no end."""
_USER_AGENT: Final = "Mailsift-Webhooks/1.0"
_READ_SECONDS: Final = 60.0
"""How long a server may be silent while a list is read."""
_SLOW_SECONDS, _SLOW_BYTES = 600.0, 60 * 1024
"""So much of a list comes while it is waited for so long; in that time the head of the answer is there."""


@dataclass(frozen=True, slots=True)
class SendConfig:
    """How requests are made.

    Attributes:
        allow_http: for tests: also plain HTTP, and any port.
        timeout_s: the whole request, name lookup to last byte, by the wall clock.
    """

    allow_http: bool = False
    timeout_s: float = 15.0


class _SendError(Exception):
    def __init__(self, error: ErrorClass) -> None:
        super().__init__(error.value)
        self.error = error


class _Bounded(httpcore.AsyncNetworkStream):
    """A connection that brings so many bytes at most, and sends a request whole once the answer is read.

    Who answers before the request is read, and closes, resets it. A write that meets the reset takes the
    answer with it; it lies there to be read as long as nothing is written after the first piece.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream, most: int) -> None:
        self._stream = stream
        self._left = most
        self._unsent = b""

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        unsent, self._unsent = self._unsent, b""
        if unsent:
            with suppress(httpcore.WriteError):  # there may be an answer all the same
                await self._stream.write(unsent, timeout)
        found = await self._stream.read(max_bytes, timeout)
        self._left -= len(found)
        if self._left < 0:
            raise httpcore.RemoteProtocolError("too long")
        return found

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()

    @override
    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Bounded(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._left)

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets only to addresses the guard allows.

    The name is resolved here and the checked address is dialled, so an answer that changes meanwhile changes
    nothing; host header and certificate check still see the name.

    Attributes:
        guard: says which addresses may be dialled.
        resolve: finds the addresses of a name.
        network: opens the sockets.
        most: bytes that a connection brings; None = without end.
    """

    guard: AddressGuard
    resolve: ResolveHost
    network: httpcore.AsyncNetworkBackend
    most: int | None

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Dial one address after the other; together they have the time for one."""
        theirs, ours, no_ipv6, left = None, None, None, _ADDRESSES
        addresses = await self._addresses(host)
        each = timeout and timeout / min(max(len(addresses), 1), _ADDRESSES)
        for address in addresses:
            try:
                found = await self.network.connect_tcp(address, port, each, local_address, socket_options)
                return found if self.most is None else _Bounded(found, self.most)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                if _is_ours(error, address):
                    ours = _SendError(ErrorClass.NOT_SENT)
                elif _has_cause(error, _OFFLINE):
                    no_ipv6 = error
                else:
                    theirs = error
                left -= not _has_cause(error, _OFFLINE)
                if not left:
                    break
        raise theirs or ours or no_ipv6 or _SendError(ErrorClass.DNS)

    async def _addresses(self, host: str) -> list[str]:
        """Return the addresses to dial; one that may not be dialled spoils them all."""
        address = read_address(host)
        found = [str(address)] if address else await self._look_up(host)
        if not all(map(self._may_dial, found)):
            raise _SendError(ErrorClass.BLOCKED)
        return found

    async def _look_up(self, name: str) -> list[str]:
        try:
            return list(await self.resolve(name))
        except MailsiftError:
            raise _SendError(ErrorClass.NOT_SENT) from None

    def _may_dial(self, address: str) -> bool:
        return self.guard.allows(address) and not is_this_machine(address)


class _GuardedTransport(httpx.AsyncHTTPTransport):
    """The transport of httpx over sockets that a guarded backend opens, with no proxy and no HTTP/2.

    A receiver's `location` and `set-cookie` are dropped: the client would read both, and we act on neither.
    """

    def __init__(self, backend: _GuardedBackend, ssl_context: ssl.SSLContext) -> None:
        # Not the constructor above, which does nothing but make a pool without the guard.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context, network_backend=backend, max_keepalive_connections=0
        )

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        for name in ("location", "set-cookie"):
            response.headers.pop(name, None)
        return response


class WebhookSender:
    """Posts to webhooks: one connection each, no redirects, no cookies, no proxy of the environment.

    Args:
        guard: says which addresses may be dialled.
        resolve: finds the addresses of a name.
        network: opens the sockets; by default those of this machine.
        ssl_context: whom to trust; by default whom the system trusts.
        own_names: names of this installation, in the spelling of a WebhookUrl; they are refused.
    """

    def __init__(
        self,
        *,
        guard: AddressGuard,
        resolve: ResolveHost,
        config: SendConfig | None = None,
        ssl_context: ssl.SSLContext | None = None,
        own_names: frozenset[str] = frozenset(),
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._guard = guard
        self._own_names = own_names
        self._config = config or SendConfig()
        open_backend = partial(
            _GuardedBackend, guard=guard, resolve=resolve, network=network or httpcore.AnyIOBackend()
        )
        self._answers, self._lists = open_backend(most=_ANSWER_BYTES), open_backend(most=None)
        self._ssl_context = ssl_context

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        """Whom to trust. To load whom the system trusts takes 20 ms, and most who may send never do."""
        return self._ssl_context or ssl.create_default_context()

    def check(self, url: str) -> str:
        """Return the one spelling of a URL that may be a webhook.

        Raises:
            MailsiftError: `webhook_url_invalid`, `webhook_url_blocked`.
        """
        return self._checked_url(url).url

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> AttemptOutcome:
        """Send the bytes once; never raises for what the receiver or the network does."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            fixed = {"content-type": "application/json", "user-agent": _USER_AGENT}
            request = _request("POST", self._checked_url(url), fixed | dict(headers), body)
            outcome = _outcome_of(*await self._exchange(request))
        except MailsiftError:
            outcome = AttemptOutcome(ErrorClass.BLOCKED)
        except _SendError as error:
            outcome = AttemptOutcome(error.error)
        except httpx.InvalidURL:  # "1.2b3c4", which the library takes for a wrong IPv4 address: no such name
            outcome = AttemptOutcome(ErrorClass.DNS)
        except (TimeoutError, httpx.TimeoutException):
            outcome = AttemptOutcome(ErrorClass.TIMEOUT)
        except (httpx.TransportError, ssl.SSLError) as error:
            outcome = AttemptOutcome(_class_of(error))
        except OSError:  # not of the network, which the library translates: no socket to be had
            outcome = AttemptOutcome(ErrorClass.NOT_SENT)
        return replace(outcome, ms=round((loop.time() - started) * 1000))

    async def fetch(self, url: str) -> bytes:
        """Return what stands at a URL, at most RESPONSE_BYTES of it.

        Raises:
            MailsiftError: `fetch_failed`, and what `check` raises.
        """
        target = self._checked_url(url)
        try:
            request = _request("GET", target, {"accept": "*/*", "user-agent": _USER_AGENT})
            answer, body = await self._exchange(request)
        except (_SendError, httpx.HTTPError, TimeoutError, OSError) as error:
            raise MailsiftError(
                "fetch_failed", "The other server isn’t responding.", retryable=True
            ) from error
        if not answer.is_success:
            raise MailsiftError("fetch_failed", "The other server refused to provide it.", retryable=True)
        return body

    async def read(self, url: str) -> AsyncIterator[bytes]:
        """Yield what a server answers to GET, as it comes.

        Silence ends it after a minute, and what drips after ten: somebody else waits for the place it takes.

        Raises:
            MailsiftError: `webhook_url_invalid`, `webhook_url_blocked`, `place_not_found`, `place_refused`,
                `place_unavailable` (retryable).
        """
        target = self._checked_url(url)
        try:
            request = _request("GET", target, {"accept": "*/*", "user-agent": "Mailsift/1.0"})
            async with self._client(self._lists, _READ_SECONDS) as client:
                async with asyncio.timeout(_SLOW_SECONDS):
                    found = await client.send(request, stream=True)
                async with aclosing(found):
                    _refuse(found.status_code)
                    async for piece in _brisk(found.aiter_raw()):
                        yield piece
        except _SendError as error:
            blocked = error.error is ErrorClass.BLOCKED
            raise not_public() if blocked else _unavailable(error.error.value) from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise _unavailable(type(error).__name__) from None

    def _client(self, backend: _GuardedBackend, silence_s: float) -> httpx.AsyncClient:
        """Return a client that waits so long for every step; its own time would be five seconds."""
        return httpx.AsyncClient(
            transport=_GuardedTransport(backend, self._ssl), trust_env=False, timeout=silence_s
        )

    def _checked_url(self, url: str) -> WebhookUrl:
        target = parse_webhook_url(url, guard=self._guard, allow_http=self._config.allow_http)
        if target.host in self._own_names or is_this_machine(target.host):
            raise MailsiftError("webhook_url_blocked", "This address belongs to this installation.")
        return target

    async def _exchange(self, request: httpx.Request) -> tuple[httpx.Response, bytes]:
        """Send a request; returns the answer and the beginning of its body."""
        async with (
            asyncio.timeout(self._config.timeout_s) as limit,
            self._client(self._answers, self._config.timeout_s) as client,
            aclosing(await client.send(request, stream=True)) as answer,
        ):
            return answer, await self._read(answer, limit)

    async def _read(self, answer: httpx.Response, limit: asyncio.Timeout) -> bytes:
        """Read the beginning of the body, as it came over the wire.

        The status has been heard: a body that drips or breaks off does not change it.
        """
        read = bytearray()
        deadline = limit.when()
        left = (deadline or 0.0) - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left * 0.9):
                async for piece in answer.aiter_raw():
                    read += piece[: RESPONSE_BYTES - len(read)]
                    if len(read) >= RESPONSE_BYTES:
                        break
        except (TimeoutError, httpx.TransportError, ssl.SSLError):
            pass
        return bytes(read)


async def _brisk(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Hand pieces on while enough comes; the time that passes while they are taken is not the server's."""
    clock = asyncio.get_running_loop().time
    waited, received, since = 0.0, 0, clock()
    async for piece in pieces:
        waited, received = waited + clock() - since, received + len(piece)
        if waited >= _SLOW_SECONDS:
            if received < _SLOW_BYTES:
                raise _unavailable("too little comes")
            waited, received = 0.0, 0
        yield piece
        since = clock()


def _request(
    method: str, target: WebhookUrl, headers: Mapping[str, str], body: bytes | None = None
) -> httpx.Request:
    """Build a request with these headers, those of every request, Content-Length and no others.

    Name and path are asked for as they were registered: the library would decode the name, breaks over those
    IDNA knows no more, and tidies the path ("/a/../b").
    """
    fixed = {"host": target.authority, "accept-encoding": "identity", "connection": "close"}
    given = {"target": target.path.encode()}
    return httpx.Request(method, target.url, headers=fixed | dict(headers), content=body, extensions=given)


def _refuse(status: int) -> None:
    """Raise for every answer but 200; a redirect is not followed."""
    if status in {404, 410}:
        raise MailsiftError("place_not_found", "The server has no such file.")
    if status == 429 or status >= 500:
        raise _unavailable(f"HTTP {status}")
    if status != 200:
        raise MailsiftError("place_refused", f"The server answered with HTTP {status}.")


def _unavailable(what: str) -> MailsiftError:
    return MailsiftError("place_unavailable", f"The server isn’t responding: {what}.", retryable=True)


def _outcome_of(answer: httpx.Response, body: bytes) -> AttemptOutcome:
    headers = answer.headers
    return AttemptOutcome(
        error=error_class(answer.status_code),
        status_code=answer.status_code,
        retry_after=headers.get("retry-after", ""),
        response="" if headers.get("content-encoding") else printable_text(body),
        directive=read_directive(headers.get("webhook-delivery", "")),
    )


def _is_ours(error: BaseException, address: str) -> bool:
    return _has_cause(error, _EXHAUSTED if ":" in address else _EXHAUSTED | _OFFLINE)


def _has_cause(error: BaseException, faults: frozenset[int]) -> bool:
    return any(isinstance(one, OSError) and one.errno in faults for one in causes_of(error))


def _class_of(error: BaseException) -> ErrorClass:
    """Find what lies below an error of the HTTP library."""
    for below in causes_of(error):
        if isinstance(below, ssl.SSLError):
            return ErrorClass.TLS
        if isinstance(below, ConnectionRefusedError):
            return ErrorClass.REFUSED
    return ErrorClass.REFUSED if isinstance(error, httpx.ConnectError) else ErrorClass.RESET
