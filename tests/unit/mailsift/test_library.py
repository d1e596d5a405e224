"""`import mailsift`: what it takes and gives; nobody is asked."""

from __future__ import annotations

import asyncio
import doctest
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pytest

import mailsift
from mailsift import library
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.verdict import Status

FIELDS = list(VERDICTS)


class Kind(Enum):
    """No text, though its value is one."""

    ONE = "a@b.co"


class NoLoop:
    """What begins no loop, though its kind has a method for it, as an array of numpy without dimensions."""

    def __iter__(self) -> Iterator[str]:
        raise TypeError


@pytest.mark.parametrize("module", [mailsift, library])
def test_examples_in_docstrings_are_true(module: Any) -> None:
    failed, tried = doctest.testmod(module, extraglobs={"mailsift": mailsift})
    assert tried
    assert not failed


def test_a_result_has_the_address_and_the_13_fields() -> None:
    found = mailsift.check(" Info@Mailinator.COM ", mode="fast").as_dict()
    assert list(found) == ["address", *FIELDS]
    assert (found["address"], found["status"], found["is_role_based"]) == (
        "info@mailinator.com",
        "risky",
        True,
    )
    assert {type(value) for value in found.values()} == {str, bool, int}


def test_one_and_many_say_the_same() -> None:
    texts = ["a@example.com", "Ann <a@example.com>", "", "ä@bücher.de", "x@gmial.com", "'a@b.co", "a@b.notld"]
    many = mailsift.check_many(texts, mode="fast")
    assert many.to_dicts() == [mailsift.check(text, mode="fast").as_dict() for text in texts]


def test_rows_stay_in_their_order_and_beside_their_columns() -> None:
    frame = pl.DataFrame(
        {"n": [1, 2, 3, 4], "Mail": ["b@example.com", None, "a@example.com", "B@EXAMPLE.com"]}
    )
    found = mailsift.check_many(frame, mode="fast")
    assert found.columns == ["n", "Mail", "address", *FIELDS]
    assert found["n"].to_list() == [1, 2, 3, 4]
    assert found["address"].to_list() == ["b@example.com", "", "a@example.com", "b@example.com"]
    assert found.schema["score"] == pl.UInt8


def test_whatever_is_no_text_is_an_empty_one() -> None:
    found = mailsift.check_many(iter(["a@example.com", None, 7, b"\xff@b.co", "a\ud800@b.co"]), mode="fast")
    assert found["status"].to_list() == ["valid", *["invalid"] * 4]
    assert found["address"].to_list() == ["a@example.com", "", "", "", ""]
    assert mailsift.check_many([], mode="fast").shape == (0, 14)


@pytest.mark.parametrize(
    "value", [UUID(int=0), Path("x"), {"a@b.co"}, Status, Kind.ONE, object(), bytearray(b"\xff")]
)
def test_whatever_stands_between_texts_is_an_empty_one(value: object) -> None:
    for values in ([value, "a@example.com"], ["a@example.com", value]):
        found = mailsift.check_many(values, mode="fast")
        assert found["address"].to_list() == ["" if one is value else one for one in values]


@pytest.mark.parametrize("name", ["*", "^mail.*$"])  # both are patterns to polars
def test_a_column_of_any_name_is_taken(name: str) -> None:
    found = mailsift.check_many(pl.Series(name, ["a@example.com", None]), mode="fast")
    assert found["result"].to_list() == ["passed", "syntax_error"]


def as_bytes(values: list[Any]) -> pl.Series:
    return pl.Series("email", values, dtype=pl.Binary)


@pytest.mark.parametrize(
    "addresses",
    [
        [b"a@example.com", None],
        [bytearray(b"a@example.com"), None],
        as_bytes([b"a@example.com", None]),
        as_bytes([b"a@example.com", b"\xff"]),
        as_bytes([b"a@example.com", None]).to_frame(),
        pl.Series("email", ["a@example.com", 7], dtype=pl.Object),
    ],
)
def test_bytes_and_objects_are_the_texts_they_hold_as_some_programs_write_them(addresses: Any) -> None:
    found = mailsift.check_many(addresses, mode="fast")
    assert found["result"].to_list() == ["passed", "syntax_error"]


class ForeignFrame:
    """As those of other libraries: a loop over it gives the names of its columns."""

    columns = ("email", "name")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    "addresses",
    [
        [None, ("a@example.com",)],
        [["a@example.com"]],
        iter([{"email": "a@example.com"}]),
        [pl.Series(["a@example.com"])],
        [pl.DataFrame({"email": ["a@example.com"]})],
        ForeignFrame(),
    ],
)
def test_rows_and_frames_of_others_are_no_addresses(addresses: Any) -> None:
    with pytest.raises(MailsiftError, match="not_a_list"):
        mailsift.check_many(addresses, mode="fast")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: mailsift.check("a@b.co", mode="slow"), "unknown_mode"),
        (lambda: mailsift.check(None, mode="fast"), "not_text"),  # type: ignore[arg-type]
        (lambda: mailsift.check_many("a@b.co", mode="fast"), "not_a_list"),
        (lambda: mailsift.check_many(7, mode="fast"), "not_a_list"),
        (lambda: mailsift.check_many(NoLoop(), mode="fast"), "not_a_list"),
        (lambda: mailsift.check_many(pl.DataFrame(), mode="fast"), "no_address_column"),
        (lambda: mailsift.check_many(pl.DataFrame({"a": ["x"]}), mode="fast"), "no_address_column"),
        (
            lambda: mailsift.check_many(pl.DataFrame({"a": ["x"]}), column="b", mode="fast"),
            "column_not_found",
        ),
        (lambda: mailsift.check_many(pl.DataFrame({"address": ["a@b.co"]}), mode="fast"), "column_taken"),
        (lambda: mailsift.Checker(resolvers=["no resolver"]), "bad_settings"),
        (lambda: mailsift.Checker(resolvers=[53]), "bad_settings"),  # type: ignore[list-item]
    ],
)
def test_mistakes_have_codes(call: Callable[[], object], code: str) -> None:
    with pytest.raises(MailsiftError) as raised:
        call()
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda options: mailsift.check("a@b.co", **options), {"resolver": "9.9.9.9"}),
        (lambda options: mailsift.check_many(["a@b.co"], **options), {"mod": "fast"}),
        (lambda options: mailsift.Checker(**options), {"resolver": "9.9.9.9"}),
        (lambda options: mailsift.Checker().check("a@b.co", **options), {"resolvers": "9.9.9.9"}),
        (lambda options: mailsift.check("a@b.co", mode="fast", **options), {"deadline": "5"}),
        (lambda options: mailsift.check_many(["a@b.co"], **options), {"max_age": timedelta(days=1)}),
    ],
)
def test_what_is_no_option_is_refused_and_never_passed_over(
    call: Callable[[dict[str, object]], object], option: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match=next(iter(option))):
        call(option)


@pytest.mark.parametrize("resolvers", ["9.9.9.9", "[::1]:5353", [IPv4Address("9.9.9.9"), "::1"], (), None])
def test_resolvers_are_one_or_more_or_the_systems(resolvers: Any) -> None:
    found = mailsift.check("a@example.com", mode="fast", resolvers=resolvers)
    assert found.status is Status.VALID


def test_a_prefix_makes_room() -> None:
    frame = pl.DataFrame({"address": ["a@example.com"], "status": ["new"]})
    found = mailsift.check_many(frame, column="address", prefix="mailsift_", mode="fast")
    assert found.select("address", "status", "mailsift_status").row(0) == ("a@example.com", "new", "valid")


def test_a_closed_checker_says_so_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with mailsift.Checker() as one:
        one.check_many(["a@example.com"], mode="fast")
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before
    for mode in ("fast", "medium"):
        with pytest.raises(MailsiftError, match="checker_closed"):
            one.check("a@example.com", mode=mode)


async def test_the_async_twins_work_in_a_running_loop_and_so_do_the_others() -> None:
    async with mailsift.Checker() as one:
        results = await asyncio.gather(*(one.acheck(f"a{n}@example.com", mode="fast") for n in range(3)))
        frame = await one.acheck_many(["a@example.com"], mode="fast")
        assert one.check_many(["a@example.com"], mode="fast").equals(frame)
    assert [str(result.status) for result in results] == ["valid"] * 3
