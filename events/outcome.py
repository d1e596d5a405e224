"""How one attempt to deliver went, in words the receiver's owner may see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

SHOWN_BYTES = 4 * 1024
"""How much of a response is kept."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class ErrorClass(StrEnum):
    """Why an attempt failed; NONE when it arrived, NOT_SENT when it was no attempt: the fault was ours."""

    NONE = ""
    DNS = "dns_error"
    REFUSED = "connection_refused"
    RESET = "connection_reset"
    TIMEOUT = "timeout"
    TLS = "tls_error"
    REDIRECT = "redirect"
    BLOCKED = "blocked_address"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    NOT_SENT = "not_sent"


class Wish(StrEnum):
    """What a receiver asks for by its header `webhook-delivery`, whatever its status says."""

    NONE = ""
    DISABLE = "disable"  # nothing more to this endpoint
    ABORT = "abort-message"  # never this event again


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one HTTP request.

    Attributes:
        error: NONE exactly when the receiver answered 2xx.
        status_code: 0 when nobody answered.
        ms: how long it took.
        retry_after: the header as it came, "" when there was none.
        response: the beginning of the body as harmless text.
        wish: what it asked for beside its answer.
    """

    error: ErrorClass
    status_code: int = 0
    ms: int = 0
    retry_after: str = ""
    response: str = ""
    wish: Wish = Wish.NONE


def error_of(status_code: int) -> ErrorClass:
    """Return what an HTTP status means for a delivery: only 2xx is success, a redirect is not followed."""
    match status_code // 100:
        case 2:
            return ErrorClass.NONE
        case 3:
            return ErrorClass.REDIRECT
        case 4:
            return ErrorClass.HTTP_4XX
        case _:
            return ErrorClass.HTTP_5XX


def wish_of(header: str) -> Wish:
    """Read a `webhook-delivery` header; a word nobody knows says nothing."""
    word = header.strip().lower()
    return Wish(word) if word in set(Wish) else Wish.NONE


def shown(body: bytes) -> str:
    """Return the beginning of a response as text: at most 4 KiB, no control or direction characters."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", body[:SHOWN_BYTES].decode("utf-8", "replace"))
    return text.encode()[:SHOWN_BYTES].decode("utf-8", "ignore")
