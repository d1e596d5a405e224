"""Lists by pages, all in one style: `limit` and `cursor` come in, `next_cursor` and `has_more` go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field

from mailsift.jobs.views import bad_cursor

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str, Query(max_length=1_000, description="next_cursor of the page before")]


class PageResponse(BaseModel):
    """What every page says beside what is on it."""

    next_cursor: str = Field(description="the cursor of the next page; empty on the last one")
    has_more: bool


def id_of_cursor(cursor: str) -> UUID | None:
    """Return the id of the last one seen, None at the beginning.

    Raises:
        MailsiftError: `bad_cursor`.
    """
    if not cursor:
        return None
    try:
        return UUID(cursor)
    except ValueError:
        raise bad_cursor() from None


_ID: Final = attrgetter("id")


def page_of(
    found: Sequence[T], limit: int, cursor_of: Callable[[T], object] = _ID
) -> tuple[Sequence[T], dict[str, Any]]:
    """Return a page, and what it says beside what is on it.

    Args:
        found: what stands on the page and, if there is any, what comes after it.
        limit: how many stand on a page.
        cursor_of: what a cursor says of the last one: its id.
    """
    page = found[:limit]
    return page, page_end(str(cursor_of(page[-1])) if len(found) > limit else "")


def page_end(next_cursor: str) -> dict[str, Any]:
    """Return the fields of a PageResponse."""
    return {"next_cursor": next_cursor, "has_more": bool(next_cursor)}


def after_cursor(found: Sequence[T], cursor: str) -> Sequence[T]:
    """Return what of a whole list stands behind the cursor, an id.

    Raises:
        MailsiftError: `bad_cursor`.
    """
    last = id_of_cursor(cursor)
    if last is None:
        return found
    places = [place for place, one in enumerate(found) if _ID(one) == last]
    if not places:
        raise bad_cursor()
    return found[places[0] + 1 :]
