"""One address over HTTP: the contract's fields, the short form, and an honest answer in time."""

from __future__ import annotations

import httpx
import pytest

FIELDS = {
    "catch_all": bool,
    "is_disposable": bool,
    "is_free": bool,
    "is_role_based": bool,
    "is_valid": bool,
    "mx_valid": bool,
    "syntax_valid": bool,
    "reason": str,
    "result": str,
    "suggestion": str,
    "score": int,
    "smtp_code": int,
    "status": str,
}
PATH = "/v1/email/single-validate"


async def test_the_answer_has_exactly_the_contracts_fields(client: httpx.AsyncClient) -> None:
    answer = await client.post(PATH, json={"email": "info@gmial.com", "mode": "fast"})
    body = answer.json()
    assert answer.status_code == 200
    assert {name: body[name] for name in ("status", "success")} == {"status": 200, "success": True}
    assert set(body) == {"data", "message", "status", "success"}
    assert {name: type(value) for name, value in body["data"].items()} == FIELDS
    assert body["data"]["suggestion"] == "Did you mean info@gmail.com?"
    assert body["data"]["is_role_based"] is True
    assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize(
    "headers",
    [
        [("Prefer", "respond-async, return=minimal; x=1")],
        [("Prefer", "respond-async"), ("Prefer", "return=minimal")],
        [("Prefer", 'a="x, y"; b="return=representation", RETURN = "minimal"')],
        [("Prefer", "return=minimal, return=representation")],
    ],
)
async def test_the_short_form_on_request(client: httpx.AsyncClient, headers: list[tuple[str, str]]) -> None:
    answer = await client.post(PATH, json={"email": "no at", "mode": "fast"}, headers=headers)
    assert set(answer.json()["data"]) == {"is_valid", "status", "score", "reason"}
    assert answer.json()["data"]["status"] == "invalid"
    assert answer.headers["preference-applied"] == "return=minimal"


@pytest.mark.parametrize(
    "wish", ["return=representation, return=minimal", 'a="x,return=minimal,y"', "return", "a; return=minimal"]
)
async def test_what_is_no_wish_for_the_short_form_gets_the_whole_one(
    client: httpx.AsyncClient, wish: str
) -> None:
    """Of a preference that is said twice the first counts, and quoted text is no preference (RFC 7240)."""
    answer = await client.post(PATH, json={"email": "no at", "mode": "fast"}, headers={"Prefer": wish})
    assert set(answer.json()["data"]) == set(FIELDS)
    assert "preference-applied" not in answer.headers


async def test_when_time_runs_out_the_answer_is_risky_and_in_time(client: httpx.AsyncClient) -> None:
    answer = await client.post(PATH, json={"email": "jane@example.test", "deadline_ms": 400})
    assert answer.status_code == 200
    assert answer.json()["data"]["status"] == "risky"
    assert answer.json()["data"]["result"] == "dns_unavailable"


async def test_what_clearly_means_an_address_is_repaired_on_request(client: httpx.AsyncClient) -> None:
    asked = {"email": "Jane Doe <jane@example.com>;", "mode": "fast"}
    plain = (await client.post(PATH, json=asked)).json()["data"]
    assert (plain["result"], plain["suggestion"]) == ("syntax_error", "Did you mean jane@example.com?")
    repaired = (await client.post(PATH, json={**asked, "repair": True})).json()["data"]
    assert (repaired["result"], repaired["suggestion"]) == ("passed", "Validated as jane@example.com.")
    several = {**asked, "email": "a@example.com, b@example.com", "repair": True}
    assert (await client.post(PATH, json=several)).json()["data"]["result"] == "syntax_error"
    assert (await client.post(PATH, json={**asked, "repair": "yes"})).status_code == 422
