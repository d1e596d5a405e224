"""Every page that takes an id, asked by another account: a foreign one is answered as one that nobody has."""

from __future__ import annotations

import base64
import re
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from mailsift.api import pages
from mailsift.settings import Settings
from tests.integration.api.conftest import Api
from tests.integration.api.pages.test_page_access import OPEN, code_of
from tests.support.sessions import csrf_of, post, signed_in

LIST = b"email\nann@example.com\n"
CRON = {"cron": "0 6 * * 1", "zone": "Europe/Berlin"}
FORMS: dict[str, dict[str, str]] = {
    "/keys/{key_id:uuid}/roll": {"overlap": "0"},
    "/account/members/{person_id:uuid}/role": {"role": "viewer"},
    "/jobs/{job_id:uuid}/changes": {"against": "6dc3ab5f-93a9-4d0b-9d0f-1ad0a1e2d001"},
    "/jobs/{job_id:uuid}/what-if": {"policy": '{"role": "send"}'},
    "/lists/{draft_id:uuid}/start": {"mode": "fast", "priority": "normal"},
    "/schedules/{schedule_id:uuid}/edit": {
        "name": "mine now",
        "rhythm": "",
        **CRON,
        "recheck": "all",
        "overlap": "skip",
        "catch_up": "none",
        "jitter": "0",
        "failures": "5",
    },
    "/webhooks/{webhook_id:uuid}/edit": {"url": "http://127.0.0.1:9/mine", "type": "webhook.test"},
    "/webhooks/{webhook_id:uuid}/rotate": {"overlap": "0"},
    "/webhooks/{webhook_id:uuid}/switch": {"enabled": "no"},
    "/webhooks/{webhook_id:uuid}/redeliver": {"days": "1"},
    "/webhooks/{webhook_id:uuid}/test": {"sample": "test_webhook"},
}
"""What a page takes besides the id, so that it gets as far as to look for that."""
ACTIONS = ("pause", "resume", "cancel", "rerun", "retry", "promote", "delete", "priority")
TUS = {"Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}


def pages_with_ids() -> list[tuple[str, str]]:
    """Return method and path of every page that takes an id."""
    found = [one for router in pages.ROUTERS for one in router.routes if isinstance(one, APIRoute)]
    return sorted(
        (method, one.path)
        for one in found
        for method in one.methods or ()
        if "_id:uuid}" in one.path and one.path not in OPEN
    )


async def _uploaded(client: httpx.AsyncClient, data: bytes) -> str:
    head = {"X-CSRF-Token": csrf_of((await client.get("/account/you")).text), **TUS}
    named = {
        "Upload-Length": str(len(LIST)),
        "Upload-Metadata": f"filename {base64.b64encode(b'l.csv').decode()}",
    }
    place = (await client.post("/uploads", headers={**head, **named})).headers["location"]
    assert (await client.patch(place, headers=head, content=data)).status_code == 204
    return place.rpartition("/")[2]


async def things(api: Api, client: httpx.AsyncClient) -> dict[str, str]:
    """Make one object of every kind in the account of this session; returns their ids by name."""
    async with api.client(await api.key("alice")) as program:
        job = (await program.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"][
            "job_id"
        ]
        hook = (await program.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/hook"})).json()["data"][
            "id"
        ]
        body = {"test_type": "test_webhook", "webhook_id": hook}
        tested = (await program.post("/v1/webhooks/test", json=body)).json()["data"]
        schedule = (await program.post("/v1/bulk/schedules", json={"job_id": job, **CRON})).json()["data"]
        receiver = (await program.post("/v1/outcomes/receivers", json={"sender": "brevo"})).json()["data"]
    await post(client, "/account/invite", "/account", email="new@people.test", role="viewer")
    await post(client, "/account/data/erase", "/account/data", what="outcomes", name="alice")
    pages = "".join([(await client.get(page)).text for page in ("/account", "/account/data", "/keys")])
    return {
        "job_id": job,
        "webhook_id": hook,
        "delivery_id": tested["delivery_id"],
        "schedule_id": schedule["id"],
        "receiver_id": receiver["receiver_id"],
        "draft_id": await _uploaded(client, LIST),
        "upload_id": await _uploaded(client, LIST[:5]),
        **{
            name: re.findall(rf"/{kind}/([0-9a-f-]{{36}})", pages)[0]
            for name, kind in (
                ("link_id", "invitations"),
                ("person_id", "members"),
                ("key_id", "keys"),
                ("receipt_id", "receipts"),
            )
        },
    }


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Webhooks of this machine may be dialled."""
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})


async def test_a_foreign_id_is_answered_as_one_that_nobody_has(api: Api) -> None:
    async with signed_in(api, account="alice") as alice, signed_in(api, account="bob") as bob:
        ids = await things(api, alice)
        token = csrf_of((await bob.get("/keys")).text)
        before, odd = await _seen(alice, ids), []
        assert len(pages_with_ids()) > 40
        for method, path in pages_with_ids():
            (name,) = re.findall(r"{(\w+_id):uuid}", path)
            for action in ACTIONS if "{action}" in path else ("",):
                answers = []
                for id_ in (ids[name], str(uuid4())):
                    url = re.sub(r"{\w+:int}", "1", path.replace(f"{{{name}:uuid}}", id_))
                    answers.append(
                        await bob.request(
                            method,
                            url.replace("{action}", action),
                            params=FORMS.get(path) if method == "GET" else None,
                            data={"csrf": token, **FORMS.get(path, {})} if method == "POST" else None,
                            headers={"X-CSRF-Token": token, **TUS} if path.startswith("/uploads") else {},
                        )
                    )
                answered = [(one.status_code, code_of(one)) for one in answers]
                if answered[0] != answered[1] or answered[0][0] != 404:
                    odd.append((method, path, action, *answered))
        assert not odd, "\n".join(map(str, odd))
        assert await _seen(alice, ids) == before


async def _seen(client: httpx.AsyncClient, ids: dict[str, str]) -> list[str]:
    """Return what the account sees of its things, without what is new in every answer."""
    paths = ["/jobs", "/keys", "/webhooks", "/schedules", "/account", "/account/data", "/outcomes"]
    paths += [f"/webhooks/{ids['webhook_id']}/edit", f"/schedules/{ids['schedule_id']}/edit"]
    texts = [(await client.get(path)).text for path in paths]
    return [re.sub(r"[0-9a-f]{64}|req_[0-9a-f]+|nonce-\S+|<time.*?</time>", "", one) for one in texts]
