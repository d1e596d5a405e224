"""What goes out as gzip, and what must not."""

from __future__ import annotations

import gzip

import httpx
import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from mailsift.api.http.middleware import CompressionMiddleware, accepts_gzip

LARGE = b'{"a": "%s"}' % (b"b" * 4_000)


async def _fetched(app: ASGIApp, accepted: str = "gzip, deflate") -> tuple[dict[str, str], bytes]:
    transport = httpx.ASGITransport(CompressionMiddleware(app))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        client.stream("GET", "/", headers={"accept-encoding": accepted}) as answer,
    ):
        return dict(answer.headers), b"".join([piece async for piece in answer.aiter_raw()])


async def test_json_is_compressed_for_who_takes_it() -> None:
    headers, body = await _fetched(Response(LARGE, media_type="application/json", headers={"ETag": '"x"'}))
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(headers["content-length"]) == len(body) < 200
    assert gzip.decompress(body) == LARGE
    assert headers["etag"] == 'W/"x"'


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "br", "*;q=0"])
async def test_who_does_not_take_it_gets_it_plain(accepted: str) -> None:
    headers, body = await _fetched(Response(LARGE, media_type="application/json"), accepted)
    assert "content-encoding" not in headers
    assert headers["vary"] == "Accept-Encoding"
    assert body == LARGE


@pytest.mark.parametrize(
    "answer",
    [
        Response(b"{}", media_type="application/json"),
        Response(LARGE, media_type="application/vnd.apache.parquet"),
        Response(LARGE, media_type="text/csv"),
        Response(LARGE, media_type="application/json", headers={"Content-Encoding": "br"}),
        StreamingResponse(iter([LARGE, LARGE]), media_type="text/event-stream"),
        StreamingResponse(iter([LARGE, LARGE]), media_type="text/html"),
    ],
)
async def test_small_answers_files_and_streams_stay(answer: Response) -> None:
    headers, body = await _fetched(answer)
    assert headers.get("content-encoding", "br") == "br"
    assert body in {b"{}", LARGE, LARGE * 2}


def test_weights_are_read() -> None:
    assert accepts_gzip("br;q=1.0, gzip;q=0.8, *;q=0.1")
    assert accepts_gzip("*")
    assert not accepts_gzip("gzip;q=0.000, *")
