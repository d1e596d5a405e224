"""The cookies of the pages: session, the anonymous form's token, message for the next page, last file format.

All are `__Host-` (RFC 6265bis section 4.1.3.2): no other host and no plain HTTP can set them. Chromium and
Firefox take such cookies over plain HTTP from loopback, as a trustworthy origin.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Final

from fastapi import Request
from starlette.responses import Response

from mailsift.pipeline.guard import read_address

SESSION: Final = "__Host-mailsift"
FORM: Final = "__Host-mailsift-form"
HALF: Final = "__Host-mailsift-half"
SSO: Final = "__Host-mailsift-sso"
FLASH: Final = "__Host-mailsift-flash"
FORMAT: Final = "__Host-mailsift-format"
_LONGEST: Final = 1_000
_SESSION_LETTERS, _ACCOUNT_LETTERS = 24, 8  # 96 bits that nobody guesses, 32 that tell accounts apart


def put(response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
    """Set a cookie; without `seconds` the browser forgets it when it closes."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def drop(response: Response, name: str) -> None:
    """Let the browser forget a cookie."""
    response.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")


def read(request: Request, name: str) -> str:
    """Return a cookie's value, "" when there is none or nobody of ours has written it."""
    value = request.cookies.get(name, "")
    return value if value.isascii() and len(value) <= _LONGEST else ""


def replace(request: Request, name: str, value: str) -> None:
    """Let `read` return from now on what the browser will send next."""
    request.cookies[name] = value


def csrf_token(secret: str, account: object = "") -> str:
    """Return the token that forms of this session, or of this anonymous browser, carry in this account."""
    key = secret.encode()
    session, place = (
        hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest() for purpose in ("form", f"form {account}")
    )
    return session[:_SESSION_LETTERS] + place[:_ACCOUNT_LETTERS]


def is_of_session(token: str, wanted: str) -> bool:
    """Say whether a token is of the same session as the wanted one, be it in another account."""
    return hmac.compare_digest(token[:_SESSION_LETTERS], wanted[:_SESSION_LETTERS])


def mask(token: str) -> str:
    """Write the token another way for every answer: the size of a compressed one tells of it (BREACH)."""
    pad = secrets.token_bytes(len(token) // 2)
    return pad.hex() + _xor(pad, bytes.fromhex(token)).hex()


def unmask(given: str) -> str:
    """Return what `mask` was given, "" when this is not from there."""
    try:
        found = bytes.fromhex(given)
    except ValueError:
        return ""
    half = len(found) // 2
    return _xor(found[:half], found[half:]).hex() if len(found) == half * 2 else ""


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def write_flash(message: str, kind: str) -> str:
    """Return the cookie value of a message."""
    return base64.urlsafe_b64encode(json.dumps([kind, message[:300]]).encode()).decode().rstrip("=")


def read_flash(value: str) -> tuple[str, str] | None:
    """Return kind and text of a message."""
    try:
        kind, message = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except (ValueError, TypeError):
        return None
    return str(kind), str(message)


def keeps_cookies(request: Request) -> bool:
    """Say whether a browser keeps our cookies over this connection: HTTPS, or plain HTTP on loopback."""
    if request.url.scheme == "https":
        return True
    host = request.url.hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = read_address(host)
    return address is not None and address.is_loopback
