"""A result download (CSV, all columns) beside SQLAlchemy rows to CSV: rows/s and the first byte.

Both send the same rows from one process to one client. Ours streams them from the Parquet file a finished job
leaves, every text made safe for spreadsheets; the other one reads them from a PostgreSQL table.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import io
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import polars as pl
import psycopg
from sqlalchemy import func, update

from benchmarks.rows_to_csv import TABLE
from benchmarks.served import Served, installed, served, settings_of
from benchmarks.single_validate import make_key
from benchmarks.syntax import realistic
from mailsift.jobs.columns import ADDRESS_N, column_id, names_metadata
from mailsift.jobs.results.files import join_results
from mailsift.jobs.views import JobOptions, dump_options
from mailsift.pipeline.frames import SEGMENT
from mailsift.storage.blobs import JobBlobs
from mailsift.storage.sql import accounts, jobs
from mailsift.storage.sql.tables import job
from mailsift.storage.states import JobState
from tests.support.parts import open_blobs, transaction

NAMES = ("first_name", "last_name", "email", "company", "city", "signed_up")
_READ = 1 << 18
_REASONS = (
    "Every check that was asked for passed.",
    "The domain does not exist.",
    "The server was not reached.",
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """One download: seconds until the first byte of the body and until the last, rows, bytes."""

    first: float
    seconds: float
    rows: int
    size: int


def customers_rows(rows: int) -> pl.DataFrame:
    """Return what a customer's file holds, and the number of each row's address."""
    pick = random.Random(1)
    words = [f"{pick.choice('ABCDEFGH')}{pick.randrange(10**6)}" for _ in range(5_000)]
    cells = {name: realistic(rows) if name == "email" else pick.choices(words, k=rows) for name in NAMES}
    frame = pl.DataFrame({column_id(place): cells[name] for place, name in enumerate(NAMES)})
    return frame.with_columns(pl.int_range(rows, dtype=pl.UInt32).alias(ADDRESS_N))


def verdicts(rows: int) -> pl.DataFrame:
    """Return a verdict for each address, as chunks write them."""
    pick = random.Random(2)
    kinds = pick.choices([("valid", 0), ("invalid", 1), ("risky", 2)], weights=(80, 12, 8), k=rows)
    frame = pl.DataFrame(
        {
            "n": pl.int_range(rows, dtype=pl.UInt32, eager=True),
            "status": [status for status, _ in kinds],
            "reason": [_REASONS[place] for _, place in kinds],
            "result": ["passed" if status == "valid" else "unreachable" for status, _ in kinds],
            "score": [60 + place for _, place in kinds],
        }
    )
    missing = [name for name in SEGMENT if name not in frame.columns]
    blank = [pl.lit("" if SEGMENT[name] == pl.String else 0).alias(name) for name in missing]
    return frame.with_columns(blank).select(list(SEGMENT)).cast(pl.Schema(SEGMENT))


def results_file(folder: Path, rows: int) -> Path:
    """Write what a finished job leaves, by the product's own hand."""
    customers, segment, out = folder / "rows.parquet", folder / "segment.parquet", folder / "results.parquet"
    customers_rows(rows).write_parquet(customers, metadata=names_metadata(list(NAMES)))
    verdicts(rows).write_parquet(segment)
    join_results(customers, [segment], out)
    return out


async def finished_job(environment: Mapping[str, str], results: Path) -> UUID:
    """Make a completed job of the results."""
    settings, job_id = settings_of(environment), uuid4()
    await open_blobs(settings).put_file(JobBlobs(job_id).results, results)
    async with transaction(settings) as connection:
        account = await accounts.ensure_account(connection, "benchmark")
        new = jobs.NewJob(job_id, account, "list.csv", dump_options(JobOptions()), "list.csv", "", 0)
        await jobs.insert(connection, new)
        await connection.execute(
            update(job)
            .where(job.c.id == job_id)
            .values(state=JobState.COMPLETED, finished_at=func.clock_timestamp())
        )
    return job_id


def fill_table(database_url: str, results: Path) -> None:
    """Put the same rows into a table, as one would have them without files."""
    frame = pl.read_parquet(results)
    frame = frame.rename(dict(zip(frame.columns, (*NAMES, *frame.columns[len(NAMES) :]), strict=True)))
    kinds = {pl.String: "text", pl.Boolean: "boolean"}
    columns = ", ".join(f"{name} {kinds.get(type(kind), 'integer')}" for name, kind in frame.schema.items())
    text = io.BytesIO()
    frame.write_csv(text, include_header=False, quote_style="non_numeric")
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (n bigserial PRIMARY KEY, {columns})".encode())
        names = ", ".join(frame.columns)
        with connection.cursor().copy(f"COPY {TABLE} ({names}) FROM STDIN (FORMAT csv)".encode()) as copy:
            copy.write(text.getvalue())
        connection.execute(f"ANALYZE {TABLE}".encode())


def fetch(server: Served, path: str, headers: Mapping[str, str]) -> Fetched:
    """Download once.

    Raises:
        RuntimeError: the answer was not 200.
    """
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=300)
    started = time.perf_counter()
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}")
    piece, lines, size = answer.read1(_READ), 0, 0
    first = time.perf_counter() - started
    while piece:
        lines, size = lines + piece.count(b"\n"), size + len(piece)
        piece = answer.read1(_READ)
    seconds = time.perf_counter() - started
    connection.close()
    return Fetched(first, seconds, lines - 1, size)


def best(server: Served, path: str, headers: Mapping[str, str], rounds: int) -> Fetched:
    """Return the fastest download, with the first byte of the fastest one."""
    runs = [fetch(server, path, headers) for _ in range(rounds)]
    fastest = min(runs, key=lambda run: run.seconds)
    return Fetched(min(run.first for run in runs), fastest.seconds, fastest.rows, fastest.size)


def main() -> None:
    """Print both and their ratio."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    with installed() as environment, tempfile.TemporaryDirectory(prefix="ms-bench-") as folder:
        results = results_file(Path(folder), chosen.rows)
        job_id = asyncio.run(finished_job(environment, results))
        fill_table(environment["MAILSIFT_DATABASE_URL"], results)
        key = {"Authorization": f"Bearer {make_key(environment)}"}
        path = f"/v1/bulk/jobs/{job_id}/results"
        with served("mailsift", "api", environment=environment) as server:
            fetch(server, f"{path}?columns=score", key)  # the first download of a process loads polars
            ours = best(server, path, key, chosen.rounds)
        with served("benchmarks.rows_to_csv", environment=environment) as server:
            peer = best(server, "/results", {}, max(1, chosen.rounds - 1))
    for name, one in (("mailsift", ours), ("SQLAlchemy", peer)):
        print(
            f"{name:<12}{one.rows / one.seconds:10,.0f} rows/s, first byte after {1000 * one.first:.0f} ms"
            f"  ({one.rows:,} rows, {one.size / 2**20:.0f} MiB, {one.seconds:.2f} s)"
        )
    print(f"ratio       {peer.seconds / ours.seconds:10.1f} x (goal: 5 x; first byte: 100 ms or less)")
    sys.exit(0 if ours.rows == peer.rows == chosen.rows else "the rows differ")


if __name__ == "__main__":
    main()
