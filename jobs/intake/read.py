"""A list becomes `rows.parquet` and `addresses.parquet`, or is looked at first; runs in the child process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

from mailsift.jobs.columns import ADDRESS, ADDRESS_N, REPAIRED, cell_text, column_id, names_metadata
from mailsift.jobs.intake.ahead import DomainsAhead
from mailsift.jobs.intake.harvest import LEAST, find_harvest, refusal
from mailsift.jobs.intake.models import FEWEST_ADDRESSES, ChunkSlice, Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.numbering import AddressBook, SpillBuffer, scan_addresses
from mailsift.jobs.intake.read_json import joined_texts, read_json, with_texts_of_objects
from mailsift.jobs.intake.read_parquet import read_parquet
from mailsift.jobs.intake.read_text import read_text
from mailsift.jobs.intake.read_xlsx import read_xlsx
from mailsift.jobs.intake.sniff import (
    HEAD_BYTES,
    FileContainer,
    check_is_list,
    check_size,
    container_of,
    encoding_of,
    gunzip,
    looks_like_json,
    too_many_rows,
    without_dos_end,
)
from mailsift.jobs.intake.table import (
    SAMPLE_ROWS,
    Choice,
    SourceTable,
    address_shares,
    as_texts,
    below_notes,
    choose_column,
)
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.providers import provider_by_name
from mailsift.pipeline.syntax.address import UNSEEN
from mailsift.pipeline.syntax.column import is_plain, parse_cells
from mailsift.storage.local_files import check_room

_ROW_GROUP = 16_384
_MIN_FREE_MAIL = 10  # addresses of a chunk at a domain: fewer make no difference to the time left
_SAMPLES = 20
_COMPRESSION: Final = "lz4"  # half as dear as zstd to write, and to read; half as large again
_JSON: Final = frozenset({"json", "jsonl"})
_FIRST_ROWS = 5  # of an inspection
_ODD_CELLS = 50  # of an inspection
_PLAIN_ADDRESS = r"^\s*[^\s@<>()\[\]\",;:]+@[\w.-]+\.[\w-]{2,}\s*$"
_CELL = 120  # characters of a cell in it
_NAME = 60  # of a column's name


def read_list(source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Do what `take_in` promises, in this process."""
    check_size(source, limits)
    table = _open_table(source, workdir, limits)
    with _as_file_faults(table, workdir):
        table = _named(table) if options.named else below_notes(table)
        size = source.stat().st_size
        intake = _split(table, workdir, options=options, limits=limits, file_bytes=size)
        if (
            options.refuse_harvested
            and intake.addresses >= LEAST
            and (sign := find_harvest(workdir / "addresses.parquet"))
        ):
            raise refusal(sign)
        return intake


def _named(table: SourceTable) -> SourceTable:
    """Return the table without its first record, whose cells are its columns' names."""
    if table.names is not None:
        return table
    first = table.frame.head(1).collect(engine="streaming")
    return replace(table, frame=table.frame.slice(1), names=first.row(0)) if first.height else table


@contextmanager
def _as_file_faults(table: SourceTable, workdir: Path) -> Iterator[None]:
    """Take what goes wrong in polars for the file's fault, unless the disk is full.

    Its messages may quote the file; on a full disk they may say no more than that writing failed.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        check_room(workdir)
        if isinstance(error, pl.exceptions.PanicException) and table.format != "parquet":
            raise  # only there does a foreign parser see the file first
        text = f"The file could not be read as {table.format}."
        raise MailsiftError(f"bad_{table.format}", text) from None


def _open_table(source: Path, workdir: Path, limits: IntakeLimits) -> SourceTable:
    """Find out what the file is and start to read it."""
    head = _head(source)
    match container_of(head):
        case FileContainer.ZIP:
            return _cut(read_xlsx(source, limits), workdir, limits)
        case FileContainer.PARQUET:
            return read_parquet(source, limits)
        case FileContainer.GZIP:
            source, packed = workdir / "unpacked", source
            gunzip(packed, source, limits)
            head = _head(source)
            if container_of(head) is not FileContainer.TEXT:
                raise MailsiftError(
                    "unsupported_format",
                    "Only a text file may be compressed with gzip; send other files as they are.",
                )
        case FileContainer.TEXT:
            pass
    encoding = encoding_of(head)
    if not encoding.startswith("utf-16"):
        source = without_dos_end(source, workdir)
    text = head.decode(encoding, errors="replace")
    check_is_list(text)
    if kind := looks_like_json(text):
        return read_json(source, encoding, workdir, array=kind == "json", limits=limits)
    return read_text(source, encoding, workdir, limits)


def _cut(table: SourceTable, workdir: Path, limits: IntakeLimits) -> SourceTable:
    """Return the table of which a workbook's only column holds the lines, where it does.

    That comes of a CSV file opened in a spreadsheet program that expects another delimiter.
    """
    if len(table.frame.collect_schema()) != 1:
        return table
    lines = workdir / "lines.csv"
    with _as_file_faults(table, workdir):
        cells = table.frame.fill_null("")
        cells.sink_csv(lines, include_header=False, quote_style="always", engine="streaming")
    try:
        found = read_text(lines, "utf-8", workdir, limits)
    except MailsiftError:  # cells that are no lines of a text
        return table
    several = len(found.frame.collect_schema()) > 1
    return replace(found, format=table.format, encoding=table.encoding) if several else table


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _split(
    table: SourceTable, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits, file_bytes: int
) -> Intake:
    """Write the table's distinct addresses and its rows."""
    choice = _chosen(table, options)
    frame = table.frame.slice(1) if choice.header else table.frame
    name = column_id(choice.index)
    cells = cell_text(name, frame.collect_schema()[name]).alias("cell")
    if table.format in _JSON:
        cells = cells.map_batches(joined_texts, return_dtype=pl.String, is_elementwise=True)
    size = limits.batches.rows
    batches = frame.select(cells).collect_batches(chunk_size=size, maintain_order=True, engine="streaming")
    first, second = next(batches, None), next(batches, None)
    if first is None or not first.height:
        raise _no_rows()
    buffer = SpillBuffer(workdir if second is not None else None, memory_rows=limits.batches.kept)
    ahead = DomainsAhead(workdir) if options.look_ahead else None
    book = AddressBook(buffer, max_rows=limits.batches.addresses, file_bytes=file_bytes)
    column = _AddressColumn(book, buffer, options, ahead)
    for batch in chain((first,), () if second is None else (second,), batches):
        column.add(batch["cell"])
        if column.rows > limits.rows:
            raise too_many_rows(limits.rows)
    numbers, addresses = column.book.number()
    distinct = int(numbers.max()) + 1  # type: ignore[arg-type]  # a number, for there are rows
    chunks = _write_addresses(addresses, distinct, workdir, options)
    addresses.clear()
    # The file is read a second time, in a stream: that takes less time than its rows take memory.
    pl.concat([column.judged(numbers), frame], how="horizontal").sink_parquet(
        workdir / "rows.parquet",
        row_group_size=_ROW_GROUP,
        compression=_COMPRESSION,
        statistics=False,
        metadata=names_metadata(choice.names, address_place=choice.index),
        engine="streaming",
    )
    buffer.clear()
    named, rows = choice.names[choice.index], column.rows
    return Intake(rows, distinct, named, table.format, table.encoding, chunks)


def _chosen(table: SourceTable, options: IntakeOptions) -> Choice:
    try:
        choice = choose_column(_sample(table), table.names, options.column, repair=options.repair)
    except MailsiftError as error:
        if error.code != "no_address_column" or table.format != "xlsx":
            raise
        text = f"{error.message} Of a workbook only the first sheet that is shown is read."
        raise MailsiftError(error.code, text) from None
    if column_id(choice.index) in table.uncomputed:
        text = (
            "Addresses of this workbook are formulas, of which it has no results. Open it in a spreadsheet "
            "program, save it there, and send it again."
        )
        raise MailsiftError("bad_xlsx", text)
    return choice


class _AddressColumn:
    """The cells of a list's address column, taken batch by batch.

    Attributes:
        rows: how many there have been.
        book: their addresses.
    """

    def __init__(
        self, book: AddressBook, buffer: SpillBuffer, options: IntakeOptions, ahead: DomainsAhead | None
    ) -> None:
        self._ahead = ahead
        self.rows = 0
        self.book = book
        self._buffer = buffer
        self._repair_of = _repairs(options) if options.repair else None
        self._judged: list[pl.DataFrame | Path] = []

    def add(self, cells: pl.Series) -> None:
        """Take some rows more."""
        ours = []
        if self._repair_of is not None:
            repaired = _repaired(cells, self._repair_of)
            cells = cells.zip_with(repaired == "", repaired)
            ours.append((repaired != "").alias(REPAIRED))
        parsed = parse_cells(cells)
        if self._ahead is not None:
            self._ahead.add(parsed)
        judged = pl.when(pl.col("rule") == "").then("address").otherwise(pl.lit("")).alias(ADDRESS)
        entries = self.book.add(parsed).alias("entry")
        self._judged.append(self._buffer.keep(pl.DataFrame([entries, *parsed.select(judged), *ours])))
        self.rows += len(cells)

    def judged(self, numbers: pl.Series) -> pl.LazyFrame:
        """Return for each row the number of its address, the address, and whether its cell was repaired."""
        number = pl.col("entry").map_batches(numbers.gather, return_dtype=pl.UInt32, is_elementwise=True)
        return SpillBuffer.scan(self._judged).select(number.alias(ADDRESS_N), pl.exclude("entry"))


def _first_rows(table: SourceTable) -> pl.DataFrame:
    """Read the rows by which the address column is found."""
    sample = table.frame.head(SAMPLE_ROWS).collect(engine="streaming")
    if not sample.height:
        raise _no_rows()
    return sample


def _sample(table: SourceTable) -> pl.DataFrame:
    """Return the first rows as their addresses will be read."""
    rows = _first_rows(table)
    return with_texts_of_objects(rows) if table.format in _JSON else rows


def _write_addresses(
    kept: list[pl.DataFrame | Path], count: int, workdir: Path, options: IntakeOptions
) -> tuple[ChunkSlice, ...]:
    """Write so many addresses, a row group for each chunk without its sample, and return the chunks."""
    addresses = scan_addresses(kept)
    size = min(options.chunk_addresses, max(FEWEST_ADDRESSES, -(-count // options.parts)))
    addresses.sink_parquet(
        workdir / "addresses.parquet",
        row_group_size=size,
        compression=_COMPRESSION,
        statistics=False,
        engine="streaming",
    )
    every, sample = _sample_plan(-(-count // size), size) if options.forecast else (1, 0)
    place, within = pl.col("n") // size, pl.col("n") % size
    chunk = place.alias("place"), ((place % every != 0) | (within >= sample)).alias("rest")
    free_mail = _free_mail(addresses.group_by(*chunk, "domain").len()) if options.forecast else {}
    samples, rests = [], []
    for number, first in enumerate(range(0, count, size)):
        end = min(first + size, count)
        cut = first if number % every else min(first + sample, end)
        samples.append((first, cut, free_mail.get((number, False), {})))
        rests.append((cut, end, free_mail.get((number, True), {})))
    return tuple(
        ChunkSlice(first, end - first, found) for first, end, found in (*samples, *rests) if first < end
    )


def _sample_plan(chunks: int, size: int) -> tuple[int, int]:
    """Return from every how manieth of so many chunks of a size a sample is taken, and how large it is.

    A list is looked at in the order of its domains, and the time left is told by what was looked at: samples
    from all over the list, together as large as a chunk, come first.
    """
    every = -(-chunks // _SAMPLES)
    return every, -(-size // -(-chunks // every))


def _free_mail(domains: pl.LazyFrame) -> Mapping[tuple[int, bool], Mapping[str, int]]:
    """Return for each chunk how many of its addresses are at free-mail domains, by provider."""
    found: Mapping[tuple[int, bool], dict[str, int]] = defaultdict(dict)
    many = domains.filter(pl.col("len") >= _MIN_FREE_MAIL).collect(engine="streaming")
    for place, rest, domain, addresses in many.iter_rows():
        if provider := provider_by_name(domain):
            counted = found[place, rest]
            counted[provider] = counted.get(provider, 0) + addresses
    return found


def _repairs(options: IntakeOptions) -> Callable[[str], str]:
    """Return the function that finds the address a cell clearly means."""
    from mailsift.pipeline.lists import Lists  # noqa: PLC0415 - nobody else here needs them, and they take time

    return Lists.load(Path(options.overrides) if options.overrides else None).repaired


def _repaired(texts: pl.Series, repair_of: Callable[[str], str]) -> pl.Series:
    """Return the addresses that cells clearly mean which are none, "" for all other cells.

    Each distinct cell that is no plain address is looked at, some 50 µs each.
    """
    cells = texts.fill_null("").alias("cell").to_frame()
    unusual = cells.filter(~is_plain(pl.col("cell").str.strip_chars(UNSEEN)))["cell"].unique()
    table = pl.DataFrame(
        [(cell, repair_of(cell)) for cell in unusual],
        schema={"cell": pl.String, "meant": pl.String},
        orient="row",
    )
    found = cells.join(table, on="cell", how="left", maintain_order="left")
    return found["meant"].fill_null("")


def _no_rows() -> MailsiftError:
    return MailsiftError("empty_file", "The file has no rows.")


def count_domains(
    source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits, most: int, sample: int
) -> dict[str, Any]:
    """Return what `mailsift.jobs.plans.DomainCounts` holds, as JSON types.

    Of the domains the `most` largest are named, and of the addresses a `sample` from all over the list.

    Raises:
        MailsiftError: see `take_in`.
    """
    read_list(source, workdir, options=options, limits=limits)
    addresses = pl.scan_parquet(workdir / "addresses.parquet", glob=False)
    good = addresses.filter(pl.col("rule") == "")
    counts = good.group_by("domain").len().collect()
    every = max(1, -(-int(counts["len"].sum()) // sample))
    largest = counts.sort(["len", "domain"], descending=[True, False]).head(most)
    return {
        "addresses": int(addresses.select(pl.len()).collect().item()),
        "domains": dict(largest.iter_rows()),
        "others": int(counts["len"].sum()) - int(largest["len"].sum()),
        "other_domains": counts.height - largest.height,
        "sample": good.select(pl.col("address").gather_every(every)).collect()["address"].to_list(),
        "harvested": find_harvest(workdir / "addresses.parquet"),
    }


def inspect_list(source: Path, workdir: Path, limits: IntakeLimits) -> dict[str, Any]:
    """Return what `mailsift.jobs.drafts.Inspection` holds, as JSON types.

    Raises:
        MailsiftError: as `mailsift.jobs.intake.process.take_in`; one without an address column is no error.
    """
    check_size(source, limits)
    table = _open_table(source, workdir, limits)
    with _as_file_faults(table, workdir):
        table = below_notes(table)
        sample = _first_rows(table)
        rows = int(table.frame.select(pl.len()).collect(engine="streaming").item())
    choice, guess, meant = _choice(_sample(table), table.names)
    rows -= choice.header
    if rows > limits.rows:
        raise too_many_rows(limits.rows)
    if not rows:
        raise MailsiftError("empty_file", "The file has no rows below its header.")
    data = sample.slice(int(choice.header))
    texts = as_texts(data)
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
                choice.names, _column_keys(sample, table.names, choice), address_shares(texts), strict=True
            )
        ],
        "guess": guess,
        "odd": [] if meant is None else _unusual_cells(texts.to_series(meant)),
        "first": [list(row) for row in cells.iter_rows()],
    }


def _unusual_cells(texts: pl.Series) -> list[str]:
    """Return the first filled cells that are more, or less, than a plain address."""
    unusual = texts.filter(texts.str.contains(r"\S") & ~texts.str.contains(_PLAIN_ADDRESS))
    return unusual.str.slice(0, _CELL).unique(maintain_order=True).head(_ODD_CELLS).to_list()


def _choice(sample: pl.DataFrame, names: Sequence[str] | None) -> tuple[Choice, int | None, int | None]:
    """Find the address column, and the one whose cells mean addresses; without one, the first stands in."""
    with SuppressCodes("no_address_column"):
        choice = choose_column(sample, names, "")
        return choice, choice.index, choice.index
    with SuppressCodes("no_address_column"):
        return choose_column(sample, names, "1"), None, choose_column(sample, names, "", repair=True).index
    return choose_column(sample, names, "1"), None, None


def _column_keys(sample: pl.DataFrame, names: Sequence[str] | None, choice: Choice) -> Iterator[str]:
    """Yield for each column what to ask intake for to get it, "" where nothing would.

    Intake takes a name or a number, and a name wins: a column's number may be the name of another one.
    """
    first = sample.head(1)
    for index, name in enumerate(choice.names):
        cell = "" if names is not None else (first.item(0, index) or "").strip()
        tried = (
            text for text in (name, cell, str(index + 1)) if text and _selects(first, names, text, index)
        )
        yield next(tried, "")


def _selects(first: pl.DataFrame, names: Sequence[str] | None, key: str, index: int) -> bool:
    try:
        return choose_column(first, names, key).index == index
    except MailsiftError:
        return False
