"""JSON as everybody reads it: what one parser takes and another refuses is refused (I-JSON, RFC 7493)."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from typing_extensions import override


def read_json(body: bytes) -> Any:
    """Parse JSON; a name that stands twice in an object, NaN and Infinity are no JSON here.

    Raises:
        json.JSONDecodeError: it is none; its text says nothing of the body.
    """
    try:
        return _DECODE(body.decode(json.detect_encoding(body)))
    except (ValueError, RecursionError):  # numbers of thousands of digits, and nesting without end
        raise json.JSONDecodeError("not JSON", "", 0) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse(_: str) -> None:
    raise ValueError("no number")


_DECODE: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_refuse
).decode  # made once, not by request


class _StrictRequest(Request):
    @override
    async def json(self) -> Any:
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route whose JSON is read strictly."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what FastAPI would call, with another way to read JSON."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle
