"""What an intake is asked for, may use and gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LIST_FAULTS: Final = (
    "bad_csv",
    "bad_encoding",
    "bad_gzip",
    "bad_json",
    "bad_parquet",
    "bad_xlsx",
    "binary_file",
    "column_not_found",
    "compression_bomb",
    "empty_file",
    "file_too_large",
    "line_too_long",
    "looks_harvested",
    "no_address_column",
    "too_many_columns",
    "too_many_rows",
    "unclosed_quote",
    "unsupported_format",
)
"""Codes of jobs that failed because of their list: it would fail again. All others are ours."""

FEWEST_ADDRESSES: Final = 5_000
"""A list is not cut into smaller chunks only to have more of them."""


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """What the customer asked for.

    Attributes:
        column: name of the address column or its number, counted from 1; "" to find it.
        chunk_addresses: distinct addresses in one chunk, at most.
        parts: chunks a list is cut into at least, unless they would hold fewer than FEWEST_ADDRESSES.
        repair: judge the address that a cell clearly means which is none.
        overrides: the operator's lists (mailsift.pipeline.overrides), "" for none; repair minds them.
        refuse_harvested: refuse a list whose addresses at a domain look made up.
        forecast: prepare for telling the time left early: begin with samples from all over the list, and
            count the addresses at free-mail domains in every chunk.
        named: the first record names the columns, whatever it looks like: a database's does.
        look_ahead: write down the domains as they come (mailsift.jobs.intake.ahead).
    """

    column: str = ""
    chunk_addresses: int = 5_000
    parts: int = 1
    repair: bool = False
    overrides: str = ""
    refuse_harvested: bool = False
    forecast: bool = False
    named: bool = False
    look_ahead: bool = False


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """How much of a list is in memory together while it is read.

    Attributes:
        rows: parsed together.
        addresses: sorted together. Twice as many would spare a list of a million with gmail.com's 300,000 a
            second parting (0.1 of 3 s), and take some 10 MiB more at the peak: there are none to spare.
        kept: rows that are not put on disk between two steps.
        json_items: elements of JSON that are Python's objects.
        json_text: characters of a JSON array.
    """

    rows: int = 125_000
    addresses: int = 200_000
    kept: int = 125_000
    json_items: int = 20_000
    json_text: int = 1 << 20


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """How big a list may be and what reading it may cost.

    Attributes:
        bytes: size of the file, and of what it decompresses to.
        rows: rows of the list.
        columns: columns of the list.
        line_bytes: one line, one quoted cell or one JSON element.
        memory_bytes: address space of the reading process (about three times what it really fills).
        seconds: time to read the file.
        still_seconds: how long the reading process may take next to nothing of a processor.
        threads: processor cores to use.
        batches: how much of it is read at a time.
    """

    bytes: int = 2**30
    rows: int = 10_000_000
    columns: int = 200
    line_bytes: int = 65_536
    memory_bytes: int = 8 * 2**30
    seconds: float = 600.0
    still_seconds: float = 30.0
    threads: int = 2
    batches: BatchSizes = BatchSizes()


@dataclass(frozen=True, slots=True)
class ChunkSlice:
    """One chunk of the addresses: numbers `offset` to `offset + addresses`.

    Attributes:
        free_mail: addresses at free-mail domains, by provider; {} without IntakeOptions.forecast.
    """

    offset: int
    addresses: int
    free_mail: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intake:
    """What was found in the file.

    Attributes:
        rows: rows of the list; blank lines do not count, rows with a blank address do.
        addresses: distinct addresses among them.
        column: the address column's name.
        format: csv, txt, jsonl, json, xlsx or parquet.
        encoding: of a text file as Python names it, else "".
        chunks: slices of the addresses, in the order in which they are looked at, none empty.
    """

    rows: int
    addresses: int
    column: str
    format: str
    encoding: str
    chunks: tuple[ChunkSlice, ...]

    @property
    def duplicates(self) -> int:
        """Rows whose address an earlier row has, too."""
        return self.rows - self.addresses
