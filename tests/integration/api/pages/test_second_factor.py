"""A code at sign-in: set up, asked for, used once, replaced by recovery codes, reset by an operator."""

from __future__ import annotations

import re
from uuid import UUID

import httpx
import pyotp
import pytest

from mailsift.accounts.people import Role
from mailsift.accounts.second_factors import PasswordProof
from mailsift.container import open_container
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.support.sessions import PASSWORD, browser, cookie, csrf_of, person, post, sign_in

SESSION, YOU = "__Host-mailsift", "/account/you"
PERSIAN = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")


async def set_up(client: httpx.AsyncClient) -> tuple[pyotp.TOTP, list[str]]:
    """Turn it on with the code of now: that of the next step is left for the test."""
    page = (await post(client, "/account/you/code", password=PASSWORD)).text
    assert "<svg" in page
    (secret,) = re.findall(r"\b((?:[A-Z2-7]{4} ){7}[A-Z2-7]{4})\b", page)[:1]
    totp = pyotp.TOTP(secret.replace(" ", ""))
    made = await client.post("/account/you/code/confirm", data={"csrf": csrf_of(page), "code": _code(totp)})
    codes = re.findall(r"<li>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</li>", made.text)
    assert len(set(codes)) == 10
    return totp, codes


def _code(totp: pyotp.TOTP, *, steps: int = 0) -> str:
    return totp.at(int(system_clock()), counter_offset=steps)


async def _with_code(api: Api, email: str, code: str) -> httpx.Response:
    """Sign in with the right password and this code."""
    async with browser(api) as client:
        page = await sign_in(client, email)
        assert page.status_code == 200
        assert cookie(client, SESSION) == "", "half a sign-in is none"
        answer = await client.post(
            "/login/code", data={"csrf": csrf_of(page.text), "code": code, "next": YOU}
        )
        if answer.status_code == 303:
            assert (await client.get(YOU)).status_code == 200
        return answer


async def test_a_code_is_asked_for_and_works_once(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client, browser(api) as elsewhere:
        await sign_in(client, email)
        await sign_in(elsewhere, email)
        totp, codes = await set_up(client)
        assert (await client.get(YOU)).status_code == 200
        assert (await elsewhere.get(YOU)).status_code == 303, "other sessions have ended"
    assert (await _with_code(api, email, codes[1])).status_code == 303
    code = _code(totp, steps=1)
    assert (await _with_code(api, email, code.translate(PERSIAN))).status_code == 303
    assert (await _with_code(api, email, code)).status_code == 401
    assert (await _with_code(api, email, codes[0].upper())).status_code == 303
    assert (await _with_code(api, email, codes[0])).status_code == 401
    ((stored,),) = await sql(api.settings, "SELECT second_factor::text FROM second_factor")
    secrets = [totp.secret, *codes, *(code.replace("-", "") for code in codes)]
    assert not any(secret in str(stored) or secret.encode().hex() in str(stored) for secret in secrets)


async def test_the_page_with_the_recovery_codes_is_one_of_the_session_that_begins_there(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        page = (await post(client, "/account/you/code", password=PASSWORD)).text
        (secret,) = re.findall(r"\b((?:[A-Z2-7]{4} ){7}[A-Z2-7]{4})\b", page)[:1]
        code = _code(pyotp.TOTP(secret.replace(" ", "")))
        made = await client.post("/account/you/code/confirm", data={"csrf": csrf_of(page), "code": code})
        left = await client.post("/logout", data={"csrf": csrf_of(made.text)})
        assert (left.status_code, left.headers["location"]) == (303, "/login")


async def test_codes_cannot_be_guessed_at(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        totp, _ = await set_up(client)
        token = csrf_of((await client.get(YOU)).text)
        answers = [
            (await client.post("/account/you/code/off", data={"csrf": token, "code": f"{n:06}"})).status_code
            for n in range(12)
        ]
        assert answers.count(429) >= 1
        right = {"csrf": token, "code": _code(totp, steps=1)}
        assert (await client.post("/account/you/code/off", data=right)).status_code == 429


async def test_only_who_knows_the_password_and_a_code_changes_anything(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        assert (await post(client, "/account/you/code", password="wrong password it is")).status_code == 401
        _, codes = await set_up(client)
        assert (await post(client, "/account/you/code", password=PASSWORD)).status_code == 409
        for wrong in ("000000", "١٢٣٤٥٦", "123–456"):
            assert (await post(client, "/account/you/code/off", code=wrong)).status_code == 401
        assert (await post(client, "/account/you/code/off", code=codes[1])).status_code == 303
        assert (await client.get(YOU)).text.count("Set it up") == 1
    async with browser(api) as client:
        assert (await sign_in(client, email)).status_code == 303


async def test_a_half_sign_in_ends_and_belongs_to_nobody_else(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        totp, _ = await set_up(client)
    async with browser(api) as stranger:
        page = await stranger.get("/login")
        form = {"csrf": csrf_of(page.text), "code": _code(totp, steps=1), "next": "/"}
        answer = await stranger.post("/login/code", data=form)
        assert answer.status_code == 401
        assert "Sign in again" in answer.text
    async with open_container(api.settings) as container:
        factors = container.people.sessions.factors
        ((person_id,),) = await sql(api.settings, "SELECT person_id FROM second_factor")
        proof = PasswordProof(UUID(str(person_id)), "a mark")
        pending = factors.pending(proof)
        assert factors.proof_of(pending) == proof
        for forged in (pending[:-4] + "AAAA", "", "x"):
            with pytest.raises(MailsiftError) as refused:
                factors.proof_of(forged)
            assert refused.value.code == "sign_in_again"


async def test_an_invitation_does_not_go_around_it_and_an_operator_resets_it(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        await set_up(client)
    async with open_container(api.settings) as container:
        people = container.people
        secret = await people.links.invite_from_terminal("other", email, Role.VIEWER, operator=False)
        async with browser(api) as thief:
            page = await thief.get(f"/invite?token={secret}")
            form = {"csrf": csrf_of(page.text), "token": secret, "password": PASSWORD}
            assert (await thief.post("/invite", data=form)).status_code == 401
            assert cookie(thief, SESSION) == ""
        await people.sessions.factors.reset(email, actor="cli")
    async with browser(api) as client:
        assert (await sign_in(client, email)).status_code == 303
