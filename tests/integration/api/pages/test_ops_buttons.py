"""The buttons of /ops: each does what it says, says what it did, and is written down."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from mailsift.accounts.people import Role
from mailsift.pipeline.facts import CacheEntry, CatchAllFact, FactKind, Known
from mailsift.pipeline.probe.cache import RememberedCatchAll, pack_catch_all
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.storage.redis.facts import RedisFactCache
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import actions, some_job, words
from tests.support.busy_installation import fill, report_sessions, sql
from tests.support.parts import open_redis
from tests.support.sessions import post, signed_in

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def operator(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(api, Role.VIEWER, operator=True) as client:
        yield client


async def test_one_job_is_changed_by_its_buttons(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    job = await some_job(api)
    for action, state in (
        ("pause", "paused"),
        ("resume", "queued"),
        ("priority_high", "queued"),
        ("cancel", "cancelled"),
    ):
        answer = await post(operator, f"/ops/jobs/{job}", action=action)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/ops/jobs/{job}")
        (row,) = await sql(api.settings, "SELECT state FROM job WHERE id = :id", id=job)
        assert row["state"] == state
    again = await post(operator, f"/ops/jobs/{job}", action="pause")
    assert (again.status_code, "job_state_conflict" in again.text) == (409, True)
    assert (await post(operator, f"/ops/jobs/{job}", action="explode")).status_code == 422
    assert (await operator.get("/ops/jobs/no-id")).status_code == 404
    assert [action for _, action in await actions(api)] == [
        "job.pause",
        "job.resume",
        "job.priority_high",
        "job.cancel",
    ]


async def test_an_order_reaches_all_that_match_on_every_page(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings, jobs=120, running=70)
    listed = words((await operator.get("/ops/jobs?state=running&account=acme")).text)
    (count,) = re.findall(r"(\d+) jobs match", listed)
    assert int(count) > 5
    answer = await post(
        operator, "/ops/jobs", action="pause", state="running", account="acme", text="", age=""
    )
    assert answer.headers["location"] == "/ops/jobs?state=running&account=acme&text=&age="
    assert f"{count} jobs were paused." in (await operator.get(answer.headers["location"])).text
    rows = await sql(
        api.settings,
        "SELECT count(*) AS n FROM job j JOIN account a ON a.id = j.account_id"
        " WHERE a.name = 'acme' AND j.state = 'running'",
    )
    assert rows == [{"n": 0}]
    nothing = await post(
        operator, "/ops/jobs", action="resume", state="completed", account="", text="", age=""
    )
    message = (await operator.get(nothing.headers["location"])).text
    assert "could not be: job_state_conflict" in message
    assert "callout bad" in message


async def test_workers_are_drained_and_let_claim(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    drained = "SELECT count(*) AS n FROM worker WHERE drain_since IS NOT NULL"
    for fields, left in (
        ({"order": "undrain"}, 0),
        ({"order": "drain", "owner": "worker-0/40/aa"}, 3),  # its whole pool
        ({"order": "drain", "host": "worker-2"}, 6),
        ({"order": "drain"}, 9),
    ):
        answer = await post(operator, "/ops/workers", **fields)
        assert answer.status_code == 303
        assert await sql(api.settings, drained) == [{"n": left}]
    assert "3 processes will claim nothing more" in (await operator.get("/ops/workers")).text
    assert (await post(operator, "/ops/workers", order="dance")).status_code == 422


async def test_leases_are_taken_back(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    page = (await operator.get("/ops/leases")).text
    token = re.findall(r'name="token" value="([0-9a-f-]{36})"', page)[-1]
    await post(operator, "/ops/leases", token=token)
    after = (await operator.get("/ops/leases")).text
    assert token not in after
    assert "1 lease was taken back" in after
    await post(operator, "/ops/leases", token=token)
    assert "nothing to take back" in (await operator.get("/ops/leases")).text
    assert (await post(operator, "/ops/leases", token="x")).status_code == 404
    await sql(api.settings, "UPDATE chunk SET lease_until = clock_timestamp() WHERE state = 'leased'")
    await post(operator, "/ops/leases")
    assert "Nothing is being worked on" in (await operator.get("/ops/leases")).text


async def test_a_provider_is_edited_held_let_go_of_and_reset(api: Api, operator: httpx.AsyncClient) -> None:
    await report_sessions(api.settings, {"google": [SessionOutcome.RATE]})
    place = {"provider": "Google", "source": "*"}
    answer = await post(operator, "/ops/throttles/limits", **place, rate="1.5", sessions="2", note="careful")
    page = words((await operator.get(answer.headers["location"])).text)
    assert "within seconds" in page
    assert "careful" in page
    (row,) = await sql(api.settings, "SELECT provider, source, rate, sessions FROM throttle_edit")
    assert list(row.values()) == ["google", "*", 1.5, 2]
    await post(operator, "/ops/throttles/hold", **place, seconds="900", note="asked to")
    assert "google" in words((await operator.get("/ops/throttles?state=held")).text)
    await post(operator, "/ops/throttles/let-go", **place)
    await post(operator, "/ops/throttles/reset", **place)
    assert "google" not in words((await operator.get("/ops/throttles?state=held")).text)
    await post(operator, "/ops/throttles/limits", **place, rate="", sessions="")
    assert await sql(api.settings, "SELECT * FROM throttle_edit") == []
    for fields, code in (
        ({"rate": "fast"}, "bad_limit"),
        ({"rate": "1e9"}, "bad_limit"),
        ({"rate": "nan"}, "bad_limit"),
        ({"sessions": "1.5"}, "bad_limit"),
        ({"provider": ""}, "bad_provider"),
        ({"source": "203.0.113.9"}, "unknown_source"),
    ):
        refused = await post(operator, "/ops/throttles/limits", **{**place, **fields})
        assert (refused.status_code, code in refused.text) == (422, True), fields
    assert [action for _, action in await actions(api)] == [
        "throttle.edit",
        "throttle.hold",
        "throttle.let_go",
        "throttle.reset",
        "throttle.edit",
    ]


async def test_facts_are_shown_and_forgotten(api: Api, operator: httpx.AsyncClient) -> None:
    redis = open_redis(api.settings)
    fact = CatchAllFact("example.com", Known.NO, 550, HOSTILE, learned_at=1_800_000_000.0)
    entry = CacheEntry("example.com", pack_catch_all(RememberedCatchAll(fact, "", "", ())), 500)
    await RedisFactCache(redis).put(FactKind.CATCH_ALL, [entry])
    await redis.aclose()
    page = (await operator.get("/ops/facts?domain=anna@EXAMPLE.com")).text
    assert HOSTILE not in page
    assert "550" in page
    answer = await post(operator, "/ops/facts", domain="example.com")
    assert "Forgotten" in (await operator.get(answer.headers["location"])).text
    assert (await operator.get("/ops/facts?domain=no domain")).status_code == 422


async def test_deliveries_are_sent_again(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    (row,) = await sql(api.settings, "SELECT id FROM endpoint WHERE failures > 0")
    answer = await post(operator, f"/ops/deliveries/{row['id']}", hours="24")
    assert "sent again" in (await operator.get(answer.headers["location"])).text
    left = "SELECT count(*) AS n FROM delivery WHERE state = 'exhausted'"
    assert await sql(api.settings, left) == [{"n": 0}]
    assert (await post(operator, "/ops/deliveries/x", hours="24")).status_code == 404


async def test_workers_are_woken_and_troubled_chunks_start_afresh(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    await post(operator, "/ops/broker")
    assert "wake-ups were sent" in (await operator.get("/ops/broker")).text
    page = (await operator.get("/ops/failing-chunks")).text
    job, n = re.findall(r'name="job" value="([^"]+)">\s*<input type="hidden" name="n" value="(\d+)"', page)[0]
    await post(operator, "/ops/failing-chunks", job=job, n=n)
    (row,) = await sql(
        api.settings, "SELECT attempt FROM chunk WHERE job_id = :job AND n = :n", job=job, n=int(n)
    )
    assert row["attempt"] == 0
    for fields in ({"job": "x", "n": n}, {"job": job, "n": "x"}):
        assert (await post(operator, "/ops/failing-chunks", **fields)).status_code in {404, 422}


async def test_everything_that_was_done_is_in_the_log_with_who_did_it(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    await post(operator, "/ops/workers", order="drain")
    await post(operator, "/ops/broker")
    found = await actions(api)
    assert {action for _, action in found} == {"worker.drain", "worker.wake"}
    assert all(actor.endswith("@people.test") for actor, _ in found)
    page = words((await operator.get("/ops/audit")).text)
    assert "Drained the worker worker-0/40/aa" in page
    assert "Woke the workers" in page
    statement = "INSERT INTO audit (actor, action) SELECT 'a' || n, 'x.y' FROM generate_series(1, 150) n"
    await sql(api.settings, statement)
    first = (await operator.get("/ops/audit")).text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert "a50" not in words(first).split()
    assert "a50" in words((await operator.get(unescape(older))).text).split()
    assert (await operator.get("/ops/audit?before=x")).status_code == 422


async def test_a_domain_opts_out_and_the_public_page_says_how(api: Api, operator: httpx.AsyncClient) -> None:
    async with api.client("nobody") as stranger:
        page = await stranger.get("/probing")
    assert page.status_code == 200
    assert "postmaster@" in page.text
    await post(operator, "/ops/opt-outs/add", domain="Shy.Example.", note="their postmaster wrote")
    text = words((await operator.get("/ops/opt-outs")).text)
    assert "shy.example their postmaster wrote" in text
    assert (await post(operator, "/ops/opt-outs/add", domain="no domain")).status_code == 422
    await post(operator, "/ops/opt-outs/remove", domain="shy.example")
    await post(operator, "/ops/opt-outs/remove", domain="shy.example")
    assert "Nobody has opted out" in words((await operator.get("/ops/opt-outs")).text)
    assert [action for _, action in await actions(api)] == ["opt_out.add", "opt_out.remove"]
