"""An installation in full swing for tests of the operator console: rows in PostgreSQL, keys in Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import text

from mailsift.pipeline.providers import Providers
from mailsift.pipeline.throttle import Ask, LedgerCounts, LedgerKind, Report, SessionOutcome
from mailsift.settings import Settings
from mailsift.storage.redis.connection import BROKER_PREFIX
from mailsift.storage.redis.throttle import RedisThrottle
from mailsift.storage.sql import throttles
from tests.support.parts import open_redis, transaction

_ACCOUNTS = """
    INSERT INTO account (id, name)
    SELECT gen_random_uuid(), (ARRAY['acme', 'globex', 'initech', 'umbrella'])[n] FROM generate_series(1, 4) n
    ON CONFLICT DO NOTHING
"""

# Newest first: some run, some wait, most have ended.
_JOBS = """
    INSERT INTO job (id, account_id, name, state, options, source_name, source_bytes, total, addresses,
        processed, valid, invalid, risky, chunks, chunks_open, created_at, started_at, finished_at,
        error_code, error_detail)
    SELECT gen_random_uuid(), (SELECT id FROM account ORDER BY name OFFSET n % 4 LIMIT 1),
        'newsletter ' || n, state, jsonb_build_object('mode', 'deep', 'priority', 'normal'),
        'subscribers-' || n || '.csv', 1000 * n, 20000, 19000, done, done - done / 5 - done / 10, done / 5,
        done / 10, CASE WHEN state IN ('uploading', 'intake') THEN 0 ELSE :chunks END,
        CASE WHEN state IN ('queued', 'running', 'paused') THEN :chunks ELSE 0 END,
        clock_timestamp() - n * interval '9 minutes',
        CASE WHEN state NOT IN ('uploading', 'intake', 'queued')
            THEN clock_timestamp() - n * interval '8 minutes' END,
        CASE WHEN state IN ('completed', 'failed', 'cancelled')
            THEN clock_timestamp() - n * interval '5 minutes' END,
        CASE WHEN state = 'failed' THEN 'no_address_column' ELSE '' END,
        CASE WHEN state = 'failed' THEN 'No column of this list holds addresses.' ELSE '' END
    FROM (
        SELECT n, state, CASE WHEN state IN ('uploading', 'intake', 'queued') THEN 0
            WHEN state IN ('running', 'paused') THEN 1000 * (n % 17 + 1) ELSE 20000 END AS done
        FROM (SELECT n, CASE WHEN n % 50 = 3 THEN 'failed' WHEN n % 40 = 5 THEN 'cancelled'
            WHEN n = 2 THEN 'intake' WHEN n = 4 THEN 'paused' WHEN n <= :running THEN 'running'
            WHEN n <= :running + 4 THEN 'queued'
            ELSE 'completed' END AS state FROM generate_series(1, :jobs) n) named) staged
"""

_CHUNKS = """
    INSERT INTO chunk (job_id, n, state, lane, waits_for, ready_at, attempt, addresses, source_key,
        lease_token, lease_owner, leased_at, lease_until, last_error)
    SELECT j.id, n, CASE WHEN j.state IN ('completed', 'cancelled', 'failed') THEN 'done'
            WHEN n % 20 = 7 AND j.state = 'running' THEN 'leased' ELSE 'ready' END,
        (ARRAY['google', 'microsoft365', 'yahoo', '*', '', '~', 'mx.example.net'])[n % 7 + 1],
        CASE WHEN n % 20 = 7 THEN '' WHEN n % 7 IN (0, 1) THEN 'throttled' WHEN n % 7 = 2 THEN 'greylisted'
            ELSE '' END,
        clock_timestamp() + (CASE WHEN n % 7 < 3 THEN 3 * n ELSE -9 END) * interval '1 s',
        CASE WHEN n % 97 = 9 THEN 5 ELSE 1 END, 900, 'blob',
        lease, CASE WHEN lease IS NOT NULL THEN 'worker-' || h % 3 || '/4' || h % 3 || '/aa' END,
        CASE WHEN lease IS NOT NULL THEN clock_timestamp() - h % 300 * interval '1 s' END,
        CASE WHEN lease IS NOT NULL THEN clock_timestamp() + (h % 70 - 10) * interval '1 s' END,
        CASE WHEN n % 97 = 9 THEN 'builtins.MemoryError' ELSE '' END
    FROM (SELECT id, state, abs(hashtext(id::text)) AS h FROM job WHERE chunks > 0) j
    CROSS JOIN generate_series(0, :chunks - 1) n
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n % 20 = 7 AND j.state = 'running' THEN gen_random_uuid() END AS lease) l
"""

_WORKERS = """
    INSERT INTO worker (owner, crew, host, pid, version, slots, in_hand, lag_s, rss_bytes, beat_s, started_at,
        beat_at, claimed_at, swept_at, drain_since)
    SELECT 'worker-' || n % 3 || '/4' || n || '/aa', 'crew' || n % 3, 'worker-' || n % 3, 40 + n, '0.1.0', 7,
        n % 7, 0.004 * n, 180000000 + n * 9000000, 300, clock_timestamp() - interval '3 days',
        clock_timestamp() - CASE WHEN n = 8 THEN interval '40 minutes' ELSE n * interval '1 s' END,
        clock_timestamp() - n * interval '1 s', clock_timestamp() - interval '3 s',
        CASE WHEN n % 3 = 1 THEN clock_timestamp() - interval '2 minutes' END
    FROM generate_series(0, :workers - 1) n
"""

_MINUTES = """
    INSERT INTO throughput (minute, shard, chunks, addresses, valid, invalid, risky, leases_expired)
    SELECT m, s, 6, 4000 + (2500 * sin(extract(epoch FROM m) / 600 + s))::int, 3000, 700, 400, 0
    FROM generate_series(date_trunc('minute', clock_timestamp()) - interval '70 minutes',
        date_trunc('minute', clock_timestamp()), interval '1 minute') m CROSS JOIN generate_series(0, 3) s
"""

_ENDPOINTS = """
    INSERT INTO endpoint (id, account_id, url, secret, failures, failing_since, enabled, disabled_reason)
    SELECT gen_random_uuid(), a.id, 'https' || chr(58) || '//' || a.name || '.example/hooks', '\\x00',
        CASE WHEN a.name = 'globex' THEN 4 ELSE 0 END,
        CASE WHEN a.name = 'globex' THEN clock_timestamp() - interval '2 hours' END,
        a.name <> 'umbrella', CASE WHEN a.name = 'umbrella' THEN 'gone' ELSE '' END
    FROM account a WHERE a.name IN ('acme', 'globex', 'umbrella')
"""

_DELIVERIES = """
    WITH sent AS (
        INSERT INTO event (id, account_id, job_id, type, body, created_at)
        SELECT gen_random_uuid(), j.account_id, j.id, 'bulk.validation.completed', '\\x7b7d', j.finished_at
        FROM (SELECT * FROM job WHERE state = 'completed' ORDER BY created_at DESC LIMIT 60) j
        RETURNING id, account_id, created_at),
    placed AS (SELECT *, row_number() OVER (PARTITION BY account_id ORDER BY id) AS place FROM sent)
    INSERT INTO delivery (event_id, endpoint_id, state, attempts, next_attempt_at, created_at, finished_at)
    SELECT t.id, e.id, state, 3, clock_timestamp() + interval '90 seconds', t.created_at,
        CASE WHEN state <> 'pending' THEN t.created_at + interval '2 s' END
    FROM placed t JOIN endpoint e ON e.account_id = t.account_id CROSS JOIN LATERAL (
        SELECT CASE WHEN NOT e.enabled THEN 'skipped' WHEN e.failures = 0 THEN 'succeeded'
            WHEN t.place % 2 = 0 THEN 'exhausted' ELSE 'pending' END AS state) s
"""

_SCHEDULES = """
    INSERT INTO schedule (id, account_id, source_job_id, name, cron, zone, options, recheck, overlap,
        catch_up, next_run_at, last_run_at, last_error)
    SELECT gen_random_uuid(), a.id, NULL, a.name || ' every morning', '0 6 * * *', 'Europe/Berlin',
        '{"mode": "deep"}', 'all', 'skip', 'latest',
        clock_timestamp() + CASE a.name WHEN 'acme' THEN interval '-7 minutes' ELSE interval '5 hours' END,
        clock_timestamp() - interval '19 hours', CASE a.name WHEN 'globex' THEN 'missed' ELSE '' END
    FROM account a WHERE a.name IN ('acme', 'globex', 'initech')
"""

_FILL = (_ACCOUNTS, _JOBS, _CHUNKS, _WORKERS, _MINUTES, _ENDPOINTS, _DELIVERIES, _SCHEDULES)


async def fill(
    settings: Settings, *, jobs: int = 60, chunks: int = 20, running: int = 12, workers: int = 9
) -> None:
    """Fill the database: so many jobs of so many chunks, the newest of them running."""
    values = {"jobs": jobs, "chunks": chunks, "running": running, "workers": workers}
    async with transaction(settings) as connection:
        for statement in _FILL:
            names = {name: value for name, value in values.items() if f":{name}" in statement}
            await connection.execute(text(statement), names)
        await connection.execute(text("ANALYZE"))


async def sql(settings: Settings, statement: str, **values: object) -> list[dict[str, Any]]:
    """Run one statement on the installation's database."""
    async with transaction(settings) as connection:
        found = await connection.execute(text(statement), values)
        return [dict(row) for row in found.mappings()] if found.returns_rows else []


async def report_sessions(settings: Settings, outcomes: Mapping[str, Iterable[SessionOutcome]]) -> None:
    """Let the throttle hear of sessions with these providers."""
    async with open_redis(settings) as client:
        throttle = RedisThrottle(client, row=Providers().row)
        for provider, each in outcomes.items():
            ask = Ask(provider, "", "192.0.2.1", 1)
            for outcome in each:
                await throttle.report([Report(ask, "nobody's", outcome)])


async def strand_messages(settings: Settings, *, queued: int, unacked: int) -> None:
    """Put wake-ups into the broker as kombu keeps them: some in the queue, some handed out."""
    async with open_redis(settings) as client:
        for number in range(queued):
            await client.lpush(f"{BROKER_PREFIX}mailsift", f"message {number}")
        for number in range(unacked):
            await client.hset(f"{BROKER_PREFIX}unacked", f"tag {number}", "message")
            await client.zadd(f"{BROKER_PREFIX}unacked_index", {f"tag {number}": 1_700_000_000 + number})


async def write_ledger(settings: Settings) -> None:
    """Let a source have asked Google and a host of its own."""
    counts = LedgerCounts(
        {LedgerKind.PROBES: 110, LedgerKind.RANDOM: 10, LedgerKind.UNKNOWN: 30, LedgerKind.REPUTATION: 1}
    )
    async with transaction(settings) as connection:
        await throttles.write_ledger(
            connection, {("google", "192.0.2.1"): counts, (throttles.OTHERS_IN_LEDGER, ""): counts}
        )
