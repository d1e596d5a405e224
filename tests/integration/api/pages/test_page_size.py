"""Pages with many things on them stay small; how long they take is for benchmarks/pages.py."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.support.sessions import signed_in

MANY = {
    "/keys": "INSERT INTO api_key (id, account_id, name, hash, pepper_id, hint, scopes)"
    " SELECT gen_random_uuid(), a.id, 'key ' || n, decode(md5(n::text), 'hex'), '1', 'x', '{jobs:read}'"
    " FROM account a, generate_series(1, 100) n",
    "/schedules": "INSERT INTO schedule (id, account_id, cron, zone, options, recheck, overlap, catch_up,"
    " next_run_at, name) SELECT gen_random_uuid(), a.id, '*/15 9-17 * * 1-5', 'Europe/Berlin',"
    " '{\"mode\": \"deep\"}', 'all', 'skip', 'latest', now(), 'schedule ' || n"
    " FROM account a, generate_series(1, 100) n",
    "/account/log": "INSERT INTO audit (account_id, actor, action, subject)"
    " SELECT a.id, 'ada@example.com', 'key.create', 'key ' || n FROM account a, generate_series(1, 5000) n",
}


@pytest.mark.parametrize("path", MANY)
async def test_a_full_page_has_less_than_100_kb(api: Api, path: str) -> None:
    async with signed_in(api) as client:
        empty = len((await client.get(path)).content)
        await sql(api.settings, MANY[path])
        answer = await client.get(path)
        assert answer.status_code == 200
        assert empty + 2_000 < len(answer.content) < 100_000
