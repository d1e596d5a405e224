"""What is kept of an account, until when; erased on request, with a receipt that names nobody."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

from mailsift.accounts.people import Role
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import sql, words
from tests.support.installation import open_parts
from tests.support.leftovers import in_tables
from tests.support.sessions import post, signed_in

MARK = "canary7f3a"
ALL = ["lists", "outcomes", "suppressions"]


async def _furnished(api: Api, account: str) -> None:
    """Fill an account with a list that has ended, one that has not, an upload, an outcome, a suppression."""
    source = api.settings.home / f"{account}.csv"
    source.write_text(f"email\n{MARK}@{account}.example\n")
    async with open_parts(api.settings) as parts:
        owner = await parts.jobs.account(account)
        options = JobOptions(name=f"{MARK} of {account}", mode=Mode.FAST)
        await parts.jobs.submit(owner, source, options)
        job = await parts.jobs.submit(owner, source, options)
        await parts.drafts.receive(owner, _pieces(source.read_bytes()), f"{MARK}.csv")
    ended = "UPDATE job SET state = 'completed', finished_at = now(), total = 1 WHERE id = :id"
    await sql(api.settings, ended, id=job)
    for table, columns, values in (
        ("suppression", "address, sealed, reason", "'x', 'x', 'manual'"),
        (
            "outcome",
            "report, address, sealed, kind, answer, rule, smtp_code, enhanced, said, origin, happened_at",
            "'x', 'x', 'x', 'delivered', '', '', 250, '', '', '', '2026-07-01'",
        ),
    ):
        await sql(
            api.settings,
            f"INSERT INTO {table} (account_id, {columns})"  # noqa: S608 - texts of this file
            f" SELECT id, {values} FROM account WHERE name = :name",
            name=account,
        )


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_what_is_erased_is_gone_the_rest_stays_and_a_receipt_says_so(api: Api) -> None:
    await _furnished(api, "alice")
    await _furnished(api, "bob")
    async with signed_in(api) as owner, signed_in(api, account="bob") as bob:
        page = words((await owner.get("/account/data")).text)
        for sentence in (
            "2 lists, 1 row,",
            "Uploads not started 1 list",
            "730 days after the message; the first goes on 30 Jun 2028",
            "1 list that is still being",
        ):
            assert sentence in page, sentence
        await post(owner, "/account/data/erase", what=["lists"], name="bob")
        await post(owner, "/account/data/erase", name="alice")
        before = await _kept(api)
        assert before == {"alice": [2, 1, 1], "bob": [2, 1, 1]}
        answer = await post(owner, "/account/data/erase", what=ALL, name="alice")
        assert answer.status_code == 303, answer.text
        assert await _kept(api) == {"alice": [1, 0, 0], "bob": [2, 1, 1]}
        ((receipt,),) = await sql(api.settings, "SELECT id FROM erasure_receipt")
        path = f"/account/data/receipts/{receipt}.json"
        found = json.loads((await owner.get(path)).text)
        assert found["erased"] == {"lists": 1, "rows": 1, "drafts": 1, "outcomes": 1, "suppressions": 1}
        assert "@" not in json.dumps(found)
        assert "receipt" in (await owner.get("/account/data")).text
        assert (await bob.get(path)).status_code == 404
        assert "Receipts" not in (await bob.get("/account/data")).text
        assert re.search(r"erased \([^)]*\blists: 1\b", words((await owner.get("/account/log")).text))
        await sql(
            api.settings, "UPDATE job SET state = 'completed', finished_at = now() WHERE finished_at IS NULL"
        )
        for client, name in ((owner, "alice"), (bob, "bob")):
            await post(client, "/account/data/erase", what=ALL, name=name)
    assert await in_tables(api.settings, MARK) == set()
    assert [path for path in (api.settings.home / "blobs").rglob("*") if path.is_file()] == []


async def _kept(api: Api) -> dict[str, list[int]]:
    rows = await sql(
        api.settings,
        "SELECT name, (SELECT count(*) FROM job WHERE account_id = a.id),"
        " (SELECT count(*) FROM outcome WHERE account_id = a.id),"
        " (SELECT count(*) FROM suppression WHERE account_id = a.id) FROM account a WHERE test_of IS NULL",
    )
    return {str(name): [int(str(one)) for one in counts] for name, *counts in rows}


async def test_only_owners_erase_and_every_member_sees_what_is_kept(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        assert "Erase now" not in (await member.get("/account/data")).text
        assert (await post(member, "/account/data/erase", what=ALL, name="alice")).status_code == 403
        assert (await member.get(f"/account/data/receipts/{uuid4()}.json")).status_code == 404


async def test_outcomes_are_kept_for_as_long_as_the_operator_says(
    make_settings: Callable[..., Settings],
) -> None:
    settings = make_settings(api_port=0, dns_servers=("127.0.0.1:9",), outcome_days=90)
    async with running(settings) as api:
        await _furnished(api, "alice")
        async with signed_in(api) as owner:
            page = words((await owner.get("/account/data")).text)
    assert "90 days after the message; the first goes on 29 Sep 2026" in page


async def test_what_a_test_key_uploaded_and_nobody_started_is_shown_and_erased_too(api: Api) -> None:
    async with signed_in(api) as owner, open_parts(api.settings) as parts:
        testing = await parts.keys.test_account(await parts.jobs.account("alice"))
        await parts.drafts.receive(testing, _pieces(b"ann@test.example\n"), "tried.csv")
        assert "Uploads not started 1 list" in words((await owner.get("/account/data")).text)
        await post(owner, "/account/data/erase", what=["lists"], name="alice")
        assert await parts.drafts.waiting(testing) == []
