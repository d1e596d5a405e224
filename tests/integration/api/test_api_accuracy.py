"""How right verdicts were: as JSON and CSV, and on a page with pictures."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import text

from mailsift.accounts.people import Role
from mailsift.container import open_container
from mailsift.pipeline.clock import system_clock
from tests.support.sessions import signed_in

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.integration.api.conftest import Api

TODAY = datetime.fromtimestamp(system_clock(), UTC).date()
SUMS = (
    # days ago, provider, status, result, what, known, held out, n
    (1, "google", "valid", "deliverable", "judged", False, False, 1_000),
    (1, "other", "risky", "catch_all", "judged", False, False, 1_000),
    (1, "google", "valid", "deliverable", "delivered", False, False, 576),
    (1, "google", "valid", "deliverable", "gone", False, False, 24),
    (2, "google", "valid", "deliverable", "delivered", False, True, 190),
    (2, "google", "valid", "deliverable", "gone", False, True, 10),
    (2, "google", "valid", "deliverable", "delivered", True, False, 77),
    (2, "", "valid", "passed", "delivered", False, False, 150),
    (2, "google", "invalid", "mailbox_not_found", "delivered", False, False, 1),
    (2, "google", "invalid", "mailbox_not_found", "gone", False, False, 99),
)


@pytest.fixture
async def measured(api: Api) -> Api:
    """An API with sums of alice."""
    sql = text("""INSERT INTO accuracy (account_id, day, mode, provider, status, result, score, what, known,
        held_out, n)
        VALUES (:account, :day, 'deep', :provider, :status, :result, 95, :what, :known, :held, :n)""")
    async with open_container(api.settings) as container, container.database.begin() as connection:
        account = await container.jobs.account("alice")
        for ago, provider, status, result, what, known, held, n in SUMS:
            values = {"provider": provider, "status": status, "result": result, "what": what, "known": known}
            day = TODAY - timedelta(days=ago)
            await connection.execute(sql, {**values, "account": account, "day": day, "held": held, "n": n})
    return api


async def test_the_numbers_come_with_intervals_and_belong_to_their_account(
    measured: Api, client: httpx.AsyncClient
) -> None:
    answer = await client.get("/v1/accuracy")
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    (row,) = data["rows"]
    assert (row["group"], row["judged"], row["known"]) == ({}, 2_000, 77)
    assert (row["coverage"]["value"], row["coverage"]["n"]) == (0.5, 2_000)
    assert row["stability"] is None
    assert row["false_valid"]["value"] == pytest.approx(34 / 950)
    assert row["false_valid"]["low"] < 34 / 950 < row["false_valid"]["high"]
    assert (row["false_invalid"]["value"], row["false_invalid"]["n"]) == (0.01, 100)
    assert data["calibration"]["n"] == 200
    assert data["calibration"]["error"] < 0.02

    by = (await client.get("/v1/accuracy?by=provider&by=result")).json()["data"]["rows"]
    assert {tuple(one["group"].values()) for one in by} == {
        ("google", "deliverable"),
        ("google", "mailbox_not_found"),
        ("", "passed"),
        ("other", "catch_all"),
    }
    lines = list(csv.DictReader(io.StringIO((await client.get("/v1/accuracy?by=day&format=csv")).text)))
    assert [(one["judged"], one["delivered_n"]) for one in lines] == [("0", "450"), ("2000", "600")]

    async with measured.client(await measured.key("bob")) as bob:
        assert (await bob.get("/v1/accuracy")).json()["data"] == {
            **data,
            "rows": [],
            "calibration": None,
        }
    refused = await client.get("/v1/accuracy?since=2026-02-01&until=2026-01-01")
    assert (refused.status_code, refused.json()["code"]) == (422, "accuracy_range_invalid")


async def test_the_page_shows_them_with_pictures(measured: Api) -> None:
    async with signed_in(measured, Role.VIEWER) as viewer:
        page = await viewer.get("/accuracy?by=provider")
        assert page.status_code == 200
        assert '<svg class="reliability"' in page.text
        assert '<svg class="days"' in page.text
        assert "4.2 %" in page.text
        assert ">Google</th>" in page.text
        exported = await viewer.get("/accuracy/export.csv")
        assert exported.headers["content-type"] == "text/csv; charset=utf-8"
        assert exported.text.startswith("provider,mode,result,day,judged,")


@pytest.mark.usefixtures("worker")
async def test_every_row_has_its_chance_when_asked(measured: Api, client: httpx.AsyncClient) -> None:
    emails = ["b@two.example.com", "no address", "a@one.example.com"]
    made = await client.post("/v1/bulk/jobs", json={"emails": emails, "mode": "fast"})
    job = f"/v1/bulk/jobs/{made.json()['data']['job_id']}"
    assert (await client.get(f"{job}?wait=60")).json()["data"]["status"] == "completed"
    asked = await client.get(
        f"{job}/results?format=csv&probability=true&columns=email&columns=p&columns=p_low"
    )
    assert asked.status_code == 200, asked.text
    assert "etag" not in asked.headers
    rows = list(csv.DictReader(io.StringIO(asked.text)))
    assert [row["email"] for row in rows] == emails
    good, bad, other = (row["mailsift_p"] for row in rows)
    assert 0.97 < float(good) == float(other) < 1
    assert float(rows[0]["mailsift_p_low"]) < float(good)
    assert bad == ""
    assert "mailsift_p" not in (await client.get(f"{job}/results?format=csv")).text
    page = await client.get(f"{job}/results?format=json&probability=true")
    with_chances = page.json()["data"]["rows"]
    assert [row["mailsift_p"] for row in with_chances] == [
        pytest.approx(float(good)),
        None,
        pytest.approx(float(good)),
    ]
    assert (
        with_chances[0]["mailsift_p_low"] < with_chances[0]["mailsift_p"] < with_chances[0]["mailsift_p_high"]
    )
    assert "etag" not in page.headers
    plain = (await client.get(f"{job}/results?format=json")).json()["data"]["rows"]
    assert not [name for name in plain[0] if name.startswith("mailsift_")]
    async with signed_in(measured, Role.VIEWER) as viewer:
        with_chances = await viewer.get(f"{job.removeprefix('/v1/bulk')}/rows/1")
        assert "Chance of delivery" in with_chances.text
        assert "&#34;mailsift_p&#34;: 0.9" in with_chances.text
        assert "Chance of delivery" not in (await viewer.get(f"{job.removeprefix('/v1/bulk')}/rows/2")).text


@pytest.mark.usefixtures("measured")
async def test_one_address_has_its_chance_when_asked_beside_the_13_fields(client: httpx.AsyncClient) -> None:
    def of(path: str, **body: object) -> Awaitable[httpx.Response]:
        return client.post(f"/v1/email/{path}", json={"mode": "fast", **body})

    plain = (await of("single-validate", email="a@one.example.com")).json()["data"]
    assert len(plain) == 13
    asked = (await of("single-validate", email="a@one.example.com", probability=True)).json()["data"]
    assert {name: asked[name] for name in plain} == plain
    assert set(asked) - set(plain) == {"mailsift_p", "mailsift_p_low", "mailsift_p_high"}
    assert 0.97 < asked["mailsift_p"] < asked["mailsift_p_high"] <= 1
    batch = await of("batch-validate", emails=["a@one.example.com", "no"], probability=True)
    results = batch.json()["data"]["results"]
    assert [one["mailsift_p"] for one in results] == [asked["mailsift_p"], None]
    medium = await client.post(
        "/v1/email/single-validate",
        json={"email": "a@one.example.com", "mode": "medium", "probability": True},
    )
    assert "evidence" not in medium.json()["data"]


async def test_operators_see_the_sums_of_all_accounts(measured: Api) -> None:
    async with signed_in(measured, Role.VIEWER, operator=True, account="bob") as operator:
        page = await operator.get("/ops/accuracy?by=provider")
        assert page.status_code == 200
        assert "2,000 addresses, of all accounts together" in page.text
        assert ">Google</th>" in page.text
        assert 'href="/ops/accuracy?by=mode"' in page.text
        exported = await operator.get("/ops/accuracy/export.csv")
        assert exported.text.startswith("provider,mode,result,day,judged,")
        assert "@" not in exported.text
