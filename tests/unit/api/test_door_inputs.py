"""What clients of other services send: lists in forms, texts that are no addresses, cells in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from fastapi import Request

from mailsift.api.doors import emailable, entry
from mailsift.api.doors.entry import read_params
from mailsift.jobs.columns import names_metadata
from mailsift.pipeline.errors import MailsiftError

_FORM = "application/x-www-form-urlencoded"
_PART = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'


def _request(body: str, kind: str, query: str = "") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    headers = [(b"content-type", kind.encode())]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": query.encode()}
    return Request(scope, receive)


def _multipart(*items: tuple[str, str]) -> str:
    return "".join(_PART.format(*item) for item in items) + "--b--\r\n"


@pytest.mark.parametrize(
    ("body", "kind", "query"),
    [
        (f"emails={quote('a@example.com,b@example.com')}", _FORM, ""),
        (f"emails={quote('a@example.com, b@example.com,')}", _FORM, ""),
        ("emails[]=a@example.com&emails[]=b@example.com", _FORM, ""),
        ("emails%5B%5D=a@example.com&emails%5B%5D=b@example.com", _FORM, ""),
        ("emails[0]=a@example.com&emails[1]=b@example.com", _FORM, ""),
        ("emails=a@example.com&emails=b@example.com", _FORM, ""),
        ("", _FORM, "emails[]=a@example.com&emails[]=b@example.com"),
        (
            _multipart(("emails[]", "a@example.com"), ("emails[]", "b@example.com")),
            "multipart/form-data; boundary=b",
            "",
        ),
        (_multipart(("emails", "a@example.com,b@example.com")), "multipart/form-data; boundary=b", ""),
        ('{"emails": ["a@example.com", "b@example.com"]}', "application/json", ""),
    ],
)
async def test_a_list_of_emailable_comes_in_every_form(body: str, kind: str, query: str) -> None:
    params = await read_params(_request(body, kind, query), listed="emails")
    assert emailable.listed_emails(params["emails"]) == ["a@example.com", "b@example.com"]


async def test_one_address_in_brackets_is_a_list_and_other_parameters_are_the_last_of_theirs() -> None:
    params = await read_params(_request("emails[]=a@example.com&url=x&url=y", _FORM), listed="emails")
    assert (params["emails"], params["url"]) == (["a@example.com"], "y")


async def test_a_form_with_a_file_where_there_is_none_is_told_so() -> None:
    body = _multipart(('emails"; filename="a.csv', "a@example.com"))
    with pytest.raises(MailsiftError, match="Too many files"):
        await read_params(_request(body, "multipart/form-data; boundary=b"))


def test_what_is_no_address_in_a_list_keeps_its_place_and_refuses_no_other() -> None:
    texts = ["a@example.com", "", None, "x" * 5_000, "b\x00@example.com", "c\ud800@example.com"]
    lines = entry.emails_as_lines(texts, "emails", most=10).decode().splitlines()
    emails = [json.loads(line)["email"] for line in lines]
    assert emails == ["a@example.com", "", "", "x" * 5_000, "b�@example.com", "c�@example.com"]
    with pytest.raises(MailsiftError, match="must be a list of addresses"):
        entry.emails_as_lines(["a@example.com", 7], "emails", most=10)


def test_half_of_a_surrogate_pair_in_a_row_of_neverbounce_refuses_no_other() -> None:
    rows = [{"email": "a\ud800@b.test", "n": 1}, ["c@b.test", "x\udc00"], "d@b.test", "\0"]
    rows_read = entry.supplied_rows(rows, most=10)
    assert rows_read[:2] == [{"email": "a�@b.test", "n": 1}, {"0": "c@b.test", "1": "x�"}]
    assert rows_read[2:] == [{"email": "d@b.test"}, {"email": "\0"}]


def test_cells_of_a_row_come_back_in_the_order_of_the_list_and_of_equal_names_the_first(
    tmp_path: Path,
) -> None:
    names = ["name", "email", "zip", "name"]
    frame = pl.DataFrame(
        {
            "c0": ["Ann"],
            "c1": ["a@example.com"],
            "c2": ["1"],
            "c3": ["B"],
            "mailsift_address": ["a@example.com"],
        }
    )
    frame.write_parquet(tmp_path / "results", metadata=names_metadata(names, address_place=1))
    (row,), _ = entry.read_judged_rows(tmp_path / "results", "email", 0, 10)
    assert list(row.cells.items()) == [("name", "Ann"), ("email", "a@example.com"), ("zip", "1")]
