"""Waiting as the API asks for, instead of failing, and telling its answers from those of others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Final, cast
from urllib.request import getproxies, proxy_bypass

import httpx
from typing_extensions import override

from mailsift_client.errors import check_origin, needs_reading, no_answer
from mailsift_client.uploads import REPEATS

_SAFE: Final = frozenset({"GET", "HEAD", "DELETE"})
_AWAY: Final = (httpx.NetworkError, httpx.RemoteProtocolError)
"""Nobody listens, or a connection broke: the service may be restarted just now."""
_GATEWAY: Final = frozenset({502, 503, 504})
"""What a proxy says while nobody answers behind it (RFC 9110 sections 15.6.3 to 15.6.5); 503 is ours, too."""
_PAUSE: Final = 1.0
_WAITS: Final = re.compile(r"(?:\s*(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,)?[^,]+", re.IGNORECASE)
"""The values of a Retry-After; the comma after the day of a week divides none."""


class PatientTransport(httpx.BaseTransport):
    """Sends again what was too early (429), and what may be repeated when the service is away.

    It is away when it says so (503), nobody listens, or a proxy finds nobody. What else is answered by
    others, or by nobody, is a MailsiftError.

    Args:
        inner: sends.
        patience: seconds to wait in all for one answer.
        sleep: waits so many seconds.
    """

    def __init__(self, inner: httpx.BaseTransport, patience: float, sleep: Callable[[float], None]) -> None:
        self._inner = inner
        self._patience = patience
        self._sleep = sleep

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        left = self._patience
        while True:
            try:
                response = self._inner.handle_request(request)
            except httpx.TransportError as error:
                if not isinstance(error, _AWAY) or not _is_repeatable(request) or left < _PAUSE:
                    raise no_answer(error) from error
                self._sleep(_PAUSE)
                left -= _PAUSE
                continue
            wait = _wait_of(request, response)
            if wait is None or wait > left:
                response.stream = _Body(cast("httpx.SyncByteStream", response.stream))
                if needs_reading(response):
                    response.read()
                    check_origin(response)
                return response
            response.close()
            self._sleep(wait)
            left -= wait

    @override
    def close(self) -> None:
        self._inner.close()


class _Body(httpx.SyncByteStream):
    """The body of an answer; that it breaks off is a MailsiftError."""

    def __init__(self, inner: httpx.SyncByteStream) -> None:
        self._inner = inner

    @override
    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._inner
        except httpx.TransportError as error:
            raise no_answer(error) from error

    @override
    def close(self) -> None:
        self._inner.close()


class PatientAsyncTransport(httpx.AsyncBaseTransport):
    """The same for programs with an event loop.

    Args:
        inner: sends.
        patience: seconds to wait in all for one answer.
        sleep: waits so many seconds.
    """

    def __init__(
        self, inner: httpx.AsyncBaseTransport, patience: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._inner = inner
        self._patience = patience
        self._sleep = sleep

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        left = self._patience
        while True:
            try:
                response = await self._inner.handle_async_request(request)
            except httpx.TransportError as error:
                if not isinstance(error, _AWAY) or not _is_repeatable(request) or left < _PAUSE:
                    raise no_answer(error) from error
                await self._sleep(_PAUSE)
                left -= _PAUSE
                continue
            wait = _wait_of(request, response)
            if wait is None or wait > left:
                response.stream = _AsyncBody(cast("httpx.AsyncByteStream", response.stream))
                if needs_reading(response):
                    await response.aread()
                    check_origin(response)
                return response
            await response.aclose()
            await self._sleep(wait)
            left -= wait

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class _AsyncBody(httpx.AsyncByteStream):
    """The same for programs with an event loop."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                yield piece
        except httpx.TransportError as error:
            raise no_answer(error) from error

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for a service; None: none, as for one of this machine."""
    asked, named = httpx.URL(url), getproxies()
    proxy = named.get(asked.scheme) or named.get("all")
    if not proxy or _is_here(asked.host) or proxy_bypass(asked.netloc.decode("ascii")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wait_of(request: httpx.Request, response: httpx.Response) -> float | None:
    """Return after how many seconds the request may be sent again; None: not at all."""
    is_away = response.status_code in _GATEWAY and _is_repeatable(request)
    is_early = response.status_code == 429 and _is_whole(request)
    seconds = _wait_asked_for(response.headers) if is_away or is_early else None
    if seconds is not None:
        return max(_PAUSE, seconds)
    return _PAUSE if is_away else None


def _wait_asked_for(headers: httpx.Headers) -> float | None:
    """Return after how many seconds to come again, of several the longest."""
    waits_named = _WAITS.findall(headers.get("retry-after", ""))
    waits = (_wait_in(one.strip(), headers.get("date", "")) for one in waits_named)
    return max((wait for wait in waits if wait is not None), default=None)


def _wait_in(text: str, now: str) -> float | None:
    """Read a number of seconds, or a date by the clock of who answers."""
    if text.isdecimal():
        return float(text)
    try:
        return (parsedate_to_datetime(text) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError):
        return None


def _is_repeatable(request: httpx.Request) -> bool:
    """Say whether it does no harm that the request arrives twice, and whether it still can."""
    return (request.method in _SAFE or "idempotency-key" in request.headers) and _is_whole(request)


def _is_whole(request: httpx.Request) -> bool:
    return isinstance(request.stream, httpx.ByteStream) or request.extensions.get(REPEATS, False)
