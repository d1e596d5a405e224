"""What a place's URL means, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailsift.jobs.places.place import Connections, parse_sink, parse_source
from mailsift.pipeline.errors import MailsiftError

_ODD = "SELECT email FROM guest WHERE email NOT LIKE '%+ab%' AND flags & 1 = 1 AND note <> 'a=b'"
_JSON = "SELECT doc #>> '{mail,first}' AS email FROM guest WHERE doc ? 'mail' -- ../ #1"
_LINES = "SELECT email\n\tFROM guest\r\nWHERE note <> '%0A'\n"


@pytest.mark.parametrize(
    ("given", "query"),
    [
        (_ODD, _ODD),
        (_JSON, _JSON),
        (_LINES, _LINES),
        ("SELECT%20a%2Bb%20FROM%20c", "SELECT a+b FROM c"),
        ("SELECT+a%2Bb+FROM+c", "SELECT a+b FROM c"),
        ("TABLE%20c", "TABLE c"),
    ],
)
def test_a_query_that_was_not_encoded_is_not_decoded(given: str, query: str) -> None:
    assert parse_source(f"postgresql://crm/sales?query={given}").query == query


@pytest.mark.parametrize(
    "url",
    [
        "az://account/container",
        "az://account/container/",
        "s3://lake/a.csv?",
        "s3://lake/a.csv#",
        "postgresql://crm/sales?query=TABLE%20a&query=TABLE%20b",
        "postgresql://crm/sales?query=TABLE%20a&table=b",
        "postgresql://crm/sales#x?query=TABLE a",
        "postgresql://reader:pw@crm/sales?query=TABLE a",
        "postgresql://crm/sales?query=TABLE%20a\n",
        "postgresql://crm/sales?query=TABLE a\0b",
        "postgresql://crm\n/sales?query=TABLE a",
    ],
)
def test_what_names_no_place_or_two_is_refused(url: str) -> None:
    with pytest.raises(MailsiftError, match="bad_place"):
        parse_source(url)


@pytest.mark.parametrize("theirs", ["postgres", "postgresql", "POSTGRES"])
@pytest.mark.parametrize("ours", ["postgres", "postgresql"])
def test_both_schemes_of_a_database_are_one_place(theirs: str, ours: str, tmp_path: Path) -> None:
    (file := tmp_path / "connections.toml").write_text(
        f'[[connection]]\nurl = "{ours}://crm/sales"\naccounts = ["alice"]\nuser = "reader"\n'
    )
    place = parse_source(f"{theirs}://crm/sales?query=TABLE%20guest")
    found = Connections.load(file).find(place, "alice")
    assert found is not None
    assert found.credentials == {"user": "reader"}


def test_a_table_s_name_has_as_many_bytes_as_postgresql_keeps() -> None:
    longest = "é" * 31 + "x"
    assert parse_sink(f"postgresql://crm/sales?table={longest}.{longest}").table == f"{longest}.{longest}"
    for name in (f"{longest}x", f"a.{longest}x", "é" * 63):
        with pytest.raises(MailsiftError, match="63 bytes"):
            parse_sink(f"postgresql://crm/sales?table={name}")


@pytest.mark.parametrize("ours", ["s3://lake/Lists", "S3://lake/Lists"])
def test_a_scheme_is_one_in_large_letters_too_and_a_key_is_not(ours: str, tmp_path: Path) -> None:
    (file := tmp_path / "connections.toml").write_text(f'[[connection]]\nurl = "{ours}"\naccounts = ["*"]\n')
    connections = Connections.load(file)
    assert parse_source("AZ://account/container/Key").base == "az://account/container/Key"
    assert connections.find(parse_source("S3://lake/Lists/A.csv"), "alice")
    assert connections.find(parse_source("s3://lake/lists/A.csv"), "alice") is None
