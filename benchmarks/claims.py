"""What a claim costs PostgreSQL: 1,000 active jobs, 10,000 finished ones, 200 leased chunks.

Prints the median execution time of the statements that claim, as EXPLAIN ANALYZE gives it (one backend, no
waiting: what it takes is processor time), and with --plan the plan of the slowest.

    python -m benchmarks.claims [--active N] [--finished N] [--leased N] [--plan]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import text

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.storage.database import Connection, Database
from mailsift.storage.schema import migrate
from mailsift.storage.sql import chunks, jobs

RUNS = 31
ACCOUNTS = 100

_FILL = (
    """
    INSERT INTO account (id, name, vtime)
    SELECT gen_random_uuid(), 'a' || n, n * 1000 FROM generate_series(1, :accounts) n
    """,
    """
    INSERT INTO job (id, account_id, state, options, source_bytes, total, addresses, chunks, chunks_open,
                     small, vtime, finished_at)
    SELECT gen_random_uuid(), a.id, CASE WHEN n > :active THEN 'completed' ELSE 'running' END, '{}', 100000,
           100000, 100000, 5, 5, n % 3 = 0, n * 1000, CASE WHEN n > :active THEN clock_timestamp() END
    FROM generate_series(1, :active + :finished) n JOIN account a ON a.name = 'a' || (1 + n % :accounts)
    """,
    # Every active job has chunks; those of a third are all deferred.
    """
    INSERT INTO chunk (job_id, n, state, lane, addresses, source_key, ready_at)
    SELECT j.id, n, CASE j.state WHEN 'running' THEN 'ready' ELSE 'done' END,
           (ARRAY['', '*', 'google', 'yahoo', '~'])[n], 1000, 'blob',
           clock_timestamp() + CASE WHEN j.small THEN interval '1 hour' ELSE interval '-1 second' END
    FROM job j, generate_series(1, 5) n
    """,
    """
    UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(),
        lease_until = clock_timestamp() + interval '1 hour'
    WHERE (job_id, n) IN (SELECT job_id, n FROM chunk WHERE state = 'ready' AND n <= 2
                          ORDER BY job_id, n LIMIT :leased)
    """,
    """
    INSERT INTO job (id, account_id, state, options, source_bytes)
    SELECT gen_random_uuid(), id, 'uploading', '{}', 60 FROM account
    """,
    "ANALYZE",
)

_STEP = {
    **jobs.STEP_TERMS,
    "owner": "me",
    "lease": 60.0,
    "small_only": False,
    "reading": True,
    "transferring": True,
    "finishing": True,
    "transferring_for": [],
}
_CLAIM = {
    **chunks.lease_values(chunks.LeaseTerms("me", 60.0, ["192.0.2.1"])),
    "job_cap": chunks.JOB_CAP,
    "small_only": False,
    "triage": True,
    "shared_here": [],
}
# All that is ready waits for two providers, where every account had turns.
_ALL_IN_LINE = (
    "UPDATE chunk SET ready_at = 'infinity' WHERE state = 'ready' AND lane NOT IN ('google', 'yahoo')",
    """
    INSERT INTO provider_turn (lane, account_id, starts, ends)
    SELECT lane, id, vtime, vtime + 500 FROM account, unnest(ARRAY['google', 'yahoo']) lane
    """,
)
_STATEMENTS: dict[str, tuple[Any, dict[str, object], tuple[str, ...]]] = {
    "a chunk": (chunks.CLAIM, _CLAIM, ()),
    "a turn": (chunks.CLAIM, _CLAIM, _ALL_IN_LINE),
    "a step in turn": (jobs.CLAIM_STEP, {**_STEP, "in_turn": True}, ()),
    "a step": (jobs.CLAIM_STEP, {**_STEP, "in_turn": False}, ()),
}


async def fill(connection: Connection, options: argparse.Namespace) -> None:
    """Build the state that is claimed from."""
    values = {**vars(options), "accounts": ACCOUNTS}
    for statement in _FILL:
        named = {name: value for name, value in values.items() if f":{name}" in statement}
        await connection.execute(text(statement), named)


async def explain(connection: Connection, statement: Any, values: dict[str, object]) -> dict[str, Any]:
    """Run the statement, undo it, and return what PostgreSQL says of the run."""
    asked = text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}")
    async with connection.begin_nested() as point:
        (found,) = (await connection.execute(asked, values)).scalar_one()
        await point.rollback()
    return dict(found)


async def main(url: str, options: argparse.Namespace) -> None:
    """Fill the database, claim, and print the medians."""
    database = Database(url)
    async with database.begin() as connection:
        await fill(connection, options)
    for name, (statement, values, before) in _STATEMENTS.items():
        async with database.begin() as connection, connection.begin_nested() as point:
            for change in before:
                await connection.execute(text(change))
            runs = [await explain(connection, statement, values) for _ in range(RUNS)]
            await point.rollback()
        took = statistics.median(run["Execution Time"] for run in runs)
        planned = statistics.median(run["Planning Time"] for run in runs)
        print(f"claim {name:<16}{took:>8.2f} ms, planned in {planned:.2f} ms", flush=True)
        if options.plan:
            print(json.dumps(runs[-1]["Plan"], indent=1))
    await database.aclose()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--active", type=int, default=1_000)
    parser.add_argument("--finished", type=int, default=10_000)
    parser.add_argument("--leased", type=int, default=200)
    parser.add_argument("--plan", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="ms-") as home,
        EmbeddedServers(Path(home), valkey=False) as servers,
    ):
        migrate(servers.database_url)
        asyncio.run(main(servers.database_url, _options()))
