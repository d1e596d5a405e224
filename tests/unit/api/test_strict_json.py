"""What is no JSON that every parser reads alike is refused, on every operation that takes JSON."""

from __future__ import annotations

import json

import pytest
from fastapi.routing import APIRoute

from mailsift.api import v1
from mailsift.api.http.inputs import StrictRoute, read_json
from mailsift.api.v1.email import DirectRoute


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a":1,"b":[1,2.5,null,true,"\\u00e4"]}', {"a": 1, "b": [1, 2.5, None, True, "ä"]}),
        (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
        (b'{"a":{"a":1}}', {"a": {"a": 1}}),
        (b"1e400", float("inf")),  # a number, and finite is what the models want
    ],
)
def test_json_is_read(body: bytes, value: object) -> None:
    assert read_json(body) == value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a":1,"a":1}',
        b'[{"x":{"a":1,"\\u0061":2}}]',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"[" * 100_000,
        b"9" * 10_000,
        b'"\xff"',
        b"{'a':1}",
    ],
)
def test_what_is_none_is_refused_and_not_repeated(body: bytes) -> None:
    with pytest.raises(json.JSONDecodeError) as refused:
        read_json(body)
    assert refused.value.doc == ""
    assert refused.value.__cause__ is None


def test_every_operation_that_takes_json_reads_it_strictly() -> None:
    routes = [route for router in v1.ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    takes = [route for route in routes if route.body_field is not None]
    assert len(takes) > 7
    assert [route.path for route in takes if not isinstance(route, StrictRoute | DirectRoute)] == []
