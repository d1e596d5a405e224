"""What really happened, and whom not to send to, on pages."""

from __future__ import annotations

import httpx

from mailsift.accounts.people import Role
from tests.integration.api.conftest import Api
from tests.integration.api.pages.lists import words
from tests.support.sessions import csrf_of, post, signed_in


async def drop(client: httpx.AsyncClient, path: str, data: bytes) -> str:
    """Drop a file on a page; returns what the page says then."""
    form = {"csrf": csrf_of((await client.get("/account/you")).text)}
    answer = await client.post(path, data=form, files={"file": ("it.csv", data)})
    assert answer.status_code == 303, answer.text
    return words((await client.get(answer.headers["location"])).text)


async def test_a_dropped_file_is_counted_and_fills_the_list(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        csv = b"email,event\nann@example.com,delivered\nbob@example.com,complaint\ncy@example.com,sent\n"
        said = await drop(client, "/outcomes", csv)
        assert "2 new outcomes, 0 known already, 1 rows not understood." in said
        assert "No column" in await drop(client, "/outcomes", b"email,name\nann@example.com,Ann\n")
        assert "2 new addresses" in await drop(
            client, "/suppressions/import", b"email\ndora@example.com\n<i>@example.com\nerin@example.com\n"
        )
        pasted = "finn@example.com, gus@example.com\nno"
        added = await post(client, "/suppressions", emails=pasted, reason="manual")
        assert added.headers["location"] == "/suppressions"
        page = words((await client.get("/suppressions")).text)
        assert "5 addresses" in page
        assert "bob@example.com Complained file" in page
        await post(client, "/suppressions/remove", email="gus@example.com")
        gone = await client.get("/suppressions", params={"email": "gus@example.com"})
        assert "Not on the list" in gone.text
        found = await client.get("/suppressions", params={"email": "FINN@example.com"})
        assert "finn@example.com By hand page" in words(found.text)
    async with signed_in(api, Role.VIEWER) as client:
        assert "Read the file" not in (await client.get("/outcomes")).text
        refused = await post(client, "/suppressions", emails="x@example.com", reason="manual")
        assert refused.status_code == 403
