"""How the server goes about a claim: what grows with finished work is never read whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import text

from mailsift.storage.database import Database
from mailsift.storage.sql import chunks

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
    "ANALYZE",
)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


async def test_a_claim_reads_chunks_and_jobs_by_their_indexes_only(database_url: str) -> None:
    database = Database(database_url)
    values = {
        **chunks.lease_values(chunks.LeaseTerms("me", 60.0, ["192.0.2.1", "2001:db8::1"])),
        "job_cap": chunks.JOB_CAP,
        "small_only": False,
        "triage": True,
        "shared_here": ["google"],
    }
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
