"""A form is read as it may be written; one that cannot be read is refused with the cause."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers, UploadFile

from mailsift.api.http.uploads import FormReader
from mailsift.pipeline.errors import MailsiftError

FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na@example.com\r\n'
TEXT = b'--b\r\nContent-Disposition: form-data; name="mode"\r\n\r\nfast\r\n'
KIND = "multipart/form-data; boundary=b"


async def _read(body: bytes, kind: str = KIND, size: int = 1 << 20) -> list[tuple[str, str | bytes]]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    reader = FormReader(Headers({"content-type": kind}), pieces(), fields=2, field_bytes=100)
    form = await reader.parse()
    found = [
        (name, await one.read() if isinstance(one, UploadFile) else one) for name, one in form.multi_items()
    ]
    await form.close()
    return found


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\r\n",
        b"This is a form - of several parts.\r\n",
        b"--ad\r\n",
        b"x\r\n\r\n",
        b"p" * 8_000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\nan epilogue"])
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_a_form_may_have_a_preamble_and_an_epilogue(before: bytes, after: bytes, size: int) -> None:
    found = await _read(before + TEXT + FILE + b"--b--" + after, size=size)
    assert found == [("mode", "fast"), ("file", b"a@example.com")]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b"name=file; filename=a.csv", "a.csv"),
        (b"name=\"file\"; filename*=UTF-8''l%C3%A4%22.csv", "lä.csv"),
        (b'name="file"; filename="%22a%22; b%C3.csv"', '"a"; b%C3.csv'),
        (b'name="file"; filename*="utf-8\'\'b.csv"', "b.csv"),
        (b"name=file; filename=c.csv; filename*=utf-8''d.csv", "c.csv"),
        (b"name=file; filename*=utf-8''d.csv; filename=\"c.csv\"", "c.csv"),
        (b"name=file; filename=\"=?utf-8?B?w6Q=?=\"; filename*=utf-8''%C3%A4.csv", "ä.csv"),
    ],
)
async def test_a_file_may_be_named_as_other_messages_name_it(disposition: bytes, name: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"--b\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\nx\r\n--b--\r\n"

    form = await FormReader(Headers({"content-type": KIND}), pieces(), fields=1, field_bytes=9).parse()
    file = form["file"]
    assert isinstance(file, UploadFile)
    assert file.filename == name
    await form.close()


@pytest.mark.parametrize(
    ("body", "kind", "cause"),
    [
        (FILE + b"--b--\r\n", "multipart/form-data", "names no boundary"),
        (FILE + b"--b--\r\n", "multipart/form-data; boundary=c", "names is not in it"),
        (b"", KIND, "names is not in it"),
        (b"x" * (1 << 20) + b"\r\n" + FILE + b"--b--\r\n", KIND, "names is not in it"),
        (FILE + FILE + b"--b--\r\n", KIND, "Too many files. .* 1"),
        (TEXT * 3 + FILE + b"--b--\r\n", KIND, "Too many fields. .* 2"),
        (TEXT.replace(b"fast", b"f" * 101) + b"--b--\r\n", KIND, "exceeded maximum size"),
        (TEXT + FILE, KIND, "before its last boundary"),
        (TEXT + FILE[:-9], KIND, "before its last boundary"),
        (b"--b\r\n\r\nx\r\n--b--\r\n", KIND, "name"),
    ],
)
async def test_what_is_wrong_with_a_form_is_told(body: bytes, kind: str, cause: str) -> None:
    with pytest.raises(MailsiftError, match=cause) as caught:
        await _read(body, kind)
    assert caught.value.code == "bad_request"
