"""To whom nobody is to send: listed, looked up, added, removed, imported, exported, and not asked about."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import text

from mailsift.settings import Settings
from tests.support.parts import open_database

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

LIST, JOBS, OUTCOMES = "/v1/suppressions", "/v1/bulk/jobs", "/v1/outcomes"
CSV = {"content-type": "text/csv"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"requests_per_minute": 1_000})


async def emails(client: httpx.AsyncClient, **asked: str) -> dict[str, str]:
    answer = await client.get(LIST, params=asked)
    assert answer.status_code == 200, answer.text
    return {one["email"]: one["reason"] for one in answer.json()["data"]["suppressions"]}


async def test_a_list_is_kept_by_hand_by_file_and_by_what_happened(
    api: Api, client: httpx.AsyncClient
) -> None:
    added = await client.post(LIST, json={"emails": ["ANN@Example.com", "ann@example.com", "no"]})
    assert added.json()["data"] == {"taken": 1, "repeated": 1, "malformed": 1}
    file = b"EmailAddress,Reason\nbob@example.com,BOUNCE\ncy@example.com,COMPLAINT\n"
    assert (await client.post(f"{LIST}/import", content=file, headers=CSV)).json()["data"]["taken"] == 2
    packed = {"content-type": "application/gzip"}
    again = await client.post(f"{LIST}/import", content=gzip.compress(file), headers=packed)
    assert again.json()["data"]["repeated"] == 2
    csv = b"email,event\nbob@example.com,unsubscribe\ndora@example.com,unsubscribe\n"
    await client.post(OUTCOMES, content=csv, headers=CSV)
    whole = {
        "ann@example.com": "manual",
        "bob@example.com": "unsubscribed",  # a wish is told as one
        "cy@example.com": "complained",
        "dora@example.com": "unsubscribed",
    }
    assert await emails(client) == whole
    assert await emails(client, email="Cy@EXAMPLE.com") == {"cy@example.com": "complained"}
    assert await emails(client, reason="manual") == {"ann@example.com": "manual"}
    pages: dict[str, str] = {}
    cursor = ""
    for _ in range(4):
        page = (await client.get(LIST, params={"limit": 1, "cursor": cursor})).json()["data"]
        pages |= {one["email"]: one["reason"] for one in page["suppressions"]}
        cursor = page["next_cursor"]
    assert (pages, cursor) == (whole, "")
    assert (await client.get(LIST, params={"cursor": "zz"})).json()["code"] == "bad_cursor"

    async with api.client(await api.key("bob")) as bob:  # nobody else's
        assert await emails(bob) == {}
        ours = await client.get(f"{LIST}/export")
        assert (await bob.post(f"{LIST}/import", content=ours.content, headers=CSV)).json()["data"][
            "taken"
        ] == 4
        assert await emails(bob) == whole
        ses = (await bob.get(f"{LIST}/export", params={"format": "ses"})).text.splitlines()
        assert {"emailAddress": "cy@example.com", "reason": "COMPLAINT"} in map(json.loads, ses)
        assert "dora@example.com," in (await bob.get(f"{LIST}/export", params={"format": "sendgrid"})).text

    gone = await client.post(f"{LIST}/remove", json={"emails": ["DORA@example.com", "nobody@example.com"]})
    assert gone.json()["data"] == {"removed": 1}
    await client.post(OUTCOMES, content=csv, headers=CSV)  # what was known already puts nobody back
    assert "dora@example.com" not in await emails(client)

    database = open_database(api.settings)
    async with database.begin() as connection:
        rows = list((await connection.execute(text("SELECT * FROM suppression"))).mappings())
    await database.aclose()
    assert len(rows) == 7
    assert not any(b"dora" in bytes(row[name]) for row in rows for name in ("address", "sealed"))


async def test_an_export_opens_safely_in_a_spreadsheet_and_senders_get_the_bare_address(
    client: httpx.AsyncClient,
) -> None:
    await client.post(LIST, json={"emails": ["=1+1@example.com"]})
    ours = await client.get(f"{LIST}/export")
    assert "\n'=1+1@example.com,manual," in ours.text
    for kind in ("ses", "sendgrid"):
        assert "'" not in (await client.get(f"{LIST}/export", params={"format": kind})).text
    again = await client.post(f"{LIST}/import", content=ours.content, headers=CSV)
    assert again.json()["data"] == {"taken": 0, "repeated": 1, "malformed": 0}


async def test_a_single_verdict_says_on_request_what_to_do_with_the_address(
    client: httpx.AsyncClient,
) -> None:
    await client.post(OUTCOMES, content=b"email,event\nann@example.com,complained\n", headers=CSV)
    single = "/v1/email/single-validate"
    asked = {"email": "Ann@example.com", "mode": "fast"}
    found = (await client.post(single, json={**asked, "tier": True})).json()["data"]
    assert (found["status"], found["tier"], found["tier_reason"]) == ("valid", "remove", "complained")
    assert "evidence" not in found
    assert "tier" not in (await client.post(single, json=asked)).json()["data"]
    await client.put("/v1/policy", json={"tiers": {"role": "review", "complained": "review"}})
    emails = ["ann@example.com", "info@example.com", "bob@example.com", "no", "ann@example.com"]
    batch = {"emails": emails, "mode": "fast"}
    answer = await client.post("/v1/email/batch-validate", json={**batch, "tier": True, "probability": True})
    tiers = [(one["tier"], one["tier_reason"]) for one in answer.json()["data"]["results"]]
    assert tiers == [
        ("review", "complained"),
        ("review", "role"),
        ("send", ""),
        ("remove", "invalid"),
        tiers[0],
    ]


@pytest.mark.usefixtures("worker")
async def test_nobody_is_asked_about_whom_nobody_may_send_to(client: httpx.AsyncClient) -> None:
    await client.post(LIST, json={"emails": ["ann@example.com"], "reason": "bounced"})
    body = {"emails": ["ann@example.com", "bob@example.com"], "mode": "fast", "evidence": True}
    job = (await client.post(JOBS, json=body)).json()["data"]["job_id"]
    assert (await client.get(f"{JOBS}/{job}?wait=60")).json()["data"]["tiers"] == {
        "send": 1,
        "review": 0,
        "remove": 1,
    }
    lines = (await client.get(f"{JOBS}/{job}/results", params={"format": "jsonl", "tier": "remove"})).text
    (row,) = map(json.loads, lines.splitlines())
    assert (row["email"], row["mailsift_tier_reason"]) == ("ann@example.com", "suppressed")
    assert json.loads(row["mailsift_evidence"])["unwanted"] == "suppressed"
    assert row["mailsift_status"] == "valid"  # the verdict says what is known, and not what is wanted


async def test_as_many_addresses_are_taken_at_once_as_are_allowed(client: httpx.AsyncClient) -> None:
    many = [f"{'a-rather-long-name.' * 3}{number}@a-company.example.com" for number in range(10_000)]
    added = await client.post(LIST, json={"emails": many})
    assert (added.status_code, added.json()["data"]["taken"]) == (200, 10_000)
    removed = await client.post(f"{LIST}/remove", json={"emails": many})
    assert removed.json()["data"] == {"removed": 10_000}


@pytest.mark.parametrize(("table", "path"), [("suppression", LIST), ("outcome", OUTCOMES)])
async def test_an_export_that_cannot_begin_is_an_error_and_no_broken_file(
    api: Api, client: httpx.AsyncClient, table: str, path: str
) -> None:
    database = open_database(api.settings)
    async with database.begin() as connection:
        await connection.execute(text(f"ALTER TABLE {table} RENAME TO away"))
    answer = await client.get(f"{path}/export")
    async with database.begin() as connection:
        await connection.execute(text(f"ALTER TABLE away RENAME TO {table}"))
    await database.aclose()
    assert (answer.status_code, answer.json()["code"]) == (503, "database_not_migrated")
    assert (await client.get(f"{path}/export")).text.count("\n") == 1
