"""The OpenAPI description as it is handed out."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from starlette.responses import JSONResponse

from mailsift.api.app import create_app
from mailsift.api.parts import ApiParts


async def test_the_description_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = cast("ApiParts", SimpleNamespace(max_bytes=1_000, doors=()))  # a description asks nobody
    app, written = create_app(parts), list[object]()
    render = JSONResponse.render

    def watched(response: JSONResponse, content: object) -> bytes:
        written.append(content)
        return render(response, content)

    monkeypatch.setattr(JSONResponse, "render", watched)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        first, again = [await client.get("/openapi.json") for _ in range(2)]
        refused = await client.post("/openapi.json")
    assert (first.status_code, first.headers["content-type"]) == (200, "application/json")
    assert first.content == again.content
    assert first.json() == json.loads(json.dumps(app.openapi()))
    assert written.count(app.openapi()) == 1
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
