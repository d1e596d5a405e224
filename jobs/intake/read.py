"""From a customer's file to `rows.parquet` and `addresses.parquet`; runs in the child process."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from jobs.columns import ADDRESS_N, column_id, names_metadata
from jobs.intake.bounds import check_size, gunzip, too_many_rows
from jobs.intake.column import SAMPLE_ROWS, choose_column
from jobs.intake.distinct import number_addresses
from jobs.intake.plan import ChunkSlice, Intake, IntakeLimits, IntakeOptions
from jobs.intake.read_json import read_json
from jobs.intake.read_tables import read_parquet, read_xlsx
from jobs.intake.read_text import read_text
from jobs.intake.sniff import HEAD_BYTES, Container, container_of, encoding_of, looks_like_json
from jobs.intake.table import Table
from pipeline.errors import MailsiftError

_ROW_GROUP = 65_536


def read_list(source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Do what `take_in` promises, in this process."""
    check_size(source, limits)
    table = opened(source, workdir, limits)
    try:
        return _split(table, workdir, options=options, limits=limits)
    except pl.exceptions.PolarsError:  # its text may quote the file
        text = f"The file could not be read as {table.format}."
        raise MailsiftError(f"bad_{table.format}", text) from None


def opened(source: Path, workdir: Path, limits: IntakeLimits) -> Table:
    """Find out what the file is and start to read it.

    Raises:
        MailsiftError: see `take_in`.
    """
    head = _head(source)
    match container_of(head):
        case Container.ZIP:
            return read_xlsx(source, workdir, limits)
        case Container.PARQUET:
            return read_parquet(source, limits)
        case Container.GZIP:
            source, packed = workdir / "unpacked", source
            gunzip(packed, source, limits)
            head = _head(source)
            if container_of(head) is not Container.TEXT:
                raise MailsiftError("unsupported_format", "Only a text file may be compressed with gzip.")
        case Container.TEXT:
            pass
    encoding = encoding_of(head)
    if kind := looks_like_json(head.decode(encoding, errors="replace")):
        return read_json(source, encoding, array=kind == "json", limits=limits)
    return read_text(source, encoding, workdir, limits)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _split(table: Table, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Write the table's distinct addresses and its rows."""
    choice = choose_column(first_rows(table), table.names, options.column)
    frame = table.frame.slice(1) if choice.header else table.frame
    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    if not rows:
        raise _no_rows()
    if rows > limits.rows:
        raise too_many_rows(limits.rows)
    cells = frame.select(pl.col(column_id(choice.index)).cast(pl.String, strict=False))
    numbers, addresses = number_addresses(cells.collect(engine="streaming").to_series())
    chunks = _write_addresses(addresses, workdir, options.chunk_addresses)
    distinct = addresses.height
    del addresses
    # The file is read a second time, in a stream: that takes less time than its rows take memory.
    pl.concat([numbers.alias(ADDRESS_N).to_frame().lazy(), frame], how="horizontal").sink_parquet(
        workdir / "rows.parquet",
        row_group_size=_ROW_GROUP,
        compression_level=1,
        statistics=False,
        metadata=names_metadata(choice.names),
        engine="streaming",
    )
    name = choice.names[choice.index]
    return Intake(rows, distinct, rows - distinct, name, table.format, table.encoding, chunks)


def first_rows(table: Table) -> pl.DataFrame:
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


def _no_rows() -> MailsiftError:
    return MailsiftError("empty_file", "The file has no rows.")
