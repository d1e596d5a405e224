"""/keys: made and shown once, rolled with an overlap, revoked at once."""

from __future__ import annotations

import asyncio
import re

from mailsift.accounts.doors import Door
from mailsift.accounts.people import Role
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import audit_of, sql
from tests.support.sessions import csrf_of, post, signed_in

KEY = re.compile(r"svc_key_[0-9A-Za-z]{38}")


def secret_of(page: str) -> str:
    (found,) = set(KEY.findall(page))
    return str(found)


async def ids(api: Api) -> list[str]:
    return [str(id_) for (id_,) in await sql(api.settings, "SELECT id FROM api_key ORDER BY created_at")]


async def test_a_key_is_shown_once_and_may_what_was_ticked(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        page = await post(
            member, "/keys/new", name="Newsletter <b>", lifetime="30", scope=["jobs:read", "webhooks:read"]
        )
        assert page.status_code == 200
        assert page.headers["cache-control"] == "no-store"
        secret = secret_of(page.text)
        listed = (await member.get("/keys")).text
    assert secret not in listed
    assert "Newsletter &lt;b&gt;" in listed
    assert f"{secret[:12]}…" in listed
    assert "in 30 days" in listed
    async with api.client(secret) as client:
        assert (await client.get("/v1/bulk/jobs")).status_code == 200
        assert (await client.get("/v1/webhooks")).status_code == 200
        assert (await client.post("/v1/email/single-validate", json={"email": "a"})).status_code == 403
    assert [action for action, _ in await audit_of(api.settings)] == ["key.create"]
    assert secret not in str(await sql(api.settings, "SELECT audit::text FROM audit"))


async def test_two_clicks_make_one_key_and_show_it(api: Api) -> None:
    typed = {"name": "x", "lifetime": "0", "scope": "jobs:read"}
    async with signed_in(api) as owner:
        form = {"csrf": csrf_of((await owner.get("/keys/new")).text), **typed}
        first, second = await asyncio.gather(*(owner.post("/keys/new", data=form) for _ in range(2)))
        assert secret_of(first.text) == secret_of(second.text)
        changed = await owner.post("/keys/new", data={**form, "name": "y"})
        assert secret_of(changed.text) != secret_of(first.text)
        (key_id, _) = await ids(api)
        roll = {"csrf": csrf_of((await owner.get(f"/keys/{key_id}/roll")).text), "overlap": "3600"}
        new, again = [await owner.post(f"/keys/{key_id}/roll", data=roll) for _ in range(2)]
        assert secret_of(new.text) == secret_of(again.text)
    assert len(await ids(api)) == 3


SENSELESS: list[tuple[dict[str, str | list[str]], str]] = [
    ({"scope": []}, "at least one permission"),
    ({"scope": ["everything"]}, "at least one permission"),
    ({"lifetime": "12"}, "Choose one of the options"),
    ({"name": "x" * 81}, "too long"),
    ({"name": "a\u202eb"}, "an invisible character"),
]


async def test_a_key_that_makes_no_sense_is_not_made(api: Api) -> None:
    good: dict[str, str | list[str]] = {"name": "x", "lifetime": "0", "scope": ["jobs:read"]}
    async with signed_in(api) as owner:
        for fields, expected in SENSELESS:
            answer = await post(owner, "/keys/new", "/keys", **{**good, **fields})
            assert answer.status_code == 422, fields
            assert expected in answer.text, fields
    assert await ids(api) == []


async def test_a_form_that_comes_back_is_as_it_was_filled_in(api: Api) -> None:
    typed = {"name": "x", "lifetime": "30", "door": "forms", "origins": "nonsense", "test": "1"}
    async with signed_in(api) as owner:
        answer = await post(owner, "/keys/new", **typed)
        assert answer.status_code == 422
        assert 'name="test" type="checkbox" value="1" checked' in answer.text
        assert '<option value="forms" selected' in answer.text
        assert '<option value="30" selected' in answer.text
        assert 'value="nonsense"' in answer.text


async def test_a_rolled_key_has_a_successor_and_ends_when_it_was_said(api: Api) -> None:
    async with signed_in(api) as owner:
        old = secret_of((await post(owner, "/keys/new", name="x", lifetime="0", scope="jobs:read")).text)
        (key_id,) = await ids(api)
        assert "still" not in (await owner.get(f"/keys/{key_id}/roll")).text
        new = secret_of((await post(owner, f"/keys/{key_id}/roll", overlap="86400")).text)
        assert new != old
        for secret in (old, new):
            async with api.client(secret) as client:
                assert (await client.get("/v1/bulk/jobs")).status_code == 200
        listed = (await owner.get("/keys")).text
        assert "Expiring" in listed
        again = await post(owner, f"/keys/{key_id}/roll", overlap="0")
        assert again.headers["location"] == "/keys"
        assert "has been revoked or rolled" in (await owner.get("/keys")).text
    assert [action for action, _ in await audit_of(api.settings)] == ["key.create", "key.roll"]


async def test_a_revoked_key_opens_nothing_any_more(api: Api) -> None:
    async with signed_in(api) as owner:
        secret = secret_of((await post(owner, "/keys/new", name="x", lifetime="0", scope="jobs:read")).text)
        async with api.client(secret) as client:
            assert (await client.get("/v1/bulk/jobs")).status_code == 200
            (key_id,) = await ids(api)
            await post(owner, f"/keys/{key_id}/revoke")
            assert (await client.get("/v1/bulk/jobs")).status_code == 401
        listed = (await owner.get("/keys")).text
    assert "Keys that have ended (1)" in listed
    assert [action for action, _ in await audit_of(api.settings)] == ["key.create", "key.revoke"]


async def test_an_empty_list_says_what_to_do_to_who_can_do_it(api: Api) -> None:
    async with signed_in(api) as owner, signed_in(api, Role.VIEWER) as viewer:
        assert 'href="/keys/new"' in (await owner.get("/keys")).text
        page = (await viewer.get("/keys")).text
    assert "No keys yet" in page
    assert 'href="/keys/new"' not in page


async def test_a_key_for_a_door_is_offered_where_the_door_is_open(settings: Settings) -> None:
    opened = settings.model_copy(update={"doors": (Door.KICKBOX,)})
    async with running(opened) as api, signed_in(api) as owner:
        assert "Clients of Kickbox" in (await owner.get("/keys/new")).text
        fields: dict[str, str] = {"name": "x", "lifetime": "0", "scope": "validate:write"}
        page = (await post(owner, "/keys/new", **fields, door="kickbox")).text
        assert re.search(r"svc_kickbox_[0-9A-Za-z]{38}", page)
        assert "Authorization" not in page
        secret_of((await post(owner, "/keys/new", **fields, door="zerobounce")).text)
        pointless = {**fields, "scope": "webhooks:read"}
        assert (await post(owner, "/keys/new", "/keys", **pointless, door="kickbox")).status_code == 422
