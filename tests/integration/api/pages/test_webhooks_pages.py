"""/webhooks: registered with a secret shown once, tested, looked at, sent again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import product
from urllib.parse import urlsplit

import httpx
import pytest
import standardwebhooks

from mailsift.accounts.people import Role
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import audit_of, sql
from tests.support.receiver import Receiver, receiving, status
from tests.support.sessions import post, signed_in

COMPLETED = "bulk.validation.completed"
HOSTILE = b"<script>alert(1)</script>\x1b[2J thanks"


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Api]:
    """An API that may send to this machine."""
    here = settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})
    async with running(here) as found:
        yield found


async def registered(client: httpx.AsyncClient, receiver: Receiver) -> tuple[str, str]:
    """Register a webhook; returns its path and its secret."""
    made = await post(client, "/webhooks/new", url=receiver.url, type=["bulk.validation.completed"])
    assert made.status_code == 200, made.text
    (secret,) = set(re.findall(r"whsec_[A-Za-z0-9+/=]+", made.text))
    (path,) = set(re.findall(r'class="btn primary" href="(/webhooks/[0-9a-f-]{36})"', made.text))
    return path, secret


async def test_a_webhook_is_registered_and_its_secret_shown_once(api: Api) -> None:
    async with receiving() as receiver, signed_in(api, Role.MEMBER) as member:
        path, secret = await registered(member, receiver)
        for page in (path, "/webhooks", f"{path}/edit", "/account/log"):
            answer = await member.get(page)
            assert answer.status_code == 200
            assert secret not in answer.text
        assert receiver.url in (await member.get("/webhooks")).text
    assert await audit_of(api.settings) == [("webhook.create", urlsplit(receiver.url).hostname)]


async def test_an_address_that_is_none_is_refused_in_words_and_kept_in_the_form(api: Api) -> None:
    async with signed_in(api) as owner:
        answer = await post(owner, "/webhooks/new", url="ftp://example.com/x", type="bulk.validation.failed")
        assert answer.status_code == 422
        assert 'value="ftp://example.com/x"' in answer.text
        assert 'role="alert"' in answer.text
        assert re.search(r'value="bulk.validation.failed" checked', answer.text)
        assert not re.search(r'value="bulk.validation.completed" checked', answer.text)


@pytest.mark.parametrize("sample", ["test_webhook", "bulk_validate_success", "bulk_validate_failed"])
async def test_each_test_is_sent_signed_and_its_outcome_shown(api: Api, sample: str) -> None:
    async with receiving(status(200, body=b"thanks")) as receiver, signed_in(api) as owner:
        path, secret = await registered(owner, receiver)
        sent = await post(owner, f"{path}/test", sample=sample)
        assert sent.status_code == 303
        page = (await owner.get(sent.headers["location"])).text
        assert "The test arrived." in page
        assert "The receiver answered 200" in page
        (request,) = receiver.requests
        standardwebhooks.Webhook(secret).verify(request.body.decode(), request.headers)
        assert request.headers["webhook-test"] == "true"


async def test_what_a_receiver_says_is_text(api: Api) -> None:
    async with receiving(status(500, body=HOSTILE)) as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        sent = await post(owner, f"{path}/test", sample="test_webhook")
        page = (await owner.get(sent.headers["location"])).text
        (delivery,) = set(re.findall(r"/webhooks/deliveries/[0-9a-f-]{36}", page))
        for text in (page, (await owner.get(delivery)).text):
            assert "&lt;script&gt;alert(1)&lt;/script&gt;\N{REPLACEMENT CHARACTER}[2J thanks" in text
            assert "<script>alert" not in text
        assert "The test did not arrive." in page
        assert "The receiver had an internal error." in page


async def test_a_webhook_is_changed_disabled_enabled_and_deleted(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        other = receiver.url + "/2"
        bad = await post(owner, f"{path}/edit", url="nonsense", type="bulk.validation.completed")
        assert bad.status_code == 422
        await post(
            owner, f"{path}/edit", url=other, type=["bulk.validation.completed", "bulk.validation.failed"]
        )
        page = (await owner.get(path)).text
        assert other in page
        assert "<dd>All</dd>" in page
        await post(owner, f"{path}/switch", enabled="no")
        assert "It was disabled here." in (await owner.get(path)).text
        await post(owner, f"{path}/switch", enabled="yes")
        assert "This webhook is disabled" not in (await owner.get(path)).text
        assert (await post(owner, f"{path}/delete")).headers["location"] == "/webhooks"
        assert (await owner.get(path)).status_code == 404
    assert [action for action, _ in await audit_of(api.settings)] == [
        "webhook.create",
        "webhook.update",
        "webhook.disable",
        "webhook.enable",
        "webhook.delete",
    ]


async def test_a_webhook_without_an_event_is_refused_and_its_form_stays_empty(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        for form in ("/webhooks/new", f"{path}/edit"):
            answer = await post(owner, form, url=receiver.url, rate="")
            assert (answer.status_code, "Choose at least one event." in answer.text) == (422, True), form
            assert not re.search(r'name="type"[^>]* checked', answer.text), form
        assert len(await sql(api.settings, "SELECT id FROM endpoint")) == 1


async def test_a_pace_that_is_none_is_refused_in_words_and_kept_in_the_form(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        for form, rate in product(
            ("/webhooks/new", f"{path}/edit"), ("fast", "0", "0.01", "nan", "inf", "1000")
        ):
            answer = await post(owner, form, url=receiver.url, type=COMPLETED, rate=rate)
            assert answer.status_code == 422, (form, rate)
            assert f'value="{rate}"' in answer.text, form
            assert 'role="alert"' in answer.text, (form, rate)
        assert "At most 10 requests a second" in (await owner.get(path)).text


async def test_the_pace_of_a_webhook_is_set_and_taken_back(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        await post(owner, f"{path}/edit", url=receiver.url, type=COMPLETED, rate="2.5")
        assert "At most 2.5 requests a second" in (await owner.get(path)).text
        assert 'type="number" value="2.5"' in (await owner.get(f"{path}/edit")).text
        await post(owner, f"{path}/edit", url=receiver.url, type=COMPLETED, rate="")
        assert "At most 10 requests a second" in (await owner.get(path)).text


async def test_a_new_secret_signs_from_now_on_and_the_old_one_too_for_a_while(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, old = await registered(owner, receiver)
        page = (await post(owner, f"{path}/rotate", overlap="3600")).text
        (new,) = set(re.findall(r"whsec_[A-Za-z0-9+/=]+", page))
        assert new != old
        await post(owner, f"{path}/test", sample="test_webhook")
        (request,) = receiver.requests
        for secret in (old, new):
            standardwebhooks.Webhook(secret).verify(request.body.decode(), request.headers)
        assert "The previous secret also signs until" in (await owner.get(path)).text


async def test_what_was_given_up_is_sent_again_one_or_all(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner:
        path, _ = await registered(owner, receiver)
        await sql(
            api.settings,
            "WITH e AS (INSERT INTO event (id, account_id, type, body, created_at)"
            " SELECT gen_random_uuid(), a.id, 'bulk.validation.completed', '{}', now()"
            " FROM account a, generate_series(1, 30) RETURNING id)"
            " INSERT INTO delivery (event_id, endpoint_id, state, attempts, finished_at, created_at)"
            " SELECT e.id, p.id, 'exhausted', 10, now(), now() - random() * interval '1 hour'"
            " FROM e, endpoint p",
        )
        first = (await owner.get(f"{path}/deliveries")).text
        deliveries = re.findall(r"/webhooks/deliveries/([0-9a-f-]{36})", first)
        assert len(deliveries) == 25
        (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
        rest = re.findall(r"/webhooks/deliveries/([0-9a-f-]{36})", (await owner.get(following)).text)
        assert len(set(deliveries + rest)) == 30
        one = await post(owner, f"/webhooks/deliveries/{deliveries[0]}/redeliver")
        assert one.headers["location"] == f"/webhooks/deliveries/{deliveries[0]}"
        assert "Waiting to be sent" in (await owner.get(one.headers["location"])).text
        await post(owner, f"{path}/redeliver", days="7")
        assert await sql(api.settings, "SELECT state, count(*) FROM delivery GROUP BY 1") == [("pending", 30)]
        await post(owner, f"{path}/switch", enabled="no")
        refused = await post(owner, f"{path}/redeliver", days="7")
        assert refused.status_code == 303
        assert "Enable it first" in (await owner.get(f"{path}/deliveries")).text


async def test_a_viewer_sees_webhooks_but_no_buttons(api: Api) -> None:
    async with receiving() as receiver, signed_in(api) as owner, signed_in(api, Role.VIEWER) as viewer:
        path, _ = await registered(owner, receiver)
        for page in ("/webhooks", path, f"{path}/deliveries"):
            answer = await viewer.get(page)
            assert answer.status_code == 200
            assert set(re.findall(r'action="([^"]+)"', answer.text)) == {"/logout", "/account/you/zone"}
        assert (await viewer.get(f"{path}/edit")).status_code == 403
        assert (await viewer.get("/webhooks/new")).status_code == 403
