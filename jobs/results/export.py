"""Hand results out, all or some: CSV and XLSX that are safe to open, JSONL and Parquet that are exact."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

import polars as pl

from mailsift.jobs.columns import (
    CLOCK_TEXT,
    SPAN_TEXT,
    VERDICT_PREFIX,
    distinct_names,
    json_text,
    read_names,
)
from mailsift.jobs.results.sheet import MOST_ROWS, write_sheet
from mailsift.jobs.results.tiers import tiered
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.tiers import TierPolicy
from mailsift.pipeline.verdict import Status


class ExportFormat(StrEnum):
    """What results can be had as; the value is the file name's extension."""

    CSV = "csv"
    XLSX = "xlsx"
    JSONL = "jsonl"
    PARQUET = "parquet"


_EXTENSIONS = {**{f".{kind}": kind for kind in ExportFormat}, ".ndjson": ExportFormat.JSONL}

# A spreadsheet takes a cell that starts with one of these as a formula, or hides how it starts (OWASP, "CSV
# Injection"); `=1+1@example.com` is a valid address. What reads a file may take U+FEFF and blanks away first;
# LibreOffice takes every control character for a blank.
_MARK = "\ufeff"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", _MARK)
_BLANKS = r"[\s\x00-\x20]*"
_FORMULA = f"^{_BLANKS}[{''.join(map(re.escape, _FORMULA_STARTS))}]"
# Where semicolons or tabs part the cells, as they do for Excel in much of Europe, our commas and quotes mean
# nothing: there a cell begins inside a text, too.
_INNER = rf'([;\t\r\n]"*{_BLANKS})([=+\-@＝＋－＠{_MARK}])'
_FORMULA_OR_INNER = f"{_FORMULA}|{_INNER}"
_DEFUSED = "${1}'${2}"
_PLACE = "place"  # no column of a results file is called so (mailsift.jobs.columns)


def format_of(path: Path) -> ExportFormat:
    """Return the format a file's extension asks for.

    Raises:
        MailsiftError: `unknown_export_format`.
    """
    try:
        return _EXTENSIONS[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_EXTENSIONS)
        raise MailsiftError("unknown_export_format", f"The output file must end in {known}.") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Results as a file, and which of its rows are wanted: arguments of `export`.

    Attributes:
        results: the file; it lives as long as whoever gave it says.
        statuses: only rows with one of these; all, when empty.
        row_numbers: only the rows with these numbers, from 0; all, when None.
        policy: what their tiers are read by.
    """

    results: Path
    statuses: frozenset[Status]
    row_numbers: pl.Series | None = None
    policy: TierPolicy = field(default_factory=TierPolicy)


def export(  # noqa: PLR0913 - what a file of results may be
    results: Path,
    out: IO[bytes] | Path,
    *,
    format: ExportFormat,  # noqa: A002 - the word for it
    statuses: Collection[Status] | None = None,
    row_numbers: pl.Series | None = None,
    columns: Sequence[str] | None = None,
    policy: TierPolicy | None = None,
) -> int:
    """Write results with the customer's column names, in the customer's row order.

    In CSV and XLSX a text cell or column name that a spreadsheet would take for a formula gets an apostrophe
    in front (in CSV also what follows a semicolon, tab or line end within it), and names may repeat as they
    did in the customer's file; only where one is ours, too, as in a list that was checked before, the
    customer's is made distinct. A sheet's cell holds 32,767 characters; what is longer is cut off. JSONL and
    Parquet hold every value unchanged, but for infinite numbers and what is no number, which JSON cannot hold
    (RFC 8259 section 6): in JSONL they are null. There every repeated or blank name is made distinct
    (mailsift.jobs.columns.distinct_names). Blocks; memory does not grow with the rows.

    Args:
        results: a results file (mailsift.jobs.results.join).
        out: the file to write; an open one is left open.
        format: what to write.
        statuses: keep only rows with one of these; None keeps all.
        row_numbers: keep only the rows of the file with these numbers, from 0; None keeps all.
        columns: keep only these, in this order, as choose_columns gives them; None keeps all.
        policy: what the columns `mailsift_tier` and `mailsift_tier_reason` are read by; None leaves them out.

    Returns:
        Rows written.

    Raises:
        MailsiftError: `too_many_rows_for_xlsx`.
    """
    frame = tiered(results, policy)
    if row_numbers is not None:  # before any other row goes: they number the rows of the file
        frame = frame.with_row_index(_PLACE)
        frame = frame.filter(pl.col(_PLACE).is_in(row_numbers.implode())).drop(_PLACE)
    if statuses is not None:
        frame = frame.filter(pl.col(f"{VERDICT_PREFIX}status").is_in([status.value for status in statuses]))
    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    check_fits(format, rows)
    ids = read_names(results)
    if columns is not None:
        frame, ids = frame.select(columns), {id_: ids[id_] for id_ in columns if id_ in ids}
    if isinstance(out, Path):
        with out.open("wb") as file:
            _WRITERS[format](frame, ids, file)
    else:
        _WRITERS[format](frame, ids, out)
    return rows


def check_fits(format: ExportFormat, rows: int) -> None:  # noqa: A002 - the word for it
    """Refuse more rows than a format can hold.

    Raises:
        MailsiftError: `too_many_rows_for_xlsx`.
    """
    if format is ExportFormat.XLSX and rows >= MOST_ROWS:
        text = f"A sheet holds {MOST_ROWS - 1:,} rows below its header; these are {rows:,}. CSV has no limit."
        raise MailsiftError("too_many_rows_for_xlsx", text)


def choose_columns(results: Path, wanted: Sequence[str], policy: TierPolicy | None = None) -> list[str]:
    """Return the ids of the columns that are meant: the customer's names, or ours with or without the prefix.

    With it ours is meant also where the list has a column of that name, as one that was checked before has:
    its own is called as in JSONL then (mailsift.jobs.columns.distinct_names).

    Raises:
        MailsiftError: `unknown_column`.
    """
    ids = read_names(results)
    schema = tiered(results, policy).collect_schema()
    ours = [name for name in schema if name not in ids]
    known = {name.removeprefix(VERDICT_PREFIX): name for name in ours}
    known |= dict(zip(distinct_names(list(ids.values()), ours), ids, strict=True))
    known |= {name: id_ for id_, name in reversed(ids.items())}  # of equal names the first is meant
    known |= {name: name for name in ours}
    if not set(wanted) <= set(known):
        raise MailsiftError("unknown_column", "The results have no column with one of these names.")
    return list(dict.fromkeys(known[name] for name in wanted))


def _write_csv(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    schema = frame.collect_schema()
    header = io.StringIO()
    titles = (re.sub(_INNER, r"\1'\2", name) for name in _safe_header(schema, names))
    csv.writer(header, lineterminator="\r\n").writerow(titles)  # it quotes what ends its own lines
    out.write(header.getvalue().removesuffix("\r\n").encode() + b"\n")
    nothing = '""' if len(schema) == 1 else ""  # a blank line is no row: readers skip it
    _cells(frame, sheet=False).sink_csv(out, include_header=False, null_value=nothing, engine="streaming")


def _write_jsonl(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    schema = frame.collect_schema()
    base64 = [plain_values(name, dtype) for name, dtype in schema.items() if dtype == pl.Binary]
    _renamed(frame.with_columns(base64), names).sink_ndjson(out, engine="streaming")


def _write_parquet(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    _renamed(frame, names).sink_parquet(out, engine="streaming")


def _write_xlsx(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    write_sheet(_cells(frame, sheet=True), _safe_header(frame.collect_schema(), names), out)


def plain_values(name: str, dtype: pl.DataType, *, sheet: bool = False) -> pl.Expr:
    """Turn values that neither CSV nor a sheet can hold into text: JSON for nested ones, base64 for bytes.

    Args:
        name: of the column.
        dtype: its type.
        sheet: also what CSV has a form for, but a sheet has none: dates, times and decimals.
    """
    column = pl.col(name)
    if dtype.is_nested():
        return json_text(name)
    if dtype == pl.Binary:
        return column.bin.encode("base64")
    if dtype == pl.Duration:
        return column.dt.to_string(SPAN_TEXT)
    if sheet and dtype == pl.Time:
        return column.dt.to_string(CLOCK_TEXT)
    if isinstance(dtype, pl.Categorical | pl.Enum) or (sheet and (dtype.is_temporal() or dtype.is_decimal())):
        return column.cast(pl.String)
    return column


def _cells(frame: pl.LazyFrame, *, sheet: bool) -> pl.LazyFrame:
    """Make every value fit for CSV or a sheet; no text is left that a spreadsheet takes for a formula."""
    plain = frame.select(
        plain_values(name, dtype, sheet=sheet) for name, dtype in frame.collect_schema().items()
    )
    texts = [name for name, dtype in plain.collect_schema().items() if dtype == pl.String]
    pattern, text = _FORMULA, pl.col("text")
    if not sheet:
        pattern, text = _FORMULA_OR_INNER, text.str.replace_all(_INNER, _DEFUSED)
    dangerous = pl.col(texts).str.contains(pattern).fill_null(value=False)

    def defuse(cells: pl.DataFrame) -> pl.DataFrame:
        return cells.with_columns(
            _rewritten(cells[where.name], where, text) for where in cells.select(dangerous) if where.any()
        )

    return plain.map_batches(defuse, streamable=True) if texts else plain


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as they stand in a CSV file; texts of strangers are to be `defused`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def defused(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula."""
    inner = re.sub(_INNER, r"\1'\2", text)
    return f"'{inner}" if re.match(_FORMULA, inner) else inner


def _rewritten(texts: pl.Series, where: pl.Series, text: pl.Expr) -> pl.Series:
    """Write some texts anew, as `text` has them; as they are few, this costs less than to look for them."""
    changed = texts.filter(where).alias("text").to_frame().select(_with_apostrophe(text)).to_series()
    return texts.scatter(where.arg_true(), changed)


def _with_apostrophe(text: pl.Expr) -> pl.Expr:
    """Put an apostrophe before what has become of `text` where it begins like a formula."""
    starts = pl.col("text").str.contains(_FORMULA)
    return pl.when(starts).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)


def _safe_header(schema: pl.Schema, names: Mapping[str, str]) -> list[str]:
    given = [names.get(id_, id_) for id_ in schema]
    like_ours = [id_ for id_ in names if names[id_] in schema.keys() - names.keys()]
    beside = distinct_names([names[id_] for id_ in like_ours], given)
    titles = {**names, **dict(zip(like_ours, beside, strict=True))}
    return [
        "'" + title if re.match(_FORMULA, title) else title
        for title in (titles.get(id_, id_) for id_ in schema)
    ]


def _renamed(frame: pl.LazyFrame, names: Mapping[str, str]) -> pl.LazyFrame:
    """Give the columns the customer's names, each made distinct from ours and each other."""
    ours = [name for name in frame.collect_schema() if name not in names]
    return frame.rename(dict(zip(names, distinct_names(list(names.values()), ours), strict=True)))


_WRITERS: Mapping[ExportFormat, Callable[[pl.LazyFrame, Mapping[str, str], IO[bytes]], None]] = {
    ExportFormat.CSV: _write_csv,
    ExportFormat.XLSX: _write_xlsx,
    ExportFormat.JSONL: _write_jsonl,
    ExportFormat.PARQUET: _write_parquet,
}
