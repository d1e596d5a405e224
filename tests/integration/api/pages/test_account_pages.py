"""/account: members and roles, retention, the audit log."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest
from sqlalchemy import text

from mailsift.accounts.people import Role
from mailsift.container import open_container, open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import audit_of, sql, wait_for_locks
from tests.support.parts import open_database
from tests.support.sessions import PASSWORD, browser, csrf_of, person, post, sign_in, signed_in


async def ids_of(api: Api) -> dict[str, str]:
    return {str(email): str(id_) for email, id_ in await sql(api.settings, "SELECT email, id FROM person")}


async def test_a_role_counts_from_the_next_request_on(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    async with signed_in(api) as owner, browser(api) as member:
        await sign_in(member, email)
        assert (await member.get("/keys/new")).status_code == 200
        person_id = (await ids_of(api))[email]
        answer = await post(owner, f"/account/members/{person_id}/role", role="viewer")
        assert answer.headers["location"] == "/account"
        assert "The role is now viewer." in (await owner.get("/account")).text
        assert (await member.get("/keys/new")).status_code == 403
        assert "New key" not in (await member.get("/keys")).text
    assert ("member.role", email) in await audit_of(api.settings)


async def test_who_is_removed_is_out_at_once(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    async with signed_in(api) as owner, browser(api) as member:
        await sign_in(member, email)
        person_id = (await ids_of(api))[email]
        await post(owner, f"/account/members/{person_id}/remove")
        assert (await member.get("/keys")).status_code == 303
        again = await post(owner, f"/account/members/{person_id}/remove")
        assert again.status_code == 404
    assert await audit_of(api.settings) == [("member.remove", email)]


async def test_who_is_deleted_does_not_come_back_by_a_link(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    await person(api)
    async with open_container(api.settings) as container, browser(api) as client:
        people = container.people
        invitation = await people.links.invite_from_terminal("beta", email, Role.OWNER)
        forgotten = await people.links.new_password(email)
        await people.members.remove_person(email, actor="cli")
        for path, secret in (("invite", invitation), ("password", forgotten)):
            assert (await client.get(f"/{path}?token={secret}")).status_code == 404


@pytest.mark.parametrize("change", ["role", "remove"])
async def test_an_invitation_opens_nothing_once_who_made_it_may_invite_nobody(api: Api, change: str) -> None:
    maker = await person(api)
    async with signed_in(api) as owner, browser(api) as client:
        await sign_in(client, maker)
        made = await post(client, "/account/invite", email="eve@people.test", role="owner")
        token = re.findall(r"/invite\?token=([\w-]+)", made.text)[0]
        assert (await owner.get(f"/invite?token={token}")).status_code == 200
        await post(owner, f"/account/members/{(await ids_of(api))[maker]}/{change}", role="member")
        assert "eve@people.test" not in (await owner.get("/account")).text
        assert (await owner.get(f"/invite?token={token}")).status_code == 404


async def test_an_invitation_takes_nothing_from_who_is_a_member_by_now(api: Api) -> None:
    async with open_container(api.settings) as container:
        links = container.people.links
        secret = await links.invite_from_terminal("alice", "ada@people.test", Role.VIEWER)
        await links.add_member("alice", "ada@people.test", Role.OWNER, PASSWORD, operator=False)
        with pytest.raises(MailsiftError, match="link_gone"):
            await links.accept(secret, password=PASSWORD, client="")
    assert await sql(api.settings, "SELECT role FROM member") == [("owner",)]


async def test_the_terminal_takes_no_account_its_last_owner_either(api: Api) -> None:
    email = await person(api)
    with pytest.raises(MailsiftError, match="last_owner"):
        await person(api, Role.VIEWER, email=email)
    await person(api)
    await person(api, Role.VIEWER, email=email)
    assert await sql(api.settings, "SELECT role FROM member ORDER BY role") == [("owner",), ("viewer",)]


async def test_the_last_owner_stays_one(api: Api) -> None:
    async with signed_in(api) as owner, signed_in(api, Role.MEMBER):
        (owner_id,) = [id_ for email, id_ in (await ids_of(api)).items() if email.startswith("owner")]
        for path, fields in [("role", {"role": "member"}), ("remove", {})]:
            answer = await post(owner, f"/account/members/{owner_id}/{path}", **fields)
            assert answer.status_code == 303
            assert "only owner" in (await owner.get("/account")).text
        assert (await owner.get("/account")).status_code == 200
        assert (await post(owner, f"/account/members/{owner_id}/role", role="owner")).status_code == 303


async def test_two_owners_cannot_remove_each_other_at_once(api: Api) -> None:
    async with signed_in(api) as one, signed_in(api) as two:
        ids = list((await ids_of(api)).values())
        tokens = [csrf_of((await client.get("/account")).text) for client in (one, two)]
        database = open_database(api.settings)
        async with database.begin() as connection:
            await connection.execute(text("SELECT id FROM account FOR UPDATE"))  # both come to wait here
            both = asyncio.gather(
                one.post(f"/account/members/{ids[1]}/remove", data={"csrf": tokens[0]}),
                two.post(f"/account/members/{ids[0]}/remove", data={"csrf": tokens[1]}),
            )
            await wait_for_locks(api, 2)
        await both
        await database.aclose()
    assert await sql(api.settings, "SELECT count(*) FROM member WHERE role = 'owner'") == [(1,)]


async def test_new_jobs_are_kept_as_long_as_the_account_says(api: Api) -> None:
    source = api.settings.home / "list.csv"
    source.write_text("email\na@example.com\n")
    async with signed_in(api) as owner, open_service(api.settings) as service:
        account = await service.account("alice")
        before = await service.submit(account, source, JobOptions())
        await post(owner, "/account/retention", retention=str(30 * 86_400))
        assert '<option value="2592000" selected>' in (await owner.get("/account")).text
        assert "kept: 30 days" in (await owner.get("/account/log")).text
        default = await service.submit(account, source, JobOptions())
        own = await service.submit(account, source, JobOptions(retention_s=3_600))
        views = {job: await service.get(account, job) for job in (before, default, own)}
    assert views[before].expires_at is None
    for job, kept in ((default, timedelta(days=30)), (own, timedelta(hours=1))):
        expires_at = views[job].expires_at
        assert expires_at is not None
        assert abs(expires_at - views[job].created_at - kept) < timedelta(seconds=1)


async def test_a_viewer_sees_members_but_no_buttons(api: Api) -> None:
    async with signed_in(api) as owner, signed_in(api, Role.VIEWER) as viewer:
        await post(owner, "/account/invite", email="grace@example.com", role="member")
        page = (await viewer.get("/account")).text
    assert "owner" in page
    assert "Invite someone" not in page
    assert "grace@example.com" not in page
    forms = re.findall(r'action="([^"]+)"', page)
    assert set(forms) == {"/logout", "/account/you/zone"}, "and what is their own"


async def test_the_log_is_the_accounts_own_and_goes_page_by_page(api: Api) -> None:
    async with signed_in(api) as owner, signed_in(api, account="bob") as bob:
        await sql(
            api.settings,
            "INSERT INTO audit (account_id, actor, action, subject, detail)"
            " SELECT a.id, 'ada@example.com', 'key.create', 'svc_key_' || n || '_',"
            " jsonb_build_object('name', 'key ' || n || '.', 'scopes', '[\"a b\"]'::jsonb)"
            " FROM account a, generate_series(1, 120) n WHERE a.name = 'alice'",
        )
        seen: list[int] = []
        path = "/account/log"
        pages = 0
        while path:
            page = (await owner.get(path)).text
            seen += [int(n) for n in re.findall(r"“key (\d+)\.”", page)]
            found = re.search(r'rel="next" href="([^"]+)"', page)
            path, pages = found[1].replace("&amp;", "&") if found else "", pages + 1
        assert seen == list(range(120, 0, -1))
        assert pages == 3
        assert "created the key" in (await owner.get("/account/log")).text
        assert "scopes: a b" in (await owner.get("/account/log")).text
        assert "svc_key_" not in (await owner.get("/account/log")).text, "nothing of a key itself"
        assert "key 7" not in (await bob.get("/account/log")).text
        assert (await owner.get("/account/log?before=-1")).status_code == 422


async def test_what_somebody_else_wrote_is_text(api: Api) -> None:
    """Hostile names of an account, of a member, in the log."""
    hostile = "<script>alert(1)</script>"
    async with signed_in(api, account=hostile) as owner:
        await sql(
            api.settings,
            "INSERT INTO audit (account_id, actor, action, subject, detail)"
            " SELECT id, :x, :x, :x, jsonb_build_object(CAST(:x AS text), CAST(:x AS text)) FROM account",
            x=hostile,
        )
        for path in ("/account", "/account/log", "/account/you"):
            page = (await owner.get(path)).text
            assert hostile not in page
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


async def test_everybody_chooses_what_they_get_mail_of(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as viewer:
        assert (await viewer.get("/account/you")).text.count("checked") == 0
        await post(viewer, "/account/you/mail", mail=["failed", "waiting", "nonsense"])
        page = (await viewer.get("/account/you")).text
        assert re.findall(r'value="(\w+)"[^>]* checked', page) == ["failed", "waiting"]
        await post(viewer, "/account/you/mail")
        assert (await viewer.get("/account/you")).text.count("checked") == 0
