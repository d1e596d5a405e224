"""What really happened comes in by file, message and signed webhook, and goes before any probe."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import io
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import polars as pl
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import text

from mailsift.container import open_container
from mailsift.pipeline.clock import system_clock
from mailsift.settings import Settings
from tests.support.parts import open_database
from tests.support.serving import NO_TLS

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

OUTCOMES, RECEIVERS, SINGLE = "/v1/outcomes", "/v1/outcomes/receivers", "/v1/email/single-validate"
NOW = datetime.fromtimestamp(system_clock(), UTC)
GONE = "550 5.1.1 <{}>: Recipient address rejected: User unknown"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"requests_per_minute": 1_000})


async def verdict(client: httpx.AsyncClient, email: str, mode: str = "fast", **more: Any) -> dict[str, Any]:
    answer = await client.post(SINGLE, json={"email": email, "mode": mode, "deadline_ms": 3_000, **more})
    found: dict[str, Any] = answer.json()["data"]
    return found


async def send(client: httpx.AsyncClient, body: bytes, kind: str) -> dict[str, Any]:
    answer = await client.post(OUTCOMES, content=body, headers={"content-type": kind})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


async def test_a_file_is_read_by_what_its_columns_hold_and_counts_once(client: httpx.AsyncClient) -> None:
    rows = [
        ("ann@example.com", "delivered", ago(1), ""),
        ("BOB@Example.com", "Hard Bounce", ago(2), GONE.format("bob@example.com")),
        ("carl@example.com", "bounced", ago(2), "550 5.7.1 Service unavailable; client host blocked"),
        ("dora@example.com", "soft_bounce", ago(1), "450 4.2.0 greylisted, try again later"),
        ("erin@example.com", "delivered", ago(200), ""),
        ("not an address", "delivered", ago(1), ""),
        ("finn@example.com", "sent", ago(1), ""),
    ]
    table = pl.DataFrame(rows, schema=["Recipient", "what happened", "date", "server said"], orient="row")
    csv = table.write_csv(separator=";").encode()
    assert await send(client, csv, "text/csv") == {"taken": 5, "repeated": 0, "malformed": 2}
    assert await send(client, csv, "text/csv") == {"taken": 0, "repeated": 5, "malformed": 2}
    lines = table.rename({"Recipient": "email", "what happened": "event"}).write_ndjson().encode()
    assert (await send(client, lines, "application/x-ndjson"))["taken"] == 0
    parquet = io.BytesIO()
    table.write_parquet(parquet)
    assert (await send(client, parquet.getvalue(), "application/octet-stream"))["taken"] == 0
    assert (await send(client, gzip.compress(lines), "application/gzip"))["repeated"] == 5
    form = await client.post(OUTCOMES, files={"file": ("bounces.csv", csv)})
    assert form.json()["data"]["repeated"] == 5
    for email, result in (
        ("ann@example.com", "deliverable"),
        ("bob@example.com", "mailbox_not_found"),
        ("carl@example.com", "passed"),  # the server refused the sender
        ("dora@example.com", "passed"),  # not yet is not never
        ("erin@example.com", "passed"),  # too long ago
    ):
        assert (await verdict(client, email))["result"] == result, email
    deep = await verdict(client, "bob@example.com", "deep")  # nobody answers DNS here
    assert (deep["result"], deep["smtp_code"]) == ("mailbox_not_found", 550)


async def test_what_an_account_learned_stays_its_own_and_no_address_in_the_clear(
    api: Api, client: httpx.AsyncClient
) -> None:
    csv = f"email,event,reason\nzelda.secret@example.com,bounce,{GONE.format('zelda.secret@example.com')}\n"
    await send(client, csv.encode(), "text/csv")
    async with api.client(await api.key("bob")) as bob:
        assert (await verdict(bob, "zelda.secret@example.com"))["result"] == "passed"
        await send(bob, csv.encode(), "text/csv")
    database = open_database(api.settings)
    async with database.begin() as connection:
        rows = list((await connection.execute(text("SELECT * FROM outcome"))).mappings())
    await database.aclose()
    assert len({bytes(row["address"]) for row in rows}) == len(rows) == 2
    for row in rows:
        assert all(b"zelda" not in bytes(str(value), "utf-8") for value in row.values())
        assert all(b"zelda" not in bytes(row[name]) for name in ("report", "address", "sealed"))


async def test_who_asks_at_the_same_time_is_told_of_its_own_addresses_by_its_own_account(
    api: Api, client: httpx.AsyncClient
) -> None:
    names = [f"gone{n}@example.com" for n in range(20)]
    async with api.client(await api.key("bob")) as bob, api.client(await api.key("carol")) as carol:
        for who, some in ((client, names[:10]), (bob, names[10:])):
            rows = "".join(f"{name},bounce,{GONE.format(name)}\n" for name in some)
            await send(who, f"email,event,reason\n{rows}".encode(), "text/csv")

        async def found() -> list[list[str]]:
            asked = [[verdict(who, name) for name in names] for who in (client, bob, carol)]
            return [
                [one["result"] for one in some]
                for some in await asyncio.gather(*(asyncio.gather(*row) for row in asked))
            ]

        gone, fine = ["mailbox_not_found"] * 10, ["passed"] * 10
        assert await found() == [gone + fine, fine + gone, fine + fine]
        database = open_database(api.settings)
        async with (
            database.begin() as connection
        ):  # a key that nobody can open any more is its account's trouble
            await connection.execute(
                text(
                    r"UPDATE account_secret SET sealed = '\x00'"
                    " WHERE account_id = (SELECT id FROM account WHERE name = 'alice')"
                )
            )
        await database.aclose()
        assert await found() == [fine + fine, fine + gone, fine + fine]


async def test_an_export_opens_safely_in_a_spreadsheet_and_brings_nothing_new_when_it_comes_back(
    client: httpx.AsyncClient,
) -> None:
    csv = f"email,event,timestamp,reason,message id\n=1+1@example.com,bounced,{ago(2)},=HYPERLINK(0),m1\n"
    csv += f"bob@example.com,bounce,{ago(20)},{GONE.format('bob@example.com')},m2\n"
    assert (await send(client, csv.encode(), "text/csv"))["taken"] == 2
    ours = await client.get(f"{OUTCOMES}/export")
    assert "\n'=1+1@example.com,bounced," in ours.text
    assert ",'=HYPERLINK(0)," in ours.text
    assert await send(client, ours.content, "text/csv") == {"taken": 0, "repeated": 2, "malformed": 0}


async def test_an_account_takes_its_outcomes_along_and_believes_them_as_long_as_it_says(
    api: Api, client: httpx.AsyncClient
) -> None:
    csv = f"email,event,timestamp,reason\nann@example.com,delivered,{ago(20)},\n"
    csv += f"bob@example.com,bounce,{ago(20)},{GONE.format('bob@example.com')}\n"
    await send(client, csv.encode(), "text/csv")
    assert (await verdict(client, "ann@example.com"))["result"] == "deliverable"
    days = {"outcomes": {"delivered_days": 10, "bounced_days": 0}}
    assert (await client.put("/v1/policy", json=days)).status_code == 200
    for email in ("ann@example.com", "bob@example.com"):
        assert (await verdict(client, email))["result"] == "passed"
    ours = await client.get(f"{OUTCOMES}/export")
    assert len(ours.text.splitlines()) == 3
    assert "ann@example.com,delivered," in ours.text
    async with api.client(await api.key("bob")) as bob:
        assert len((await bob.get(f"{OUTCOMES}/export")).text.splitlines()) == 1
        assert (await send(bob, ours.content, "text/csv"))["taken"] == 2
        assert (await verdict(bob, "bob@example.com"))["result"] == "mailbox_not_found"  # by its own policy


@pytest.mark.usefixtures("worker")
async def test_a_list_uses_outcomes_too(client: httpx.AsyncClient) -> None:
    reply = GONE.format("bob@example.com")
    csv = f"email,event,reason\nbob@example.com,bounce,{reply}\nann@example.com,open,\n"
    assert (await send(client, csv.encode(), "text/csv"))["taken"] == 2
    body = {
        "emails": ["ann@example.com", "bob@example.com", "carl@example.com"],
        "mode": "fast",
        "evidence": True,
    }
    job = (await client.post("/v1/bulk/jobs", json=body)).json()["data"]["job_id"]
    assert (await client.get(f"/v1/bulk/jobs/{job}?wait=60")).json()["data"]["status"] == "completed"
    page = (await client.get(f"/v1/bulk/jobs/{job}/results", params={"format": "jsonl"})).text
    found = {row["email"]: row for row in map(json.loads, page.splitlines())}
    results = {email: row["mailsift_result"] for email, row in found.items()}
    assert results == {
        "ann@example.com": "deliverable",
        "bob@example.com": "mailbox_not_found",
        "carl@example.com": "passed",
    }
    mailboxes = {email: json.loads(row["mailsift_evidence"])["mailbox"] for email, row in found.items()}
    policies = [mailboxes[email]["policy"] for email in ("ann@example.com", "bob@example.com")]
    assert policies == 2 * [{"delivered_days": 90, "bounced_days": 365}]
    assert mailboxes["carl@example.com"] is None


async def test_whoever_says_how_old_an_answer_may_be_gets_no_outcome_that_is_older(
    client: httpx.AsyncClient,
) -> None:
    csv = (
        f"email,event,timestamp\nann@example.com,delivered,{ago(20)}\nbob@example.com,complained,{ago(20)}\n"
    )
    await send(client, csv.encode(), "text/csv")
    month = 30 * 86_400
    for age, result in ((None, "deliverable"), (month, "deliverable"), (86_400, "passed"), (0, "passed")):
        given: dict[str, Any] = {} if age is None else {"max_age": age}
        assert (await verdict(client, "ann@example.com", **given))["result"] == result, age
    batch = {"emails": ["ann@example.com"], "mode": "fast", "max_age": 0}
    many = await client.post("/v1/email/batch-validate", json=batch)
    assert many.json()["data"]["results"][0]["result"] == "passed"
    bob = await verdict(client, "bob@example.com", max_age=0, tier=True)
    assert (bob["tier"], bob["tier_reason"]) == ("remove", "complained")  # a wish has no age
    refused = await client.post(SINGLE, json={"email": "ann@example.com", "max_age": -1})
    assert refused.status_code == 422


@pytest.mark.usefixtures("worker")
async def test_a_list_whose_max_age_is_given_gets_no_outcome_that_is_older(client: httpx.AsyncClient) -> None:
    csv = (
        f"email,event,timestamp\nann@example.com,delivered,{ago(20)}\nbob@example.com,complained,{ago(20)}\n"
    )
    await send(client, csv.encode(), "text/csv")
    emails = ["ann@example.com", "bob@example.com"]
    for given, result in (({}, "deliverable"), ({"max_age": 86_400}, "passed")):
        body = {"emails": emails, "mode": "fast", **given}
        job = (await client.post("/v1/bulk/jobs", json=body)).json()["data"]["job_id"]
        assert (await client.get(f"/v1/bulk/jobs/{job}?wait=60")).json()["data"]["status"] == "completed"
        page = (await client.get(f"/v1/bulk/jobs/{job}/results", params={"format": "jsonl"})).text
        ann, bob = map(json.loads, page.splitlines())
        assert ann["mailsift_result"] == result, given
        assert bob["mailsift_tier"] == "remove"


async def test_outcomes_that_cannot_be_looked_up_in_time_keep_nobody_waiting_and_no_tier_is_guessed(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    await send(client, f"email,event,timestamp\nbob@example.com,complained,{ago(1)}\n".encode(), "text/csv")
    asked = {"email": "bob@example.com", "mode": "fast", "deadline_ms": 400}
    database = open_database(settings)
    async with database.begin() as connection:  # until its end nobody else reads the table
        await connection.execute(text("LOCK TABLE outcome IN ACCESS EXCLUSIVE MODE"))
        async with asyncio.timeout(10):
            plain, tiered = await asyncio.gather(
                client.post(SINGLE, json=asked), client.post(SINGLE, json={**asked, "tier": True})
            )
    await database.aclose()
    assert (plain.status_code, plain.json()["data"]["result"]) == (200, "passed")
    assert (tiered.status_code, tiered.json()["code"]) == (503, "database_unavailable")
    assert (await verdict(client, "bob@example.com", tier=True))["tier"] == "remove"


async def test_bounces_come_as_messages(client: httpx.AsyncClient) -> None:
    bounce = (
        "From: MAILER-DAEMON@mx.example\nTo: news@sender.example\nSubject: Undelivered\n"
        'MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nSorry.\n--b\nContent-Type: message/delivery-status\n\n"
        "Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; {0}\nAction: failed\nStatus: 5.2.1\n"
        "Diagnostic-Code: smtp; 550 5.2.1 This account is disabled\n\n--b--\n"
    )
    one = await send(client, bounce.format("gina@example.com").encode(), "message/rfc822")
    assert one == {"taken": 1, "repeated": 0, "malformed": 0}
    box = "".join(
        f"From MAILER-DAEMON Sun Nov  1 10:00:00 2026\n{bounce.format(f'h{n}@example.com')}\n"
        for n in range(3)
    )
    assert (await send(client, box.encode(), "application/mbox"))["taken"] == 3
    for email in ("gina@example.com", "h2@example.com"):
        assert (await verdict(client, email))["result"] == "mailbox_disabled"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "empty_file"),
        (b"a,b\n1,2\n", "no_address_column"),
        (b"email,colour\nann@example.com,red\n", "no_outcome_column"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "binary_file"),
        (b"PAR1 and nothing more", "bad_parquet"),
        (b"[{", "bad_json"),
        (b"PK\x03\x04", "unsupported_format"),
    ],
)
async def test_what_is_no_file_of_outcomes_is_refused_by_its_name(
    client: httpx.AsyncClient, body: bytes, code: str
) -> None:
    answer = await client.post(OUTCOMES, content=body, headers={"content-type": "text/csv"})
    assert answer.json()["code"] == code, answer.text
    assert "--column" not in answer.json()["message"]  # there is no such option here
    assert answer.status_code in {415, 422}


async def make(client: httpx.AsyncClient, **wanted: str) -> dict[str, Any]:
    answer = await client.post(RECEIVERS, json=wanted)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


async def test_sendgrid_is_believed_by_its_signature(api: Api, client: httpx.AsyncClient) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    made = await make(client, sender="sendgrid", key=base64.b64encode(public).decode())
    assert made["password"] == ""
    event = {"email": "ida@example.com", "event": "bounce", "timestamp": int(NOW.timestamp())}
    body = json.dumps([{**event, "reason": GONE.format("ida@example.com")}]).encode()

    async def post(stamp: float, signed: bytes) -> int:
        signature = base64.b64encode(key.sign(str(int(stamp)).encode() + signed, ec.ECDSA(hashes.SHA256())))
        headers = {
            "x-twilio-email-event-webhook-signature": signature.decode(),
            "x-twilio-email-event-webhook-timestamp": str(int(stamp)),
        }
        async with httpx.AsyncClient(base_url=api.url, verify=False) as sender:  # noqa: S501 - loopback
            return (await sender.post(made["path"], content=body, headers=headers)).status_code

    assert await post(NOW.timestamp(), b"other bytes") == 401
    assert await post(NOW.timestamp() - 90_000, body) == 401  # signed the day before yesterday
    assert await post(NOW.timestamp(), body) == 200
    assert (await verdict(client, "ida@example.com"))["result"] == "mailbox_not_found"
    assert await post(NOW.timestamp(), body) == 200  # once more says nothing new
    (seen,) = (await client.get(RECEIVERS)).json()["data"]["receivers"]
    assert (seen["taken"], seen["refused"], seen["malformed"]) == (1, 2, 0)
    assert (await client.delete(f"{RECEIVERS}/{made['receiver_id']}")).status_code == 204
    assert await post(NOW.timestamp(), body) == 404


async def test_a_token_of_mailgun_counts_once(api: Api, client: httpx.AsyncClient) -> None:
    made = await make(client, sender="mailgun", key="key-of-mailgun")

    async def post(email: str, token: str, key: bytes = b"key-of-mailgun") -> int:
        stamp = str(int(NOW.timestamp()))
        signed = {
            "timestamp": stamp,
            "token": token,
            "signature": hmac.new(key, (stamp + token).encode(), hashlib.sha256).hexdigest(),
        }
        data = {
            "event": "failed",
            "severity": "permanent",
            "recipient": email,
            "timestamp": NOW.timestamp(),
            "delivery-status": {"code": 550, "message": "5.1.1 user unknown"},
        }
        async with httpx.AsyncClient(base_url=api.url, verify=False) as sender:  # noqa: S501 - loopback
            answer = await sender.post(made["path"], json={"signature": signed, "event-data": data})
        return answer.status_code

    assert await post("jim@example.com", "token-a", key=b"guessed") == 401
    assert await post("jim@example.com", "token-a") == 200
    assert await post("jim@example.com", "token-a") == 200  # our answer may not have been heard
    assert await post("victim@example.com", "token-a") == 401  # a body that nobody signed
    assert (await verdict(client, "jim@example.com"))["result"] == "mailbox_not_found"
    assert (await verdict(client, "victim@example.com"))["result"] == "passed"


@pytest.mark.parametrize("sender", ["postmark", "brevo", "sparkpost", "listmonk"])
async def test_those_that_sign_nothing_send_a_password(
    api: Api, client: httpx.AsyncClient, sender: str
) -> None:
    made = await make(client, sender=sender, name="newsletter")
    events: dict[str, Any] = {
        "postmark": {
            "RecordType": "Bounce",
            "Type": "HardBounce",
            "Email": "k@example.com",
            "Details": "550 5.1.1 x",
        },
        "brevo": {"event": "hard_bounce", "email": "k@example.com", "reason": "550 5.1.1 user unknown"},
        "sparkpost": [
            {
                "msys": {
                    "message_event": {
                        "type": "bounce",
                        "rcpt_to": "k@example.com",
                        "raw_reason": "550 5.1.1 no",
                    }
                }
            }
        ],
        "listmonk": {"email": "k@example.com", "type": "hard", "meta": {"reason": "550 5.1.1 user unknown"}},
    }
    async with httpx.AsyncClient(base_url=api.url, verify=False) as http:  # noqa: S501 - loopback
        for password, status in (("", 401), ("wrong", 401), (made["password"], 200)):
            answer = await http.post(made["path"], json=events[sender], auth=("any", password))
            assert answer.status_code == status, answer.text
        broken = await http.post(made["path"], content=b"{", auth=("any", made["password"]))
        assert (broken.status_code, broken.json()["code"]) == (422, "malformed_outcome")
    assert (await verdict(client, "k@example.com"))["result"] == "mailbox_not_found"
    (seen,) = (await client.get(RECEIVERS)).json()["data"]["receivers"]
    assert (seen["taken"], seen["refused"], seen["malformed"]) == (1, 2, 1)
    assert seen["heard_at"]


async def test_a_flood_of_forgeries_is_refused_unread_and_hurts_nobody_else(
    api: Api, client: httpx.AsyncClient
) -> None:
    flooded, other = await make(client, sender="brevo"), await make(client, sender="brevo")
    async with httpx.AsyncClient(base_url=api.url, verify=NO_TLS) as http:
        answer = await http.post(flooded["path"], json={}, auth=("any", "guess"))
        for _ in range(300):
            if answer.status_code != 401:
                break
            answer = await http.post(flooded["path"], json={}, auth=("any", "guess"))
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await http.post(other["path"], json={}, auth=("any", other["password"]))).status_code == 200
    seen = (await client.get(RECEIVERS)).json()["data"]["receivers"]
    counted = {one["receiver_id"]: one["refused"] for one in seen}
    assert counted[flooded["receiver_id"]] < 300
    assert counted[other["receiver_id"]] == 0


async def test_a_flood_for_receivers_that_do_not_exist_is_told_to_wait_and_blocks_none_that_does(
    api: Api, client: httpx.AsyncClient
) -> None:
    made = await make(client, sender="brevo")
    folder = made["path"].rpartition("/")[0]
    async with httpx.AsyncClient(base_url=api.url, verify=NO_TLS) as http:
        asked = 0
        while (answer := await http.post(f"{folder}/{uuid4()}", json={})).status_code == 404 and asked < 300:
            asked += 1
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
        assert asked >= 50
        for _ in range(3):
            real = await http.post(made["path"], json={}, auth=("any", made["password"]))
            assert real.status_code == 200


async def test_outcomes_are_kept_for_as_many_days_as_the_operator_says(
    api: Api, client: httpx.AsyncClient
) -> None:
    rows = [f"a{days}@example.com,bounced,{ago(days)},{GONE.format('x')}" for days in (20, 40)]
    await send(client, "\n".join(["email,event,date,reason", *rows]).encode(), "text/csv")
    for days, left in ((730, 2), (30, 1)):
        async with open_container(api.settings.model_copy(update={"outcome_days": days})) as container:
            await container.eraser.sweep()
        exported = (await client.get(f"{OUTCOMES}/export")).text
        assert exported.count("@example.com") == left


async def test_receivers_are_an_account_s_own(api: Api, client: httpx.AsyncClient) -> None:
    made = await make(client, sender="brevo")
    async with api.client(await api.key("bob")) as bob:
        assert (await bob.get(RECEIVERS)).json()["data"]["receivers"] == []
        assert (await bob.delete(f"{RECEIVERS}/{made['receiver_id']}")).status_code == 404
        assert (await bob.post(f"{RECEIVERS}/{made['receiver_id']}/rotate", json={})).status_code == 404
    rotated = (await client.post(f"{RECEIVERS}/{made['receiver_id']}/rotate", json={})).json()["data"]
    assert rotated["path"] == made["path"]
    assert rotated["password"] != made["password"]
    for wanted, code in (
        ({"sender": "sendgrid", "key": "x"}, "receiver_key_invalid"),
        ({"sender": "mailgun"}, "receiver_key_invalid"),
        ({"sender": "ses", "topic": "not-an-arn"}, "receiver_key_invalid"),
        ({"sender": "ses", "topic": "arn:\0"}, "receiver_key_invalid"),
        ({"sender": "pigeon"}, "invalid_request"),
    ):
        answer = await client.post(RECEIVERS, json=wanted)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
