"""Times as people read them: in the zone they have chosen, else the account's; the API stays UTC."""

from __future__ import annotations

import re

import pytest

from mailsift.accounts.people import Role
from mailsift.container import open_service
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.support.sessions import post, signed_in

JOBS, SCHEDULES = "/v1/bulk/jobs", "/v1/bulk/schedules"
MOMENT = "2026-07-01 11:30:00+00"
BERLIN, TOKYO = "Europe/Berlin", "Asia/Tokyo"


async def _remembered(api: Api) -> None:
    """Write a line into alice's log whose time is known, and a job of then."""
    async with open_service(api.settings) as service:
        account = await service.account("alice")
    await sql(
        api.settings,
        "INSERT INTO audit (account_id, actor, action, at) VALUES (:account, 'cli', 'key.use', :at)",
        account=account,
        at=MOMENT,
    )
    await sql(
        api.settings,
        "INSERT INTO job (id, account_id, name, state, options, created_at, finished_at)"
        " VALUES (gen_random_uuid(), :account, 'June', 'completed', '{\"mode\": \"fast\"}', :at, :at)",
        account=account,
        at="2026-07-01 22:30:00+00",
    )


async def test_times_are_the_accounts_until_somebody_chooses_their_own(api: Api) -> None:
    await _remembered(api)
    async with signed_in(api) as owner, signed_in(api, Role.VIEWER) as viewer:
        line = (
            '<time datetime="2026-07-01T11:30:00+00:00" title="2026-07-01 11:30:00 UTC">1 Jul 2026, {}</time>'
        )
        assert line.format("11:30 UTC") in (await viewer.get("/account/log")).text
        await post(owner, "/account/zone", zone=BERLIN)
        assert f"time zone is {BERLIN}" in (await owner.get("/account")).text
        assert line.format("13:30 CEST") in (await viewer.get("/account/log")).text
        await post(viewer, "/account/you/zone", zone=TOKYO, next="/jobs")
        assert line.format("20:30 JST") in (await viewer.get("/account/log")).text
        assert line.format("13:30 CEST") in (await owner.get("/account/log")).text
        await post(viewer, "/account/you/zone", zone="")
        assert line.format("13:30 CEST") in (await viewer.get("/account/log")).text


async def test_days_are_those_of_who_looks(api: Api) -> None:
    await _remembered(api)
    async with signed_in(api) as client:
        first, second = ({"since": day, "until": day} for day in ("2026-07-01", "2026-07-02"))
        assert "June" in (await client.get("/jobs", params=first)).text
        await post(client, "/account/you/zone", zone=BERLIN)  # half past midnight there
        assert "June" not in (await client.get("/jobs", params=first)).text
        assert "June" in (await client.get("/jobs", params=second)).text
        for odd in ("0001-01-01", "9999-12-31"):
            assert (await client.get("/jobs", params={"since": odd, "until": odd})).status_code == 200


async def test_the_offer_of_the_browsers_zone_goes_once_it_is_answered(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as client:
        assert 'data-zone-offer="UTC"' in (await client.get("/keys")).text
        narrowed = (await client.get("/jobs?q=a%26b&state=failed")).text
        assert 'name="next" value="/jobs?q=a%26b&amp;state=failed"' in narrowed  # and stays narrowed
        answer = await post(client, "/account/you/zone", zone="UTC", next="/keys")
        assert answer.headers["location"] == "/keys"
        assert "data-zone-offer" not in (await client.get("/keys")).text
        away = await post(client, "/account/you/zone", zone="UTC", next="//evil.test")
        assert away.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/account/zone", "/account/you/zone"])
async def test_what_is_no_zone_is_refused_in_words(api: Api, path: str) -> None:
    async with signed_in(api) as client:
        answer = await post(client, path, zone="Mars/Olympus")
        assert "must be an IANA name" in (await client.get(answer.headers["location"])).text


async def test_only_owners_set_the_accounts_zone(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        assert (await post(client, "/account/zone", zone=BERLIN)).status_code == 403


async def test_a_schedule_runs_by_the_accounts_zone_unless_it_says_otherwise(api: Api) -> None:
    async with signed_in(api) as owner, api.client(await api.key("alice")) as client:
        await post(owner, "/account/zone", zone=BERLIN)
        sent = await client.post(JOBS, json={"emails": ["a@example.com"], "mode": "fast"})
        wanted = {"job_id": sent.json()["data"]["job_id"], "cron": "0 6 * * 1"}
        for given, zone in (({}, BERLIN), ({"zone": "UTC"}, "UTC")):
            made = await client.post(SCHEDULES, json=wanted | given)
            assert made.json()["data"]["zone"] == zone
        form = (await owner.get("/schedules/new")).text
        assert re.search(r'<input id="zone"[^>]* value="Europe/Berlin"', form)
