"""One HTTP request to a stranger's server: the address is checked where the socket is opened."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

import httpcore
from typing_extensions import override

from events.names import Resolve
from events.outcome import ErrorClass, Outcome, error_of, shown, wish_of
from events.own_hosts import is_this_machine
from events.target import Target, parse_target
from pipeline.errors import MailsiftError
from pipeline.guard import AddressGuard

_ADDRESSES: Final = 3

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What this machine has too few of: descriptors, memory, ports."""
_OFFLINE: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN})
"""No way out at all, if it is IPv4: many a machine has no IPv6."""


@dataclass(frozen=True, slots=True)
class SendConfig:
    """How requests are made.

    Attributes:
        allow_http: for tests: also plain HTTP, and any port.
        timeout_s: the whole request, name lookup to last byte, by the wall clock.
        response_bytes: what is read of a response before the connection is closed.
    """

    allow_http: bool = False
    timeout_s: float = 15.0
    response_bytes: int = 16 * 1024
    user_agent: str = "Mailsift-Webhooks/1.0"


class _SendError(Exception):
    def __init__(self, error: ErrorClass) -> None:
        super().__init__(error.value)
        self.error = error


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets only to addresses the guard allows.

    The name is resolved here and the checked address is dialled, so an answer that changes meanwhile changes
    nothing; host header and certificate check still see the name.
    """

    def __init__(self, *, guard: AddressGuard, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve
        self._inner: httpcore.AsyncNetworkBackend = httpcore.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        ours: Exception = _SendError(ErrorClass.DNS)
        theirs: Exception | None = None
        for address in (await self._addresses(host))[:_ADDRESSES]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                if _is_ours(error, address):
                    ours = _SendError(ErrorClass.NOT_SENT)
                else:
                    theirs = error
        raise theirs or ours

    @override
    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise _SendError(ErrorClass.BLOCKED)

    @override
    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _addresses(self, host: str) -> list[str]:
        """Return the addresses to dial; one that may not be dialled spoils them all."""
        try:
            found = [str(ip_address(host))]
        except ValueError:
            found = await self._look_up(host)
        if not all(map(self._may_dial, found)):
            raise _SendError(ErrorClass.BLOCKED)
        return found

    async def _look_up(self, name: str) -> list[str]:
        try:
            return list(await self._resolve(name))
        except MailsiftError:
            raise _SendError(ErrorClass.NOT_SENT) from None

    def _may_dial(self, address: str) -> bool:
        return self._guard.allows(address) and not is_this_machine(address)


class Sender:
    """Posts to webhooks: one connection each, no redirects, no cookies, no proxy of the environment.

    Args:
        guard: says which addresses may be dialled.
        resolve: finds the addresses of a name.
        config: limits.
        ssl_context: whom to trust; by default whom the system trusts.
        own_names: names of this installation, in the spelling of a Target; they are refused.
    """

    def __init__(
        self,
        *,
        guard: AddressGuard,
        resolve: Resolve,
        config: SendConfig | None = None,
        ssl_context: ssl.SSLContext | None = None,
        own_names: frozenset[str] = frozenset(),
    ) -> None:
        self._guard = guard
        self._own_names = own_names
        self._config = config or SendConfig()
        self._backend = GuardedBackend(guard=guard, resolve=resolve)
        self._ssl = ssl_context or ssl.create_default_context()

    def check(self, url: str) -> str:
        """Return the one spelling of a URL that may be a webhook.

        Raises:
            MailsiftError: `webhook_url_invalid`, `webhook_url_blocked`.
        """
        return self._target(url).url

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Send the bytes once; never raises for what the receiver or the network does."""
        started = time.monotonic()
        try:
            outcome = await self._post(self._target(url), headers, body)
        except MailsiftError:
            outcome = Outcome(ErrorClass.BLOCKED)
        except _SendError as error:
            outcome = Outcome(error.error)
        except (TimeoutError, httpcore.TimeoutException):
            outcome = Outcome(ErrorClass.TIMEOUT)
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError) as error:
            outcome = Outcome(_class_of(error))
        except OSError:  # not of the network, which the library translates: no socket to be had
            outcome = Outcome(ErrorClass.NOT_SENT)
        return replace(outcome, ms=round((time.monotonic() - started) * 1000))

    def _target(self, url: str) -> Target:
        target = parse_target(url, guard=self._guard, allow_http=self._config.allow_http)
        if target.host in self._own_names or is_this_machine(target.host):
            raise MailsiftError("webhook_url_blocked", "This address is that of this installation.")
        return target

    async def _post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Outcome:
        url = httpcore.URL(
            scheme=target.scheme, host=target.host, port=target.port, target=target.path.encode()
        )
        fixed = {
            "content-type": "application/json",
            "user-agent": self._config.user_agent,
            "accept-encoding": "identity",
            "connection": "close",
        }
        async with (
            asyncio.timeout(self._config.timeout_s) as limit,
            httpcore.AsyncHTTPConnection(
                url.origin, ssl_context=self._ssl, network_backend=self._backend
            ) as connection,
            connection.stream(
                "POST", url, headers=list({**fixed, **headers}.items()), content=body
            ) as answer,
        ):
            response = await self._read(answer, limit)
            told = {name.lower(): value for name, value in answer.headers}
            return Outcome(
                error=error_of(answer.status),
                status_code=answer.status,
                retry_after=told.get(b"retry-after", b"").decode("latin-1"),
                response=shown(response) if not told.get(b"content-encoding") else "",
                wish=wish_of(told.get(b"webhook-delivery", b"").decode("latin-1")),
            )

    async def _read(self, answer: httpcore.Response, limit: asyncio.Timeout) -> bytes:
        """Read the beginning of the body, as it came over the wire.

        The status has been heard: a body that drips or breaks off does not change it.
        """
        read = bytearray()
        deadline = limit.when()
        left = (deadline or 0.0) - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left * 0.9):
                async for piece in answer.aiter_stream():
                    read += piece[: self._config.response_bytes - len(read)]
                    if len(read) >= self._config.response_bytes:
                        break
        except (TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
            pass
        return bytes(read)


def _is_ours(error: BaseException, address: str) -> bool:
    """Say whether a connection failed because of this machine."""
    faults = _EXHAUSTED if ":" in address else _EXHAUSTED | _OFFLINE
    return any(isinstance(one, OSError) and one.errno in faults for one in _causes(error))


def _class_of(error: BaseException) -> ErrorClass:
    """Find what lies below an error of the HTTP library."""
    for below in _causes(error):
        if isinstance(below, ssl.SSLError):
            return ErrorClass.TLS
        if isinstance(below, ConnectionRefusedError):
            return ErrorClass.REFUSED
    return ErrorClass.REFUSED if isinstance(error, httpcore.ConnectError) else ErrorClass.RESET


def _causes(error: BaseException) -> Iterator[BaseException]:
    below: BaseException | None = error
    while below is not None:
        yield below
        below = below.__cause__ or below.__context__
