"""A list becomes `rows.parquet` and `addresses.parquet`, or is looked at first; runs in the child process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
from polars.datatypes import DataTypeClass

from mailsift.jobs.columns import ADDRESS, ADDRESS_N, REPAIRED, cell_text, column_id, names_metadata
from mailsift.jobs.disk import check_room
from mailsift.jobs.intake.harvest import find_harvest, refusal
from mailsift.jobs.intake.models import ChunkSlice, Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read_json import read_json
from mailsift.jobs.intake.read_text import read_text
from mailsift.jobs.intake.read_xlsx import read_xlsx
from mailsift.jobs.intake.sniff import (
    HEAD_BYTES,
    FileContainer,
    check_size,
    container_of,
    encoding_of,
    gunzip,
    looks_like_json,
    too_many_columns,
    too_many_rows,
)
from mailsift.jobs.intake.table import (
    SAMPLE_ROWS,
    Choice,
    SourceTable,
    address_shares,
    as_text,
    choose_column,
)
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.harvest import LEAST
from mailsift.pipeline.syntax.address import UNSEEN
from mailsift.pipeline.syntax.column import is_plain, parse_column

_ROW_GROUP = 65_536
_SLICE = 250_000  # cells parsed at a time: bounds the parser's scratch memory
_FIRST_ROWS = 8  # of an inspection
_CELL = 120  # characters of a cell in it
_NAME = 60  # of a column's name


def read_list(source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Do what `take_in` promises, in this process."""
    check_size(source, limits)
    table = open_table(source, workdir, limits)
    with _blaming(table, workdir):
        intake = _split(table, workdir, options=options, limits=limits)
        if (
            options.refuse_harvested
            and intake.addresses >= LEAST
            and (sign := find_harvest(workdir / "addresses.parquet"))
        ):
            raise refusal(sign)
        return intake


@contextmanager
def _blaming(table: SourceTable, workdir: Path) -> Iterator[None]:
    """Take what goes wrong in polars for the file's fault, unless the disk is full.

    What it says may quote the file; of a full disk it may say no more than that writing failed.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        check_room(workdir)
        if isinstance(error, pl.exceptions.PanicException) and table.format != "parquet":
            raise  # only there does a foreign parser see the file first
        text = f"The file could not be read as {table.format}."
        raise MailsiftError(f"bad_{table.format}", text) from None


def open_table(source: Path, workdir: Path, limits: IntakeLimits) -> SourceTable:
    """Find out what the file is and start to read it.

    Raises:
        MailsiftError: see `take_in`.
    """
    head = _head(source)
    match container_of(head):
        case FileContainer.ZIP:
            return read_xlsx(source, limits)
        case FileContainer.PARQUET:
            return _read_parquet(source, limits)
        case FileContainer.GZIP:
            source, packed = workdir / "unpacked", source
            gunzip(packed, source, limits)
            head = _head(source)
            if container_of(head) is not FileContainer.TEXT:
                raise MailsiftError("unsupported_format", "Only a text file may be compressed with gzip.")
        case FileContainer.TEXT:
            pass
    encoding = encoding_of(head)
    if kind := looks_like_json(head.decode(encoding, errors="replace")):
        return read_json(source, encoding, array=kind == "json", limits=limits)
    return read_text(source, encoding, workdir, limits)


def _read_parquet(path: Path, limits: IntakeLimits) -> SourceTable:
    """Read a Parquet file; columns keep their types.

    Raises:
        MailsiftError: `bad_parquet` among those of `take_in`.
    """
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise MailsiftError("bad_parquet", "The Parquet file is damaged or of an unknown kind.") from None
    if len(schema) > limits.columns:
        raise too_many_columns(limits.columns)
    for place, dtype in enumerate(schema.dtypes(), start=1):
        if _cannot_travel(dtype):
            text = f"Column {place} is of a type that no other format can carry."
            raise MailsiftError("bad_parquet", text)
    ids = {name: column_id(index) for index, name in enumerate(schema)}
    return SourceTable(frame.rename(ids), tuple(schema), "parquet")


def _cannot_travel(dtype: pl.DataType | DataTypeClass, *, inside: bool = False) -> bool:
    """Say whether a type is opaque, or has bytes inside other values, which JSON text cannot show."""
    if isinstance(dtype, pl.List | pl.Array):
        return _cannot_travel(dtype.inner, inside=True)
    if isinstance(dtype, pl.Struct):
        return any(_cannot_travel(inner, inside=True) for inner in dtype.to_schema().values())
    return dtype in {pl.Object, pl.Unknown} or (inside and dtype == pl.Binary)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _split(table: SourceTable, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Write the table's distinct addresses and its rows."""
    choice = choose_column(first_rows(table), table.names, options.column)
    frame = table.frame.slice(1) if choice.header else table.frame
    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    if not rows:
        raise _no_rows()
    if rows > limits.rows:
        raise too_many_rows(limits.rows)
    cells = frame.select(pl.col(column_id(choice.index)).cast(pl.String, strict=False))
    texts = cells.collect(engine="streaming").to_series()
    repaired = _repaired(texts, options) if options.repair else None
    if repaired is not None:
        texts = texts.zip_with(repaired == "", repaired)
    numbers, addresses = number_addresses(texts)
    del texts
    chunks = _write_addresses(addresses, workdir, options.chunk_addresses)
    distinct = addresses.height
    ours = _judged(numbers, addresses)
    if repaired is not None:
        ours = ours.with_columns((repaired != "").alias(REPAIRED))
    del addresses
    # The file is read a second time, in a stream: that takes less time than its rows take memory.
    pl.concat([ours.lazy(), frame], how="horizontal").sink_parquet(
        workdir / "rows.parquet",
        row_group_size=_ROW_GROUP,
        compression_level=1,
        statistics=False,
        metadata=names_metadata(choice.names),
        engine="streaming",
    )
    name = choice.names[choice.index]
    return Intake(rows, distinct, rows - distinct, name, table.format, table.encoding, chunks)


def first_rows(table: SourceTable) -> pl.DataFrame:
    """Read the rows by which the address column is found.

    Raises:
        MailsiftError: `empty_file`.
    """
    sample = table.frame.head(SAMPLE_ROWS).collect(engine="streaming")
    if not sample.height:
        raise _no_rows()
    return sample


def _write_addresses(addresses: pl.DataFrame, workdir: Path, size: int) -> tuple[ChunkSlice, ...]:
    """Write the addresses, a row group for each chunk, and return the chunks."""
    addresses.lazy().sink_parquet(
        workdir / "addresses.parquet", row_group_size=size, compression_level=1, statistics=False
    )
    return tuple(
        ChunkSlice(int(part["n"][0]), part.height, int(part["rows"].sum()))
        for part in addresses.select("n", "rows").iter_slices(size)
    )


def _judged(numbers: pl.Series, addresses: pl.DataFrame) -> pl.DataFrame:
    """Return for each row the number of its address and the address; rows share the text of equal ones."""
    judged = addresses.select(pl.when(pl.col("rule") == "").then("address").otherwise(pl.lit("")))
    return pl.DataFrame({ADDRESS_N: numbers, ADDRESS: judged.to_series().gather(numbers)})


def _repaired(cells: pl.Series, options: IntakeOptions) -> pl.Series:
    """Return the addresses that cells clearly mean which are none, "" for all other cells."""
    from mailsift.pipeline.lists import Lists  # noqa: PLC0415 - nobody else here needs them, and they take time

    meant = Lists.load(Path(options.overrides) if options.overrides else None).repaired
    slices = cells.fill_null("").alias("cell").to_frame().iter_slices(_SLICE)
    return pl.concat([_repaired_slice(piece, meant) for piece in slices])


def _repaired_slice(cells: pl.DataFrame, meant: Callable[[str], str]) -> pl.Series:
    """Look at each distinct cell that is no plain address, some 50 µs each."""
    odd = cells.filter(~is_plain(pl.col("cell").str.strip_chars(UNSEEN)))["cell"].unique()
    table = pl.DataFrame(
        [(cell, meant(cell)) for cell in odd],
        schema={"cell": pl.String, "meant": pl.String},
        orient="row",
    )
    found = cells.join(table, on="cell", how="left", maintain_order="left")
    return found["meant"].fill_null("")


def _no_rows() -> MailsiftError:
    return MailsiftError("empty_file", "The file has no rows.")


def number_addresses(raw: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """Parse the cells of the address column and number the distinct addresses.

    Returns:
        For each cell the number of its address, and the addresses (frames.ADDRESSES), sorted by domain;
        within a domain they keep the list's order.
    """
    slices = raw.to_frame().iter_slices(_SLICE)
    parsed = pl.concat(
        (parse_column(cells.to_series()) for cells in slices), rechunk=True
    )  # fast to gather from
    del raw, slices
    codes, bearers = _codes(parsed["address"])
    firsts = bearers.sort()
    ranks = _alphabetical(parsed["domain"].gather(firsts)).to_frame("rank")
    order = firsts.gather(ranks.select(pl.arg_sort_by("rank", maintain_order=True)).to_series())
    numbers = _placed(codes.gather(order), _range(len(order))).gather(codes)
    addresses = parsed[order].with_columns(
        _range(len(order)).alias("n"), numbers.sort().rle().struct.field("len").alias("rows")
    )
    return numbers, addresses.select(pl.col(name).cast(dtype) for name, dtype in ADDRESSES.items())


def _codes(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Give equal texts equal codes, dense from 0 in no order; return them and the first row of each code.

    Ranking hashes is several times faster than grouping texts. The rows that repeat a hash are compared with
    its first; should two differ (once in some ten million lists of a million), another seed is tried.
    """
    rows = _range(len(texts))
    for seed in count():
        codes = (texts.hash(seed).rank("dense") - 1).cast(pl.UInt32)
        firsts = _placed(codes.reverse(), rows.reverse())[: _greatest(codes) + 1]
        again = (firsts.gather(codes) != rows).arg_true()
        if (texts.gather(again) == texts.gather(firsts.gather(codes.gather(again)))).all():
            return codes, firsts
    raise AssertionError  # count() never ends


def _alphabetical(texts: pl.Series) -> pl.Series:
    """Rank equal texts equally, dense from 0 in alphabetical order, by sorting only the distinct ones."""
    codes, firsts = _codes(texts)
    order = texts.gather(firsts).arg_sort()
    return _placed(order, _range(len(order))).gather(codes)


def _placed(places: pl.Series, values: pl.Series) -> pl.Series:
    """Return a series with each value at its place, the later value where places repeat."""
    blank = pl.zeros(len(places), dtype=pl.UInt32, eager=True)
    return blank.scatter(places, values)


def _greatest(numbers: pl.Series) -> int:
    return int(numbers.to_frame().select(pl.all().max()).item())


def _range(length: int) -> pl.Series:
    return pl.int_range(length, dtype=pl.UInt32, eager=True)


def count_domains(
    source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits, most: int
) -> dict[str, Any]:
    """Return what `mailsift.jobs.plans.DomainCounts` holds, as JSON types: the largest domains by name.

    Raises:
        MailsiftError: see `take_in`.
    """
    read_list(source, workdir, options=options, limits=limits)
    addresses = pl.scan_parquet(workdir / "addresses.parquet", glob=False)
    counts = addresses.filter(pl.col("rule") == "").group_by("domain").len().collect()
    largest = counts.sort(["len", "domain"], descending=[True, False]).head(most)
    return {
        "addresses": int(addresses.select(pl.len()).collect().item()),
        "domains": dict(largest.iter_rows()),
        "others": int(counts["len"].sum()) - int(largest["len"].sum()),
        "harvested": find_harvest(workdir / "addresses.parquet"),
    }


def inspect_list(source: Path, workdir: Path, limits: IntakeLimits) -> dict[str, Any]:
    """Return what `mailsift.jobs.drafts.Inspection` holds, as JSON types.

    Raises:
        MailsiftError: see `jobs.intake.take_in`, but a list without an address column is no error here.
    """
    check_size(source, limits)
    table = open_table(source, workdir, limits)
    with _blaming(table, workdir):
        sample = first_rows(table)
        rows = int(table.frame.select(pl.len()).collect(engine="streaming").item())
    choice, guess = _choice(sample, table.names)
    rows -= choice.header
    if rows > limits.rows:
        raise too_many_rows(limits.rows)
    if not rows:
        raise MailsiftError("empty_file", "The file has no rows below its header.")
    data = sample.slice(int(choice.header))
    texts = data.select(as_text(column) for column in data)
    cells = data.head(_FIRST_ROWS).select(
        cell_text(name, dtype).str.slice(0, _CELL) for name, dtype in sample.schema.items()
    )
    return {
        "rows": rows,
        "format": table.format,
        "encoding": table.encoding,
        "header": choice.header or table.names is not None,
        "columns": [
            {"name": name[:_NAME], "key": key, "share": share}
            for name, key, share in zip(
                choice.names, _keys(sample, table.names, choice), address_shares(texts), strict=True
            )
        ],
        "guess": guess,
        "first": [list(row) for row in cells.iter_rows()],
    }


def _choice(sample: pl.DataFrame, names: Sequence[str] | None) -> tuple[Choice, int | None]:
    """Find the address column; where there is none, the first one stands in and nothing is guessed."""
    try:
        choice = choose_column(sample, names, "")
    except MailsiftError as error:
        if error.code != "no_address_column":
            raise
        return choose_column(sample, names, "1"), None
    return choice, choice.index


def _keys(sample: pl.DataFrame, names: Sequence[str] | None, choice: Choice) -> Iterator[str]:
    """Yield for each column what to ask intake for to get it, "" where nothing would.

    Intake takes a name or a number, and a name wins: a column's number may be the name of another one.
    """
    first = sample.head(1)
    for index, name in enumerate(choice.names):
        cell = "" if names is not None else (first.item(0, index) or "").strip()
        tried = (
            text for text in (name, cell, str(index + 1)) if text and _leads_to(first, names, text, index)
        )
        yield next(tried, "")


def _leads_to(first: pl.DataFrame, names: Sequence[str] | None, key: str, index: int) -> bool:
    try:
        return choose_column(first, names, key).index == index
    except MailsiftError:
        return False
