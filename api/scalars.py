"""Numbers and switches as they may come in: what JSON means by them, not all that Python would take."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator


def _whole(value: Any) -> Any:
    """Let `2.0` be a whole number (JSON Schema Validation, section 6.1.1)."""
    value = _no_switch(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json_whole(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("is not a number")  # noqa: TRY004 - pydantic turns only this one into a 422
    return _whole(value)


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is not a number")  # noqa: TRY004 - same
    return value


def _word(value: Any) -> Any:
    if not isinstance(value, bool) and str(value).lower() not in {"true", "false"}:
        raise ValueError("is neither true nor false")
    return value


WHOLE: Final = BeforeValidator(_json_whole)
"""Makes of an `int` a Whole; goes last, for OpenAPI forgets the bounds that come after it."""

Whole = Annotated[int, WHOLE]
"""A whole number in JSON."""

Count = Annotated[int, BeforeValidator(_whole)]
"""A whole number, also as the text of a URL or a form."""

Amount = Annotated[float, BeforeValidator(_no_switch)]
"""A number, also as the text of a URL or a form."""

Switch = Annotated[bool, BeforeValidator(_word)]
"""True or false, also as a word in a URL or a form."""
