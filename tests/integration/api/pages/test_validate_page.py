"""One address on the first page: its verdict, with the facts behind it, and nobody's words as markup."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import pytest

from mailsift.accounts.people import Role
from mailsift.settings import Settings
from tests.integration.api.conftest import Api
from tests.support.hostile_texts import SCRIPT, shown_as_text
from tests.support.sessions import csrf_of, post, signed_in
from tests.unit.pipeline.dns_stub import DnsStub, Says, serving
from tests.unit.pipeline.smtp_stub import Mailer, mailing

ZONE = {
    "shop.example": {"MX": Says(["10 mx.shop.example."])},
    "mx.shop.example": {"A": Says(["127.0.0.1"])},
}


def says(address: str) -> str:
    if address.startswith("ann@"):
        return "250 2.1.5 Ok"
    return f"550 5.1.1 User unknown {SCRIPT}"


@pytest.fixture
async def mailer() -> AsyncIterator[tuple[Mailer, int]]:
    mailer = Mailer(rcpt=says, banner=f"220 {SCRIPT} ESMTP")
    async with mailing(mailer) as port:
        yield mailer, port


@pytest.fixture
async def dns() -> AsyncIterator[DnsStub]:
    async with serving(ZONE) as stub:
        yield stub


@pytest.fixture
def settings(make_settings: Callable[..., Settings], mailer: tuple[Mailer, int], dns: DnsStub) -> Settings:
    return make_settings(
        sandbox={},
        api_port=0,
        dns_servers=(dns.server,),
        smtp_port=mailer[1],
        allow_non_public=True,
        preflight_domains=("shop.example",),
        dns_canaries=(),
    )


def words(page: str) -> str:
    """Return what a page says, without its markup."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


async def test_a_verdict_comes_with_facts_that_can_be_checked(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        answer = await post(client, "/", page="/", email="ann@shop.example", mode="deep")
    text = words(answer.text)
    assert answer.status_code == 200
    for fact in (
        "Deliverable",
        "DNS says takes mail",
        "MX 10 mx.shop.example (127.0.0.1)",
        "Code 250 2.1.5",
        "A mailbox that cannot exist refused",
        "Score 95",
        "The mail server accepts this mailbox and refuses one that cannot exist. 95",
    ):
        assert fact in text, fact
    assert 'class="gauge"' in answer.text


async def test_what_a_server_says_is_shown_as_text(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        answer = await post(client, "/", page="/", email="bob@shop.example", mode="deep")
    assert "mailbox_not_found" in answer.text
    assert shown_as_text(answer.text, SCRIPT)


@pytest.mark.parametrize("mode", ["fast", "medium"])
async def test_other_modes_say_what_they_did_not_ask(api: Api, mode: str) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        answer = await post(client, "/", page="/", email="info@shop.example", mode=mode)
    text = words(answer.text)
    assert ("not asked in fast mode" in text) == (mode == "fast")
    assert "Role address yes" in text
    assert "A role address such as info@ or sales@ -5" in text
    assert "Mailbox The server" not in text


async def test_what_clearly_means_an_address_is_repaired_where_that_was_ticked(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        typed = {"email": "Info Desk <info@shop.example>", "mode": "fast"}
        plain = await post(client, "/", page="/", **typed)
        repaired = await post(client, "/", page="/", **typed, repair="on")
    assert "Did you mean info@shop.example?" in words(plain.text)
    assert "Judged as" not in words(plain.text)
    assert "Validated as info@shop.example." in words(repaired.text)
    assert "Judged as info@shop.example" in words(repaired.text)


async def test_marks_that_nobody_sees_beside_a_pasted_address_are_no_error(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        answer = await post(client, "/", page="/", email="\u202aann@shop.example\u202c", mode="fast")
        assert answer.status_code == 200
        assert "Judged as ann@shop.example" in words(answer.text)
        blank = await post(client, "/", page="/", email=" \t", mode="fast")
        assert (blank.status_code, "Enter an email address first." in blank.text) == (422, True)


async def test_a_script_gets_the_verdict_alone_and_errors_as_json(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        token = csrf_of((await client.get("/")).text)
        headers = {"X-Fragment": "1", "X-CSRF-Token": token, "Accept": "application/json"}
        answer = await client.post("/", data={"email": SCRIPT, "mode": "fast"}, headers=headers)
        assert answer.text.lstrip().startswith("<section")
        assert shown_as_text(answer.text, SCRIPT)
        refused = await client.post("/", data={"email": " ", "mode": "fast"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_option")


async def test_a_viewer_is_told_why_there_is_no_form(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as client:
        page = await client.get("/")
        assert "ask an owner of alice" in page.text
        assert 'name="email"' not in page.text
        assert (await post(client, "/", page="/", email="a@b.example", mode="fast")).status_code == 403


async def test_the_page_says_how_large_a_list_may_be_in_the_words_of_its_refusal(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        assert "also gzipped, up to 250 MiB." in words((await client.get("/")).text)
