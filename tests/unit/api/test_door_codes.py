"""What doors call our results: all of them, nothing better than it is, and as the documentation says."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from mailsift.accounts.doors import NAMES, Door
from mailsift.api.doors import emailable, kickbox, neverbounce, reacher, zerobounce
from mailsift.api.doors.codes import Code, CodeTable, address_parts
from mailsift.jobs.columns import JUDGED_ADDRESS
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.single import validate_fast
from mailsift.pipeline.verdict import MEANINGS, Result, VerdictPolicy

TABLES = {
    Door.EMAILABLE: emailable.CODES,
    Door.KICKBOX: kickbox.CODES,
    Door.NEVERBOUNCE: neverbounce.CODES,
    Door.REACHER: reacher.CODES,
    Door.ZEROBOUNCE: zerobounce.CODES,
}
GOOD = {"valid", "deliverable", "safe"}
BAD = {"invalid", "undeliverable"}
INVALID = {
    Result.MAILBOX_DISABLED,
    Result.MAILBOX_NOT_FOUND,
    Result.NO_MAIL_SERVER,
    Result.NULL_MX,
    Result.UNROUTABLE,
    Result.DOMAIN_NOT_FOUND,
    Result.SYNTAX_ERROR,
}


def results_of(table: CodeTable, code: Code) -> frozenset[Result]:
    """Return every result that may be called so."""
    return frozenset(
        result for rows in (table.usual, table.role) for result, one in rows.items() if one == code
    )


PAGE = (Path(__file__).parents[3] / "docs/compatibility.md").read_text()


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_only_a_mailbox_that_was_accepted_is_good_and_only_a_denied_one_bad(table: CodeTable) -> None:
    assert set(table.usual) == set(Result) == set(MEANINGS)
    for role in (False, True):
        words = {result: table.named(result, role=role)[0] for result in Result}
        assert {result for result, word in words.items() if word in GOOD} <= {Result.DELIVERABLE}
        assert {result for result, word in words.items() if word in BAD} == INVALID


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_a_code_leads_back_to_the_results_that_are_called_so(table: CodeTable) -> None:
    for code in table.codes:
        found = results_of(table, code)
        assert found
        assert all(code in {table.named(one, role=False), table.named(one, role=True)} for one in found)
    assert results_of(table, ("no such",)) == frozenset()


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_a_file_calls_every_row_as_a_single_answer_does(table: CodeTable) -> None:
    rows = [(result.value, role) for result in Result for role in (False, True)]
    frame = pl.DataFrame(rows, schema=["mailsift_result", "mailsift_is_role_based"], orient="row")
    for place in range(len(next(iter(table.codes)))):
        codes = frame.select(table.column(place)).to_series().to_list()
        assert codes == [table.named(Result(result), role=role)[place] for result, role in rows]


def test_a_file_takes_addresses_apart_as_a_single_answer_does() -> None:
    plain = ["jane@example.com", "a+b+c@example.com", "+@example.com"]
    quoted = ['"a@b"@example.com', '"+x@y"@sub.example.com', '"a\nb"@example.com']
    parts = address_parts()
    found = pl.DataFrame({JUDGED_ADDRESS: [*plain, *quoted]}).select(
        parts.user, tag=parts.tag, host=parts.host
    )
    single = [neverbounce.parts_of_address(address) for address in (*plain, *quoted)]
    assert found["host"].to_list() == [one["host"] for one in single]
    assert [tag or "" for tag in found["tag"]] == [one["alias"] for one in single]
    none = pl.DataFrame({JUDGED_ADDRESS: [""]}).select(parts.user.alias("user"), parts.tag.alias("tag"))
    assert none.row(0) == (None, None)


@pytest.mark.parametrize(
    "text", ["<Jane+x@Bücher.de> ", "mailto:jane%2Bx@bücher.de?subject=Hi", "jane+x@xn--bcher-kva.de"]
)
def test_every_door_names_the_address_that_is_judged_and_its_parts(text: str) -> None:
    verdict = validate_fast(text, Lists.load(), VerdictPolicy())
    judged, domain = "jane+x@xn--bcher-kva.de", "xn--bcher-kva.de"
    found = emailable.shape(text, verdict)
    assert (found["user"], found["tag"], found["domain"]) == ("jane+x", "x", domain)
    found = kickbox.shape(text, verdict)
    assert (found["email"], found["user"], found["domain"]) == (judged, "jane+x", domain)
    found = neverbounce.parts_of_address(text)
    assert (found["normalized"], found["addr"], found["alias"]) == (judged, "jane", "x")
    assert (found["host"], found["domain"], found["subdomain"], found["tld"]) == (domain, domain, "", "de")
    syntax = reacher.shape(text, verdict)["syntax"]
    assert (syntax["normalized_email"], syntax["username"], syntax["domain"]) == (judged, "jane+x", domain)
    found = zerobounce.shape(text, verdict, 0.0)
    assert (found["account"], found["domain"]) == ("jane+x", domain)


def _cells(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


def _written(code: tuple[str, ...]) -> str:
    return " ".join(f"`{word}`" for word in code if word)


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_page_has_every_code_of_ours_at_every_door() -> None:
    doors = [*TABLES]
    expected = [
        [f"`{result.value}`", *(_written(TABLES[door].usual[result]) for door in doors)] for result in Result
    ]
    expected += [
        [f"`{result.value}` of a role", *(_written(TABLES[door].named(result, role=True)) for door in doors)]
        for result in (Result.DELIVERABLE, Result.CATCH_ALL)
    ]
    assert _cells(_section("Our results at each door")) == expected


@pytest.mark.parametrize("door", Door)
def test_the_page_leads_every_code_back(door: Door) -> None:
    table = TABLES[door]
    found = {
        cells[0]: set(re.findall("`([^`]+)`", cells[1]))
        for cells in _cells(_section(f"From {NAMES[door]} back"))
    }
    assert found == {
        _written(code): {one.value for one in results_of(table, code)} for code in sorted(table.codes)
    }
