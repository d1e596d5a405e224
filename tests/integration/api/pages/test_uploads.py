"""Lists that come in piece by piece, in the words of tus 1.0.0."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from pathlib import Path

import httpx

from mailsift.accounts.people import Role
from tests.integration.api.conftest import Api
from tests.support.installation import until
from tests.support.leftovers import places_below
from tests.support.sessions import csrf_of, signed_in

LIST = b"email\n" + b"".join(b"p%d@shop.example\n" % n for n in range(10_000))
_NAME = base64.b64encode(b"people.csv").decode()


async def _headers(client: httpx.AsyncClient, **more: str) -> dict[str, str]:
    token = csrf_of((await client.get("/account/you")).text)
    known = {"Accept": "application/json", "X-CSRF-Token": token, "Tus-Resumable": "1.0.0"}
    return known | {name.replace("_", "-"): value for name, value in more.items()}


async def _begin(client: httpx.AsyncClient, length: int = len(LIST)) -> str:
    headers = await _headers(client, Upload_Length=str(length), Upload_Metadata=f"filename {_NAME}")
    answer = await client.post("/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


async def _patch(
    client: httpx.AsyncClient, place: str, offset: int, data: bytes, **more: str
) -> httpx.Response:
    headers = {"Content_Type": "application/offset+octet-stream", "Upload_Offset": str(offset), **more}
    return await client.patch(place, headers=await _headers(client, **headers), content=data)


async def _offset(client: httpx.AsyncClient, place: str) -> int:
    answer = await client.head(place, headers={"Tus-Resumable": "1.0.0", "Accept": "application/json"})
    assert answer.headers["cache-control"] == "no-store"
    return int(answer.headers["upload-offset"])


async def test_pieces_become_the_list(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        place = await _begin(client)
        first = await _patch(client, place, 0, LIST[:1_000])
        assert (first.status_code, first.headers["upload-offset"]) == (204, "1000")
        assert await _offset(client, place) == 1_000
        assert (await client.get(place.replace("uploads", "lists"))).status_code == 404
        assert (await _patch(client, place, 1_000, LIST[1_000:])).status_code == 204
        page = await client.get(place.replace("uploads", "lists"))
        assert "people.csv" in page.text
        assert "10,000 rows" in page.text
        assert [path.read_bytes() for path in _stored(api) if path.name == "source"] == [LIST]
        assert [path for path in _stored(api) if path.parent.name == "parts"] == []


async def test_what_came_before_the_connection_broke_is_kept(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        place = await _begin(client)
        more = {"Content_Type": "application/offset+octet-stream", "Upload_Offset": "0"}
        more |= {"Host": "127.0.0.1", "Content_Length": str(len(LIST))}
        known = await _headers(client, **more)
        request = client.build_request("PATCH", place, headers=known)
        await client.event_hooks["request"][0](request)
        head = b"".join(b"%s: %s\r\n" % pair for pair in request.headers.raw)
        address = httpx.URL(api.url)
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"PATCH %s HTTP/1.1\r\n%s\r\n" % (place.encode(), head) + LIST[:100_000])
        await writer.drain()
        await until(partial(_is_coming, api), within=60)
        writer.close()
        await writer.wait_closed()
        await until(partial(_has_parts, api), within=60)
        assert 0 < (kept := await _offset(client, place)) <= 100_000
        assert (await _patch(client, place, kept, LIST[kept:])).status_code == 204


async def test_what_is_refused(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client, signed_in(api, account="bob") as other:
        place = await _begin(client)
        refused = [
            (await _patch(client, place, 5, LIST), 409, "upload_conflict"),
            (await _patch(client, place, 0, LIST + b"x"), 413, "file_too_large"),
            (await _patch(client, place, 0, LIST, Content_Type="text/csv"), 415, "unsupported_media_type"),
            (await _patch(client, place, 0, LIST, Tus_Resumable="0.2.2"), 412, "upload_version"),
            (await _patch(client, place, 0, LIST, X_CSRF_Token="0" * 64), 403, "csrf_failed"),
            (await _patch(client, place, 0, LIST, Origin="https://evil.example"), 403, "csrf_failed"),
            (await _patch(other, place, 0, LIST), 404, "draft_not_found"),
            (await other.get(place, headers={"Accept": "application/json"}), 404, "draft_not_found"),
            (await other.delete(place, headers=await _headers(other)), 404, "draft_not_found"),
        ]
        for answer, status, code in refused:
            assert (answer.status_code, answer.json()["code"]) == (status, code)
            assert answer.headers["tus-resumable"] == "1.0.0"
        for length, code in (("0", "empty_file"), ("1" + "0" * 12, "file_too_large"), ("x", "bad_option")):
            answer = await client.post("/uploads", headers=await _headers(client, Upload_Length=length))
            assert answer.json()["code"] == code
        headers = await _headers(client, Upload_Length="5")
        odd = [(name.encode(), value.encode()) for name, value in headers.items()]
        answer = await client.post("/uploads", headers=[*odd, (b"Upload-Metadata", b"filename \xe9")])
        assert answer.json()["code"] == "bad_option"
        assert await _offset(client, place) == 0
        assert (await client.delete(place, headers=await _headers(client))).status_code == 204
        assert [
            path for path in _stored(api) if path.is_file() and place.rpartition("/")[2] in str(path)
        ] == []


async def _is_coming(api: Api) -> bool:
    return any(path.stat().st_size for path in (api.settings.home / "blob-cache").glob("incoming-*"))


async def _has_parts(api: Api) -> bool:
    return any(path.parent.name == "parts" for path in _stored(api))


def _stored(api: Api) -> list[Path]:
    return [path for path in places_below(api.settings.home) if path.is_file()]
