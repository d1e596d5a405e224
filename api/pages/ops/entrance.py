"""Who may come in here, and the desk they stand at; to anybody else nothing is here."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from api.pages.visitor import Operator, Visitor
from api.parts import parts_of
from jobs.operations.desk import Operations
from pipeline.errors import MailsiftError

_operator = Operator()


async def _let_in(request: Request) -> Visitor:
    try:
        return await _operator(request)
    except MailsiftError as error:
        if error.code == "operator_needed":
            raise MailsiftError("not_found", "There is no such page.") from None
        raise


Someone = Annotated[Visitor, Depends(_let_in)]
"""The operator who looks."""


def desk_of(request: Request) -> Operations:
    """Return the operator's desk."""
    return parts_of(request).operations


def id_from(given: str, code: str = "job_not_found") -> UUID:
    """Return an id from a path or a form; what is none is one nobody has.

    Raises:
        MailsiftError: `code`.
    """
    try:
        return UUID(given)
    except ValueError:
        raise MailsiftError(code, "There is no such thing.") from None
