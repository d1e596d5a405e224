"""Numbers and switches mean what JSON means by them; in a URL they are text."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mailsift.api.http.inputs import Amount, Count, Switch, Whole


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        (Whole, 2, 2),
        (Whole, 2.0, 2),
        (Count, "2", 2),
        (Count, "1000", 1000),
        (Count, "2.0", 2),
        (Count, 2.0, 2),
        (Amount, "2.5", 2.5),
        (Amount, 2, 2.0),
        (Switch, True, True),
        (Switch, "false", False),
        (Switch, "True", True),
    ],
)
def test_taken(kind: Any, given: object, meant: object) -> None:
    assert TypeAdapter(kind).validate_python(given) == meant


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Whole, "2"),
        (Whole, True),
        (Whole, 2.5),
        (Whole, float("inf")),
        (Whole, float("nan")),
        (Count, True),
        (Count, "2.5"),
        (Count, "1.000"),
        (Count, " 12.000 "),
        (Count, "1.000.000"),
        (Count, ""),
        (Amount, False),
        (Amount, "x"),
        (Switch, 1),
        (Switch, "yes"),
        (Switch, ""),
        (Switch, None),
    ],
)
def test_refused(kind: Any, given: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(given)
