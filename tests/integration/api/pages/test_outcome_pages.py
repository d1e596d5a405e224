"""What really happened, who tells of it, the policy, and whom not to send to, on pages."""

from __future__ import annotations

import re

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
        answer = await drop(client, "/outcomes", csv)
        assert "2 new outcomes, 0 known already, 1 not understood." in answer
        assert "No column" in await drop(client, "/outcomes", b"email,name\nann@example.com,Ann\n")
        assert "2 new addresses" in await drop(
            client, "/suppressions/import", b"email\ndora@example.com\n<i>@example.com\nerin@example.com\n"
        )
        added = await post(
            client, "/suppressions", emails="finn@example.com; gus@example.com", reason="manual"
        )
        assert added.headers["location"] == "/suppressions"
        odd = await post(client, "/suppressions", emails="hal@example.com", reason="hearsay")
        assert (odd.status_code, "Choose one of the options" in odd.text) == (422, True)
        page = words((await client.get("/suppressions")).text)
        assert "5 addresses" in page
        assert "bob@example.com Complained file" in page
        await post(client, "/suppressions/remove", email="gus@example.com")
        gone = await client.get("/suppressions", params={"email": "gus@example.com"})
        assert "Not on the list" in gone.text
        nonsense = await client.get("/suppressions", params={"email": "jane@"})
        assert "This is not an email address" in nonsense.text
        assert "You can send" not in nonsense.text
        found = await client.get("/suppressions", params={"email": "FINN@example.com"})
        assert "finn@example.com By hand page" in words(found.text)
        for path, first in (
            ("/outcomes/export.csv", "email,event,timestamp,reason,shows,origin"),
            ("/suppressions/export", "email,reason,origin,since"),
            ("/suppressions/export?format=sendgrid", "email,created"),
            ("/suppressions/export?format=ses", '{"emailAddress": '),
        ):
            file = await client.get(path)
            assert file.headers["content-disposition"].startswith("attachment")
            assert file.text.startswith(first)
            assert "bob@example.com" in file.text
            assert path in (await client.get(path.rpartition("/")[0])).text
    async with signed_in(api, Role.VIEWER) as client:
        assert "Upload the file" not in (await client.get("/outcomes")).text
        refused = await post(client, "/suppressions", emails="x@example.com", reason="manual")
        assert refused.status_code == 403


async def test_what_was_pasted_and_is_no_address_stays_to_be_mended(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        typed = "finn@example.com, gus@example\n<i>no</i> finn@example.com"
        answer = await post(client, "/suppressions", emails=typed, reason="complained")
        assert answer.status_code == 422
        assert "1 new addresses, 1 known already, 2 not understood" in words(answer.text)
        assert re.findall(r"<textarea[^>]*>([^<]*)<", answer.text) == ["gus@example\n&lt;i&gt;no&lt;/i&gt;"]
        assert '<option value="complained" selected>' in answer.text
        assert "finn@example.com Complained page" in words(answer.text)
        long = "\n".join(f"someone{n}@example.com" for n in range(1_000))
        refused = await post(client, "/suppressions", emails=long, reason="manual")
        assert refused.status_code == 422
        assert "Upload a file instead" in refused.text
        assert "someone999@example.com" in refused.text
        assert "maxlength" not in re.findall(r"<textarea[^>]*>", refused.text)[0], (
            "a browser cuts what is pasted"
        )


async def test_a_receiver_is_made_heard_given_another_password_and_removed(api: Api) -> None:
    event = {"event": "delivered", "email": "ann@example.com", "ts_event": 1_793_700_733}
    async with signed_in(api, Role.MEMBER) as client:
        made = await post(client, "/outcomes/receivers/new", sender="brevo", name="main")
        address = pasted(made.text)
        assert re.fullmatch(r"http://mailsift:[\w=-]{30,}@[^/]+/receivers/[0-9a-f-]{36}", address)
        here = "/outcomes/receivers/" + address.rpartition("/")[2]
        assert (await client.post(address, json=event)).status_code == 200
        page = await client.get(here)
        assert "Taken 1 Refused 0" in words(page.text)
        assert "mailsift:" not in pasted(page.text), "a password is shown once"
        again = pasted((await post(client, f"{here}/rotate")).text)
        assert again != address
        assert (await client.post(address, json=event)).status_code == 401
        assert (await client.post(again, json=event)).status_code == 200
        listed = words((await client.get("/outcomes")).text)
        assert "Brevo main just now 1 1 0" in listed
        async with signed_in(api, Role.OWNER, account="bob") as other:
            assert (await other.get(here)).status_code == 404
            assert (await post(other, f"{here}/rotate")).status_code == 404
            assert (await post(other, f"{here}/delete")).status_code == 404
        assert (await post(client, f"{here}/delete")).headers["location"] == "/outcomes"
        assert (await client.get(here)).status_code == 404


async def test_a_receiver_of_who_signs_needs_a_key(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        refused = await post(client, "/outcomes/receivers/new", sender="mailgun")
        assert refused.status_code == 422
        assert "signing key is needed" in refused.text
        made = await post(client, "/outcomes/receivers/new", sender="ses", key="arn:aws:sns:eu-west-1:1:mail")
        address = pasted(made.text)
        assert "@" not in address
        here = "/outcomes/receivers/" + address.rpartition("/")[2]
        changed = await post(client, f"{here}/rotate", key="arn:aws:sns:eu-west-1:1:other")
        assert "trusts this topic" in words(changed.text)
        assert "arn:aws:sns:eu-west-1:1:other" in changed.text
        assert (await post(client, f"{here}/rotate", key="no")).headers["location"] == here


async def test_the_policy_says_what_it_means_and_is_set(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        before = words((await client.get("/outcomes/policy")).text)
        assert "What it means the default" in before
        assert "For 90 days after a message arrives, the mailbox counts as existing" in before
        set_ = await post(
            client,
            "/outcomes/policy",
            role="review",
            minimum_score="60",
            delivered_days="0",
            bounced_days="30",
        )
        assert set_.headers["location"] == "/outcomes/policy"
        page = words((await client.get("/outcomes/policy")).text)
        assert re.search(r"Review [^.]*A function, not a person \(info@\) · A score below 60", page)
        assert "A delivery tells nothing about the mailbox" in page
        assert "For 30 days after a bounce that says so, the mailbox counts as gone" in page
        for wrong in (
            {"role": "burn"},
            {"complained": "send"},
            {"bounced_days": "99999"},
            {"bounced_days": "x"},
            {"minimum_score": ""},
        ):
            refused = await post(
                client, "/outcomes/policy", **{"free": "remove", "delivered_days": "7", **wrong}
            )
            assert refused.status_code == 422
            alert = re.search(r'role="alert"><p>([^<]*)', refused.text)
            assert alert is not None
            assert re.fullmatch(r"This policy isn’t valid: (?!invalid literal).*", alert[1]), alert[1]
            form = refused.text.partition('action="/outcomes/policy"')[2]
            assert (
                '<option value="remove" selected>'
                in form.partition('name="free"')[2].partition("</select>")[0]
            )
            assert 'name="delivered_days" type="number" value="7"' in form  # what was typed stays
        await post(client, "/outcomes/policy", reset="1")
        assert "the default" in words((await client.get("/outcomes/policy")).text)


def pasted(page: str) -> str:
    found = re.search(r'id="address" type="text" value="([^"]+)"', page)
    assert found, page
    return found[1]
