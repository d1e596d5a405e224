"""Texts as they may come in: what breaks UTF-8, PostgreSQL or a terminal is refused at the door."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from pipeline.syntax_exact import LONGEST

_BROKEN = re.compile("[\x00\ud800-\udfff]")
# C0 and C1 controls, line and paragraph separators, direction marks (CVE-2021-42574)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _whole(value: str) -> str:
    if _BROKEN.search(value):
        raise ValueError("holds a NUL or half of a surrogate pair")
    return value


def _printable(value: str) -> str:
    if _UNPRINTABLE.search(value):
        raise ValueError("holds a control character")
    return value


Email = Annotated[str, StringConstraints(max_length=LONGEST), AfterValidator(_whole)]
"""What is to be validated; bad syntax is a verdict, not an error."""

ShortText = Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)]
"""A name, a column, an id."""

Url = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_printable)]
"""Where a webhook is sent; what it may be, the service says."""
