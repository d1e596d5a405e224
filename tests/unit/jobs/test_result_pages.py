"""Rows of results are found and paged the same way whether the job is complete or still runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mailsift.jobs.columns import ADDRESS, ADDRESS_N, kept_metadata, names_metadata
from mailsift.jobs.results.breakdown import compare_runs, count_up
from mailsift.jobs.results.browse import (
    BEGINNING,
    PageRequest,
    ResultFiles,
    ResultRow,
    RowFilter,
    SortBy,
    matching_rows,
    read_checked_page,
    read_page,
    read_row,
    select_so_far,
)
from mailsift.jobs.results.export import ExportFormat, Selection, export
from mailsift.jobs.results.files import PartialVerdicts, join_results
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import ADDRESSES, SEGMENT, VERDICTS
from mailsift.pipeline.verdict import Status

# the distinct addresses: cell, domain, status, result, provider; sorted by domain as intake sorts them
KNOWN = [
    ("ann@a.test", "a.test", "valid", "deliverable", "google"),
    ("Bob+x@A.test ", "a.test", "invalid", "mailbox_not_found", "google"),
    ("c.c@b.test", "b.test", "risky", "catch_all", "mx.test"),
    ("ccc@b.test", "b.test", "risky", "deferred", "mx.test"),
    ("joe@ann.test", "c.test", "valid", "deliverable", "google"),
]
ROWS = [3, 0, 0, 1, 4, 2, 1, 0, 4, 3, 2, 2]
JUDGED = [0, 2, 4]  # the numbers of addresses that have a verdict while the job runs


def addresses_file(folder: Path) -> Path:
    frame = pl.DataFrame({"n": range(len(KNOWN)), "rows": 1, "domain": [one[1] for one in KNOWN]})
    blanks = [pl.lit("", pl.String).alias(name) for name in ADDRESSES if name not in frame.columns]
    path = folder / "addresses.parquet"
    typed = frame.with_columns(blanks).select(pl.col(name).cast(kind) for name, kind in ADDRESSES.items())
    typed.write_parquet(path)
    return path


def rows_file(folder: Path) -> Path:
    path = folder / "rows.parquet"
    frame = pl.DataFrame(
        {
            ADDRESS_N: pl.Series(ROWS, dtype=pl.UInt32),
            ADDRESS: [f"judged {n}" for n in ROWS],
            "c0": [{"k": n} for n in range(len(ROWS))],
            "c1": [KNOWN[n][0] for n in ROWS],
            "c2": [b"\xff"] + [None] * (len(ROWS) - 1),
        }
    )
    frame.write_parquet(path, metadata=names_metadata(["<b>", "email", "<b>"]))
    return path


def segment(folder: Path, *numbers: int) -> Path:
    rows: list[dict[str, Any]] = [
        {
            **{name: True for name, kind in VERDICTS.items() if kind == pl.Boolean},
            **dict(zip(("n", "status", "result", "provider"), (n, *KNOWN[n][2:]), strict=True)),
            "reason": f"reason {n}",
            "suggestion": "",
            "score": n,
            "smtp_code": 250 + n,
            "evidence": f'{{"n": {n}}}',
        }
        for n in numbers
    ]
    path = folder / f"segment-{'-'.join(map(str, numbers))}.parquet"
    pl.DataFrame(rows, schema=SEGMENT).write_parquet(path)
    return path


def running(folder: Path) -> ResultFiles:
    segments = [segment(folder, *JUDGED[:1]), segment(folder, *JUDGED[1:])]
    so_far = PartialVerdicts(len(KNOWN))
    so_far.add_segments(segments)
    return ResultFiles(rows_file(folder), addresses_file(folder), 1, segments=segments, so_far=so_far)


def complete(folder: Path) -> ResultFiles:
    segments = [segment(folder, 3, 1), segment(folder, 0, 2, 4)]
    rows, addresses, results = rows_file(folder), addresses_file(folder), folder / "results.parquet"
    join_results(rows, segments, results, evidence=True)
    so_far = PartialVerdicts(len(KNOWN))
    so_far.add_segments(segments)
    domains = folder / "domains.parquet"
    count_up(addresses, so_far)[1].write_parquet(domains)
    return ResultFiles(rows, addresses, 1, results=results, domains=domains)


@pytest.fixture(params=["running", "complete"], scope="module")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ResultFiles:
    folder = tmp_path_factory.mktemp("files")
    whole = running(folder) if request.param == "running" else complete(folder)
    return replace(whole, window=5, gap=2)


def matching(files: ResultFiles, wanted: RowFilter) -> list[int]:
    """Find the rows the slow way."""
    judged = JUDGED if files.results is None else range(len(KNOWN))
    found = []
    for row, n in enumerate(ROWS):
        cell, domain, status, result, provider = KNOWN[n]
        text = cell.lower().strip()
        place = text.startswith(wanted.text.lower()) if wanted.at_start else wanted.text.lower() in text
        hits = (
            n in judged,
            not wanted.statuses or Status(status) in wanted.statuses,
            not wanted.results or result in wanted.results,
            wanted.domain in {"", domain},
            wanted.provider in {"", provider},
            place,
        )
        found += [row] if all(hits) else []
    return found


WANTED = [
    RowFilter(frozenset(statuses), frozenset(filter(None, [result])), domain, provider, text, at_start)
    for statuses, result, domain, provider, (text, at_start) in product(
        ((), (Status.RISKY, Status.VALID)),
        ("", "deferred"),
        ("", "a.test", "none.test"),
        ("", "google", "nobody"),
        (("", False), ("", True), ("C.C", False), ("ANN", False), ("ann", True), ("+x", False)),
    )
    if sum(map(bool, (statuses, result, domain, provider, text))) in {0, 1, 2, 5}
]
"""None, each alone, every pair, and all together."""


def test_every_filter_finds_what_a_slow_look_at_each_row_finds(files: ResultFiles) -> None:
    for wanted in WANTED:
        page = read_page(files, wanted, PageRequest(after=-1, limit=100))
        assert [row.row for row in page.rows] == matching(files, wanted), wanted
        assert page.matches == len(page.rows)
        for row in page.rows:
            cell, _, status, result, _ = KNOWN[ROWS[row.row]]
            assert (row.address, row.verdict["status"], row.verdict["result"]) == (cell, status, result)
            assert row.judged == f"judged {ROWS[row.row]}"
            assert row.verdict["reason"] == f"reason {ROWS[row.row]}"
            assert row.verdict["smtp_code"] == 250 + ROWS[row.row]


@pytest.mark.parametrize("limit", [1, 2, 5, 50])
def test_pages_forward_and_backward_show_every_row_once(files: ResultFiles, limit: int) -> None:
    wanted = RowFilter(statuses=frozenset({Status.VALID, Status.RISKY}))
    expected = matching(files, wanted)
    pages = [read_page(files, wanted, PageRequest(after=-1, limit=limit))]
    while (after := pages[-1].next) is not None:
        pages.append(read_page(files, wanted, PageRequest(after=after, limit=limit)))
        assert len(pages) <= len(expected)
    assert [row.row for page in pages for row in page.rows] == expected
    assert [page.first for page in pages] == list(range(0, len(expected), limit))
    for before, page in pairwise(pages):
        assert page.previous is not None
        assert read_page(files, wanted, PageRequest(after=page.previous, limit=limit)) == before
    assert pages[0].previous is None


def test_a_page_may_begin_anywhere(files: ResultFiles) -> None:
    page = read_page(files, RowFilter(), PageRequest(after=6, limit=2))
    expected = matching(files, RowFilter())
    assert [row.row for row in page.rows] == [row for row in expected if row > 6][:2]
    assert page.first == len([row for row in expected if row <= 6])
    beyond = read_page(files, RowFilter(), PageRequest(after=999, limit=2))
    assert (beyond.rows, beyond.next, beyond.matches) == ((), None, len(expected))


@pytest.mark.parametrize("sort", list(SortBy))
def test_pages_in_another_order_lead_forward_and_back_with_their_columns(
    files: ResultFiles, sort: SortBy
) -> None:
    whole = read_page(files, RowFilter(), PageRequest(after=BEGINNING, limit=100, sort=sort, columns=None))
    assert (whole.names, whole.columns) == (("<b>",), ("<b>",))
    assert {len(row.cells) for row in whole.rows} == {1}
    assert {row.row: row.cells for row in whole.rows}[1] == (("<b>", '{"k":1}'),)  # the first of equal names
    first = read_page(files, RowFilter(), PageRequest(after=BEGINNING, limit=2, sort=sort, columns=["none"]))
    assert first.next is not None
    second = read_page(files, RowFilter(), PageRequest(after=first.next, limit=2, sort=sort))
    assert [row.row for page in (first, second) for row in page.rows] == [row.row for row in whole.rows[:4]]
    assert (second.first, second.previous, first.columns) == (2, BEGINNING, ())
    assert (
        read_page(files, RowFilter(), PageRequest(after=BEGINNING, limit=2, sort=sort, columns=[])) == first
    )
    order = [row.row for row in whole.rows]
    for begin in range(2, len(order), 2):
        page = read_page(files, RowFilter(), PageRequest(after=order[begin - 1], limit=2, sort=sort))
        assert (page.first, [row.row for row in page.rows]) == (begin, order[begin : begin + 2])
        assert page.previous == (order[begin - 3] if begin > 2 else BEGINNING)
    beyond = read_page(files, RowFilter(), PageRequest(after=order[-1], limit=2, sort=sort))
    assert (beyond.rows, beyond.first, beyond.previous, beyond.next) == ((), len(order), order[-3], None)


def test_a_whole_row_has_every_cell_as_text_and_its_evidence(files: ResultFiles) -> None:
    row = read_row(files, 1)
    assert isinstance(row, ResultRow)
    assert row.cells == (("<b>", '{"k":1}'), ("email", "ann@a.test"), ("<b>", ""))
    assert (row.address, list(row.verdict), row.verdict["score"]) == ("ann@a.test", list(VERDICTS), 0)
    assert (row.judged, row.evidence) == ("judged 0", {"n": 0})
    assert read_row(files, 999) is None
    first = read_row(files, 0)
    assert (first is None) == (files.results is None)  # its address has no verdict while the job runs
    assert first is None or first.cells[2] == ("<b>", "ff")


@pytest.mark.parametrize("build", [running, complete])
def test_a_repaired_row_says_so_while_the_job_runs_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[Path], ResultFiles]
) -> None:
    path = rows_file(tmp_path)
    marked = pl.read_parquet(path).with_columns(pl.Series("repaired", ROWS) == 0)
    marked.write_parquet(path, metadata=names_metadata(["<b>", "email", "<b>"]))
    monkeypatch.setitem(globals(), "rows_file", lambda _: path)
    files = build(tmp_path)
    reason = "Validated as judged 0."
    rows = read_page(files, RowFilter(), PageRequest(after=-1, limit=20)).rows
    assert [row.verdict["suggestion"] for row in rows] == [
        reason if ROWS[row.row] == 0 else "" for row in rows
    ]
    row = read_row(files, 1)
    assert row is not None
    assert row.verdict["suggestion"] == reason


def test_results_of_an_older_release_do_not_say_what_was_judged(tmp_path: Path) -> None:
    kept = complete(tmp_path)
    assert kept.results is not None
    names = {"mailsift.names": pl.read_parquet_metadata(kept.results)["mailsift.names"]}
    older = tmp_path / "older.parquet"
    pl.read_parquet(kept.results).drop("mailsift_address").write_parquet(older, metadata=names)
    files = ResultFiles(kept.rows, kept.addresses, kept.column, results=older)
    row = read_row(files, 1)
    assert row is not None
    assert (row.address, row.judged, row.verdict["score"]) == ("ann@a.test", "", 0)
    assert {one.judged for one in read_page(files, RowFilter(), PageRequest(after=-1, limit=9)).rows} == {""}


def test_without_a_table_of_domains_no_row_has_a_provider(tmp_path: Path) -> None:
    kept = complete(tmp_path)
    files = ResultFiles(kept.rows, kept.addresses, kept.column, results=kept.results)
    assert read_page(files, RowFilter(provider="google"), PageRequest(after=-1, limit=9)).matches == 0


def sort_key(row: ResultRow, sort: SortBy) -> Any:
    name = sort.value.removeprefix("-")
    return row.address.lower() if name == "email" else row.verdict[name]


@pytest.mark.parametrize("sort", list(SortBy))
def test_whole_pages_are_in_order_and_hold_every_match_once(files: ResultFiles, sort: SortBy) -> None:
    wanted = RowFilter(statuses=frozenset({Status.VALID, Status.RISKY}))
    found: list[ResultRow] = []
    after: int | None = BEGINNING
    while after is not None:
        page = read_checked_page(files, wanted, PageRequest(after=after, limit=2, sort=sort, columns=["<b>"]))
        assert page is not None
        assert page.matches == len(matching(files, wanted))
        found, after = [*found, *page.rows], page.next
    assert sorted(row.row for row in found) == matching(files, wanted)
    assert all(set(row.verdict) == set(VERDICTS) for row in found)
    assert [row.cells for row in found] == [(("<b>", f'{{"k":{row.row}}}'),) for row in found]
    if sort is SortBy.ROW:
        assert [row.row for row in found] == matching(files, wanted)
    else:
        down = sort.value.startswith("-")
        keys = [sort_key(row, sort) for row in found]
        assert keys == sorted(keys, reverse=down)
        for one, other in pairwise(found):
            assert sort_key(one, sort) != sort_key(other, sort) or one.row < other.row


def test_a_row_that_does_not_match_begins_no_page(files: ResultFiles) -> None:
    wanted = RowFilter(statuses=frozenset({Status.VALID}))
    (row, *_) = set(range(len(ROWS))) - set(matching(files, wanted))
    assert read_checked_page(files, wanted, PageRequest(after=row, limit=2, sort=SortBy.ROW)) is None
    with pytest.raises(MailsiftError, match="no column"):
        read_checked_page(
            files, wanted, PageRequest(after=BEGINNING, limit=2, sort=SortBy.ROW, columns=["nope"])
        )


@pytest.mark.parametrize(
    "wanted",
    [
        RowFilter(provider="google"),
        RowFilter(domain="b.test", statuses=frozenset({Status.RISKY})),
        RowFilter(text="ANN"),
        RowFilter(results=frozenset({"deliverable", "catch_all"}), text="a.test"),
        RowFilter(provider="nobody"),
    ],
)
def test_a_file_holds_the_rows_that_a_page_shows(
    files: ResultFiles, tmp_path: Path, wanted: RowFilter
) -> None:
    if files.results is not None:
        found = Selection(files.results, wanted.statuses, matching_rows(files, wanted))
    else:
        row: Any = {"addresses": len(KNOWN), "options": {"mode": "deep"}, "address_column": "email"}
        out = tmp_path / "partial.parquet"
        found = select_so_far(row, wanted, (files.rows, files.addresses), files.segments, out)
    cells = [KNOWN[ROWS[number]][0] for number in matching(files, wanted)]
    for kind in ExportFormat:
        out = tmp_path / f"file.{kind.value}"
        chosen: Any = {"statuses": found.statuses or None, "row_numbers": found.row_numbers}
        assert export(found.results, out, format=kind, **chosen) == len(cells)
        if kind is ExportFormat.PARQUET:
            assert pl.read_parquet(out)["email"].to_list() == cells
        if kind is ExportFormat.JSONL and cells:
            assert pl.read_ndjson(out)["email"].to_list() == cells


def test_addresses_that_are_bytes_are_shown_found_and_sorted_as_text(tmp_path: Path) -> None:
    whole = complete(tmp_path)
    assert whole.results is not None
    for path in (whole.rows, whole.results):
        kept = kept_metadata(path)
        as_bytes = (
            pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(b"\xff")).otherwise(pl.col("c1").cast(pl.Binary))
        )
        pl.read_parquet(path).with_columns(as_bytes.alias("c1")).write_parquet(path, metadata=kept)
    page = read_page(whole, RowFilter(text="BOB"), PageRequest(after=BEGINNING, limit=9))
    assert [row.address for row in page.rows] == ["Bob+x@A.test "] * 2
    page = read_page(whole, RowFilter(), PageRequest(after=BEGINNING, limit=99, sort=SortBy.EMAIL))
    assert page.rows[-1].address == "joe@ann.test"
    assert {row.address for row in page.rows} == {"ff", *(KNOWN[n][0] for n in ROWS)}
    assert (
        compare_runs(whole.results, whole.results, ("email", "email"), limit=9).compared == len(set(ROWS)) + 1
    )


def test_what_a_cell_starts_with_narrows_nothing_where_no_text_is_asked_for(files: ResultFiles) -> None:
    everything = matching_rows(files, RowFilter()).to_list()
    assert matching_rows(files, RowFilter(at_start=True)).to_list() == everything
    assert RowFilter(statuses=frozenset({Status.VALID}), at_start=True).by_status_alone
