"""Forms with a file (multipart/form-data, RFC 7578): read as they may be written, refused with the cause."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote_to_bytes

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError

_PREAMBLE_BYTES: Final = 8_192
_FILENAME: Final = re.compile(rb";\s*filename\s*=(?!\s*\"=\?)", re.IGNORECASE)
"""A plain one: .NET writes an encoded word (RFC 2047) beside the name of RFC 5987."""
_EXTENDED: Final = re.compile(rb";\s*filename\*\s*=\s*\"?[\w.-]+'[^']*'([^;\"\s]*)", re.IGNORECASE)


class FormReader(MultiPartParser):
    """Reads a form with a preamble or without, and takes none for whole that breaks off.

    At most `files` of its parts are files, and `fields` of them texts, of `field_bytes` each.
    """

    def __init__(
        self, headers: Headers, pieces: AsyncIterator[bytes], *, files: int = 1, fields: int, field_bytes: int
    ) -> None:
        self._has_ended = False
        super().__init__(
            headers,
            self._without_preamble(pieces),
            max_files=files,
            max_fields=fields,
            max_part_size=field_bytes,
        )

    @override
    def on_headers_finished(self) -> None:
        """Take a name of RFC 5987 where there is no other, though RFC 7578, section 4.2, forbids it."""
        given = self._current_part.content_disposition or b""
        if (name := _EXTENDED.search(given)) and not _FILENAME.search(given):
            plain = unquote_to_bytes(name[1]).translate(None, b'"\\\r\n')
            self._current_part.content_disposition = given + b'; filename="' + plain + b'"'
        elif b"*=" not in given:  # HTML, "Multipart form data": browsers write so what RFC 9110 quotes
            self._current_part.content_disposition = given.replace(b"%22", b'\\"')
        super().on_headers_finished()

    @override
    def on_end(self) -> None:
        self._has_ended = True

    @override
    async def parse(self) -> FormData:
        """Return the form.

        Raises:
            MailsiftError: `bad_request`, with what is wrong.
        """
        if not self._boundary():
            raise _unreadable("Its Content-Type names no boundary.")
        try:
            return await super().parse()
        except MultiPartException as error:
            raise _unreadable(error.message) from None

    def _boundary(self) -> bytes:
        return parse_options_header(self.headers.get("content-type"))[1].get(b"boundary", b"")

    async def _without_preamble(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield what begins with the first boundary: what is before it is to be ignored (RFC 2046, 5.1.1)."""
        line, held = b"\r\n--" + self._boundary(), b"\r\n"
        async for piece in pieces:
            if not line:
                yield piece
                continue
            held += piece
            place = held.find(line)
            if place >= 0:
                line = b""
                yield held[place + 2 :]
            elif len(held) > _PREAMBLE_BYTES:
                break
        if line:
            raise _unreadable("The boundary that its Content-Type names is not in it.")
        if not self._has_ended:
            raise _unreadable("It ends before its last boundary.")


def _unreadable(cause: str) -> MailsiftError:
    return MailsiftError("bad_request", f"The form cannot be read. {cause}")


@asynccontextmanager
async def form_of(request: Request, *, fields: int, field_bytes: int) -> AsyncIterator[FormData]:
    """Give the form of a request, with a file at most.

    Raises:
        MailsiftError: `bad_request`, with what is wrong.
    """
    form = await FormReader(request.headers, request.stream(), fields=fields, field_bytes=field_bytes).parse()
    try:
        yield form
    finally:
        await form.close()
