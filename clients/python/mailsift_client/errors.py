"""What the API refuses, as an exception."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import httpx

from mailsift_client.generated.models import Problem
from mailsift_client.generated.types import Response

T = TypeVar("T")


class MailsiftError(Exception):
    """The API refused, or gave no answer.

    Attributes:
        code: stable; `/docs` of the installation lists them all. Empty when it was not the API that answered.
        status: of HTTP. 0: nobody answered, or the answer broke off.
        request_id: what an operator finds the request by.
    """

    def __init__(self, message: str, *, code: str = "", status: int = 0, request_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id


def unwrap(response: Response[Any], kind: type[T]) -> T:
    """Return the answer of a generated operation, which is of this kind unless the API refused.

    Raises:
        MailsiftError: it did.
    """
    if isinstance(response.parsed, kind):
        return response.parsed
    raise problem_of(problem_in(response.content), int(response.status_code))


def needs_reading(response: httpx.Response) -> bool:
    """Say whether an answer may be somebody else's: every error, and a page."""
    return not response.is_success or response.headers.get("content-type", "").startswith("text/html")


def check_origin(response: httpx.Response) -> None:
    """Raise a MailsiftError for an answer of somebody else: a proxy, a load balancer.

    It needs reading, and has been read.
    """
    if problem_in(response.content) is None:
        raise problem_of(None, response.status_code)


def no_answer(error: httpx.TransportError) -> MailsiftError:
    """Return the error of an answer that did not come, or not to its end."""
    return MailsiftError(f"No answer came: {str(error) or type(error).__name__}.")


def problem_in(content: bytes) -> Problem | None:
    """Return what an answer of any status says went wrong; None: it is none of Mailsift's."""
    try:
        return Problem.from_dict(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def problem_of(found: Problem | None, status: int) -> MailsiftError:
    """Return the error of an answer that is none."""
    if found is not None:
        return MailsiftError(found.message, code=found.code, status=found.status, request_id=found.request_id)
    return MailsiftError(f"The answer has the status {status} and is none of Mailsift's.", status=status)
