"""How the server goes about a claim: what grows with finished work is never read whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from mailsift.storage.database import Database
from mailsift.storage.sql import chunks, jobs

_FILL = (
    "INSERT INTO account (id, name) SELECT gen_random_uuid(), 'a' || n FROM generate_series(1, 10) n",
    """
    INSERT INTO job (id, account_id, state, options, source_bytes, total, addresses, chunks, chunks_open,
                     small, vtime, finished_at)
    SELECT gen_random_uuid(), a.id, CASE WHEN n > 40 THEN 'completed' ELSE 'running' END, '{}', 1, 5, 5, 5, 5,
           n % 3 = 0, n, CASE WHEN n > 40 THEN clock_timestamp() END
    FROM generate_series(1, 2000) n JOIN account a ON a.name = 'a' || (1 + n % 10)
    """,
    """
    INSERT INTO chunk (job_id, n, state, lane, addresses, source_key)
    SELECT j.id, n, CASE j.state WHEN 'running' THEN 'ready' ELSE 'done' END,
           (ARRAY['', '*', 'google', 'yahoo', '~'])[n], 1, 'blob'
    FROM job j, generate_series(1, 5) n
    """,
    """
    INSERT INTO job (id, account_id, state, options, source_bytes)
    SELECT gen_random_uuid(), id, 'uploading', '{}', 60 FROM account
    """,
    "ANALYZE",
)
_CLAIM: dict[str, object] = {
    **chunks.lease_values(chunks.LeaseTerms("me", 60.0, ["192.0.2.1", "2001:db8::1"])),
    "job_cap": chunks.JOB_CAP,
    "small_only": False,
    "triage": True,
    "shared_here": [],
}
_STEP: dict[str, object] = {
    **jobs.STEP_TERMS,
    **dict.fromkeys(("in_turn", "finishing", "reading", "transferring"), True),
    "owner": "me",
    "lease": 60.0,
    "small_only": False,
    "transferring_for": [],
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


async def test_a_claim_reads_chunks_and_jobs_by_their_indexes_only(database_url: str) -> None:
    database = Database(database_url)
    values = {**_CLAIM, "shared_here": ["google"]}
    async with database.begin() as connection:
        for statement in _FILL:
            await connection.execute(text(statement))
        asked = text(f"EXPLAIN (FORMAT JSON) {chunks.CLAIM.text}")
        (found,) = (await connection.execute(asked, values)).scalar_one()
    await database.aclose()
    read = [node for node in nodes(found["Plan"]) if node.get("Relation Name") in {"chunk", "job"}]
    assert {node["Relation Name"] for node in read} == {"chunk", "job"}
    whole = [node for node in read if node["Node Type"] == "Seq Scan"]
    assert whole == [], json.dumps(whole, indent=1)


@pytest.mark.parametrize(
    ("lane", "waits"),
    [("", "clock_timestamp()"), ("gmx", "clock_timestamp()"), ("gmx", "'infinity'")],
    ids=["ready", "in line", "deferred"],
)
@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (chunks.CLAIM, _CLAIM),
        (jobs.CLAIM_STEP, _STEP),
        (chunks._NEXT_READY, {"sources": [""]}),  # noqa: SLF001 - what it costs is meant
    ],
    ids=["chunk", "step", "when"],
)
async def test_of_a_long_list_only_the_chunks_that_may_be_next_are_looked_at(
    database_url: str, lane: str, waits: str, statement: Any, values: dict[str, object]
) -> None:
    database = Database(database_url)
    async with database.begin() as connection:
        for fill in _FILL[:-1]:
            await connection.execute(text(fill))
        long = f"""
            INSERT INTO chunk (job_id, n, state, lane, addresses, source_key)
            SELECT (SELECT id FROM job WHERE state = 'running' AND account_id = a.id ORDER BY vtime LIMIT 1),
                n, 'ready', '{lane}', 1, 'blob'
            FROM account a, generate_series(6, 805) n
        """  # noqa: S608 - of this test
        for change in (long, f"UPDATE chunk SET ready_at = {waits}", "ANALYZE"):  # noqa: S608 - of this test
            await connection.execute(text(change))
        asked = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}")
        (found,) = (await connection.execute(asked, values)).scalar_one()
    await database.aclose()
    read = [node for node in nodes(found["Plan"]) if node.get("Relation Name") == "chunk"]
    rows = [
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) for node in read
    ]
    assert sum(rows) < 500, json.dumps(read, indent=1)  # of 8,000
