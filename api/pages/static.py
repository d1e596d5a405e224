"""Static files, read once, and the place where browsers report what the page's policy has refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.api.http.auth import client_of
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.redis.rate_limit import Zone

router = APIRouter(include_in_schema=False)

_FOR_EVER: Final = "public, max-age=31536000, immutable"
_A_WHILE: Final = "public, max-age=300"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_DIRECTIVES: Final = frozenset(
    {"script-src", "style-src", "img-src", "connect-src", "form-action", "frame-ancestors", "base-uri"}
)
_REPORTS: Final = Zone("csp_reports", quota=60, window=60)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file; `version` changes when the content does."""

    content: bytes
    media_type: str
    version: str


def load_assets() -> dict[str, Asset]:
    """Read the files of api/static, by name."""
    found = {}
    for item in files("mailsift.api").joinpath("static").iterdir():
        if media_type := _TYPES.get(PurePath(item.name).suffix):
            content = item.read_bytes()
            found[item.name] = Asset(content, media_type, hashlib.sha256(content).hexdigest()[:12])
    return found


@router.get("/static/{name}")
async def static(request: Request, name: str, v: str = "") -> Response:
    """Return a static file."""
    asset = request.app.state.theme.assets.get(name)
    if asset is None:
        raise MailsiftError("not_found", "There is no such file.")
    kept = _FOR_EVER if v == asset.version else _A_WHILE
    return Response(
        asset.content,
        media_type=asset.media_type,
        headers={"Cache-Control": kept, "Content-Security-Policy": "default-src 'none'; style-src 'self'"},
    )


@router.post("/csp-report", status_code=204)
async def csp_report(request: Request) -> Response:
    """Take a browser's report; written down is only which directive was broken: the rest may be anything."""
    decision = await parts_of(request).people.limit.take(_REPORTS, client_of(request))
    if decision is not None and decision.allowed:
        _log.warning("page.csp_report", directive=_directive(await request.body()))
    return Response(status_code=204)


def _directive(body: bytes) -> str:
    try:
        report: Any = json.loads(body)["csp-report"]
        named = str(report.get("effective-directive") or report["violated-directive"]).split(" ")[0]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "unreadable"
    named = named.removesuffix("-elem").removesuffix("-attr")
    return named if named in _DIRECTIVES else "other"
