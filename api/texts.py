"""Texts as they may come in: what breaks UTF-8, PostgreSQL or a terminal is refused at the door."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from pipeline.syntax_exact import LONGEST

_BROKEN = re.compile("[\x00\ud800-\udfff]")
# C0 and C1 controls, line and paragraph separators, direction marks (CVE-2021-42574)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _whole(value: str) -> str:
    if _BROKEN.search(value):
        raise ValueError("holds a NUL or half of a surrogate pair")
    return value


def _printable(value: str) -> str:
    if _UNPRINTABLE.search(value):
        raise ValueError("holds a control character")
    return value


# What OpenAPI says of them: the same in the words of ECMA 262.
_WHOLE = {"pattern": r"^[^\u0000]*$"}
_PRINTABLE = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"}
_URL = (
    r"^https://([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}(:(443|8443))?"
    r"(/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?$"
)

Email = Annotated[
    str, StringConstraints(max_length=LONGEST), AfterValidator(_whole), Field(json_schema_extra=_WHOLE)
]
"""What is to be validated; bad syntax is a verdict, not an error."""

ShortText = Annotated[
    str, StringConstraints(max_length=200), AfterValidator(_printable), Field(json_schema_extra=_PRINTABLE)
]
"""A name, a column, an id."""

Url = Annotated[
    str,
    StringConstraints(max_length=2_000),
    AfterValidator(_printable),
    Field(json_schema_extra={"format": "uri", "pattern": _URL}),
]
"""Where a webhook is sent; what it may be, the service says."""
