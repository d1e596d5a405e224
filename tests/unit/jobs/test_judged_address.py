"""What was judged stands in every row: the canonical address, "" for a cell that is none."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailsift.jobs.columns import read_address_place
from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read import read_list
from mailsift.jobs.results.breakdown import compare_runs
from mailsift.jobs.results.browse import PageRequest, ResultFiles, RowFilter, read_page, select_so_far
from mailsift.jobs.results.export import ExportFormat, export
from mailsift.jobs.results.files import join_results
from mailsift.jobs.results.parts import rows_to_retry
from mailsift.pipeline.frames import SEGMENT
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.syntax.address import parse_cell
from tests.support.fuzzing import examples

LOCALS = ["jane", "Jane.Doe", "j+x", "=1+1", "jörg", '"a b"', "'o", ".a", "a..b", ""]
DOMAINS = ["example.com", "EXAMPLE.com", "münchen.de", "xn--mnchen-3ya.de", "-a.com", "a", "", "x_y.com"]
AROUND = ["", " ", "\u200b", "mailto:", "<", "Jane "]
SPELT = st.builds("{}{}@{}{}".format, *map(st.sampled_from, (AROUND, LOCALS, DOMAINS, AROUND)))
CELLS = st.lists(SPELT | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12), min_size=1)
OURS = "mailsift_address"
LISTS = Lists.load()


def segment_of(addresses: Path, out: Path) -> Path:
    """Write verdicts whose reasons name the number of their address."""
    n = pl.col("n")
    columns = (
        (n.cast(pl.String) if kind == pl.String else pl.lit(0).cast(kind) if name != "n" else n).alias(name)
        for name, kind in SEGMENT.items()
    )
    pl.read_parquet(addresses).select(columns).write_parquet(out)
    return out


def results_of(cells: list[str], folder: Path, *, repair: bool = False) -> Path:
    """Take a list in and join it with verdicts."""
    source = folder / "list.jsonl"
    source.write_text("".join(json.dumps({"email": cell}) + "\n" for cell in cells))
    read_list(source, folder, options=IntakeOptions(column="email", repair=repair), limits=IntakeLimits())
    segment = segment_of(folder / "addresses.parquet", folder / "segment.parquet")
    join_results(folder / "rows.parquet", [segment], folder / "results.parquet")
    return folder / "results.parquet"


def exported(results: Path, kind: ExportFormat) -> list[dict[str, Any]]:
    out = io.BytesIO()
    export(results, out, format=kind)
    out.seek(0)
    match kind:
        case ExportFormat.CSV:
            return list(csv.DictReader(io.StringIO(out.getvalue().decode(), newline="")))
        case ExportFormat.JSONL:
            return [json.loads(line) for line in out.getvalue().splitlines()]
        case ExportFormat.PARQUET:
            return pl.read_parquet(out).to_dicts()
        case ExportFormat.XLSX:
            return pl.read_excel(out).with_columns(pl.col(pl.String).fill_null("")).to_dicts()


@examples(12)
@given(CELLS)
@example(
    ["", " JANE@Example.com ", "jane@example.com", "nobody", "jane@MÜNCHEN.de", "jane@xn--mnchen-3ya.de"]
)
@example(["Jane <Jane@Example.com>", "jane@example.com", "jane doe@example.com", "a@b.com, c@d.com", ""])
def test_every_row_names_the_address_that_was_judged_and_with_repair_what_was_validated_in_its_place(
    cells: list[str],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = exported(results_of(cells, Path(folder)), ExportFormat.JSONL)
        repaired = exported(results_of(cells, Path(folder), repair=True), ExportFormat.JSONL)
    parsed = [parse_cell(cell) for cell in cells]
    assert [row[OURS] for row in rows] == ["" if one.rule else one.address for one in parsed]
    assert [list(row) for row in repaired] == [list(row) for row in rows]
    for row, before in zip(repaired, rows, strict=True):
        meant = parse_cell(LISTS.repaired(row["email"])).address if LISTS.repaired(row["email"]) else ""
        assert row[OURS] == (meant or before[OURS])
        reason = f"Validated as {meant}. {row['mailsift_reason']}" if meant else row["mailsift_reason"]
        assert row["mailsift_suggestion"] == reason
    for found in (rows, repaired):
        assert [row["email"] for row in found] == cells
        verdicts = {(row[OURS], row["mailsift_reason"]) for row in found if row[OURS]}
        assert len(verdicts) == len({address for address, _ in verdicts})


def test_repair_minds_the_operators_lists(tmp_path: Path) -> None:
    changes = tmp_path / "changes.toml"
    changes.write_text('[free]\nadd = ["iclud.con"]\n')
    source = tmp_path / "list.txt"
    source.write_text("email\nJane <jane@iclud.con>\n")
    meant = {}
    for overrides in ("", str(changes)):
        options = IntakeOptions(repair=True, overrides=overrides)
        read_list(source, tmp_path, options=options, limits=IntakeLimits())
        meant[overrides] = pl.read_parquet(tmp_path / "rows.parquet")["address"].to_list()
    assert [*meant.values()] == [["jane@icloud.com"], [""]]


@pytest.mark.parametrize("kind", ExportFormat)
def test_every_format_has_the_address_beside_the_fields(tmp_path: Path, kind: ExportFormat) -> None:
    rows = exported(results_of(["A@Example.com", "no at", "=1@example.com"], tmp_path), kind)
    safe = "'" if kind in {ExportFormat.CSV, ExportFormat.XLSX} else ""
    assert [row[OURS] for row in rows] == ["a@example.com", "", f"{safe}=1@example.com"]
    assert list(rows[0])[:3] == ["email", OURS, "mailsift_catch_all"]


def test_a_list_that_an_older_release_took_in_comes_to_its_end_without_it(tmp_path: Path) -> None:
    results_of(["a@example.com"], tmp_path)
    rows, older = tmp_path / "rows.parquet", tmp_path / "older.parquet"
    names = {"mailsift.names": pl.read_parquet_metadata(rows)["mailsift.names"]}
    pl.read_parquet(rows).drop("address").write_parquet(older, metadata=names)
    join_results(older, [tmp_path / "segment.parquet"], tmp_path / "results.parquet")
    for kind in ExportFormat:
        found = pl.DataFrame(exported(tmp_path / "results.parquet", kind))
        assert found.columns[:2] == ["email", "mailsift_catch_all"]


TWINS = b"Email,Email\n%s,jane@example.com\n%s,joe@example.com\n"


@pytest.mark.parametrize(
    ("twins", "wanted"), [(TWINS % (b"", b""), ""), (TWINS % (b"a@example.org", b"b@example.org"), "2")]
)
def test_of_two_columns_of_one_name_that_is_shown_compared_and_retried_which_was_judged(
    twins: bytes, wanted: str, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_bytes(twins)
    options = IntakeOptions(column=wanted)
    taken = read_list(tmp_path / "list.csv", tmp_path, options=options, limits=IntakeLimits())
    rows, addresses = tmp_path / "rows.parquet", tmp_path / "addresses.parquet"
    segment = segment_of(addresses, tmp_path / "segment.parquet")
    deferred = [pl.lit("risky").alias("status"), pl.lit("deferred").alias("result")]
    pl.read_parquet(segment).with_columns(deferred).write_parquet(segment)
    of_job: Any = {"addresses": 2, "options": {"mode": "deep"}, "address_column": taken.column}
    known = RowFilter(text="joe")
    found = select_so_far(of_job, known, (rows, addresses), [segment], tmp_path / "results.parquet")
    assert found.row_numbers is not None
    assert found.row_numbers.to_list() == [1]

    place = read_address_place(found.results, taken.column)
    page = read_page(
        ResultFiles(rows, addresses, place, found.results), known, PageRequest(after=-1, limit=9)
    )
    assert [row.address for row in page.rows] == ["joe@example.com"]

    assert compare_runs(found.results, found.results, (taken.column, taken.column), limit=9).compared == 2

    column = rows_to_retry(found.results, tmp_path / "again.parquet", taken.column)
    again = pl.read_parquet(tmp_path / "again.parquet")
    assert again[column].to_list() == ["jane@example.com", "joe@example.com"]
