"""A list from the door to its start: uploaded by form or script, looked at, chosen from, discarded."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import pytest

from mailsift.accounts.people import Role
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.lists import CSV, ended, uploaded, words
from tests.integration.api.pages.queries import audit_of, sql
from tests.support.hostile_texts import ATTRIBUTE, IMAGE, SCRIPT, TEMPLATE, TEMPLATE_SAYS, shown_as_text
from tests.support.sessions import csrf_of, post, signed_in

HOSTILE = f'"{SCRIPT}","email{TEMPLATE}"\n"{IMAGE.replace(chr(34), chr(34) * 2)}",ann@example.com\n'.encode()


@pytest.fixture
async def resolving(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> AsyncIterator[Api]:
    """An API with a resolver that answers: each look at a list waits a second for one that does not."""
    async with running(make_settings(api_port=0, sandbox=sandbox.env)) as found:
        yield found


@pytest.mark.usefixtures("worker")
async def test_a_list_is_looked_at_before_it_starts(api: Api, settings: Settings) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        href = await uploaded(client)
        page = (await client.get(href)).text
        text = words(page)
        assert "4 rows · 3 columns · CSV, utf-8" in text
        assert "email Addresses" in text
        assert "2 Bob BOB@example.com" in text
        assert "2 mailboxes to ask about" in text
        assert "Many small providers: 2 addresses" in text  # as far as anybody knows before DNS was asked
        assert re.search(r"Fast about 1 s .* Deep about \d+ s", text)
        assert '<option value="" selected>email (75.0 % look like addresses)</option>' in page
        assert "Uploaded, not started" in (await client.get("/")).text
        assert "No list yet" in (await client.get("/jobs")).text
        fields = {"name": "Spring", "mode": "fast", "what": "all", "priority": "high", "evidence": "on"}
        doubted = await post(client, f"{href}/start", page="/", **fields)
        assert doubted.status_code == 422
        assert "Only 75.0 % of the column “email” looks like addresses." in doubted.text
        fields["sure"] = "on"
        answer = await post(client, f"{href}/start", page="/", **fields)
        again = await post(client, f"{href}/start", page="/", **fields)  # an impatient second click
        assert answer.headers["location"] == again.headers["location"] == href.replace("lists", "jobs")
        page = await ended(client, answer.headers["location"])
        assert "Spring" in page
        assert "4 of 4" in words(page)
        same = await uploaded(client)
        assert "You validated this same file" in (await client.get(same)).text
        await post(client, f"{same}/discard", page="/")
        assert "Uploaded, not started" not in (await client.get("/")).text
    job_id = href.rpartition("/")[2]
    assert await audit_of(settings) == [("job.create", job_id)]


async def test_who_goes_back_from_a_job_to_its_list_is_led_to_the_job_while_there_is_one(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client, signed_in(api, account="bob") as bob:
        href = await uploaded(client)
        start = {"mode": "fast", "what": "all", "priority": "normal", "sure": "on"}
        job = (await post(client, f"{href}/start", page="/", **start)).headers["location"]
        back = await client.get(href)
        assert (back.status_code, back.headers.get("location")) == (303, job)
        assert (await bob.get(href)).status_code == 404
        for order in ("cancel", "delete"):
            assert (await post(client, f"{job}/{order}", page="/")).status_code == 303
        gone = await client.get(href)
    assert gone.status_code == 404
    assert "There is no such list, or it has already been started." in gone.text


async def test_without_scripts_a_form_brings_the_list(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        token = csrf_of((await client.get("/")).text)
        files = {"file": ("..\\..\\Kunden Frühling.csv", CSV, "text/csv")}
        answer = await client.post("/lists", data={"csrf": token}, files=files)
        assert answer.status_code == 303
        page = await client.get(answer.headers["location"])
        assert "<h1>Kunden Frühling.csv</h1>" in page.text
        nothing = await client.post("/lists", data={"csrf": token}, files={"file": ("", b"", "text/csv")})
        assert (nothing.status_code, "Choose a file first" in nothing.text) == (422, True)


@pytest.mark.usefixtures("worker")
async def test_names_of_files_columns_and_cells_are_shown_as_text(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        href = await uploaded(client, HOSTILE, name=f"{IMAGE}{ATTRIBUTE}{TEMPLATE}.csv")
        look = (await client.get(href)).text
        start = {"mode": "fast", "what": "all", "priority": "normal", "sure": "on"}
        answer = await post(client, f"{href}/start", page="/", **start)
        job = answer.headers["location"]
        pages = [look, await ended(client, job)]
        addresses = ("/", "/jobs", f"{job}/results", f"{job}/rows/1", f"{job}/runs")
        pages += [(await client.get(address)).text for address in addresses]
    row = pages[5]
    assert shown_as_text(look, SCRIPT)
    assert shown_as_text(look, IMAGE)
    assert shown_as_text(row, SCRIPT)
    assert shown_as_text(row, IMAGE)
    assert all(shown_as_text(page, f"{IMAGE}{ATTRIBUTE}") for page in (look, pages[1], pages[3], row))
    for page in pages:
        assert "<img" not in page.replace('<img src="/static/', "")
        assert "alert(1)</script>" not in page
        assert TEMPLATE_SAYS not in words(page)


async def test_what_cannot_be_read_is_told_and_can_be_thrown_away(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        href = await uploaded(client, b"%PDF-1.7 not a list", name="report.pdf")
        page = await client.get(href)
        assert page.status_code == 200
        assert "The file is a PDF document." in page.text
        assert "unsupported_format" in page.text
        assert f'action="{href}/start"' not in page.text
        answer = await post(client, f"{href}/discard", page="/")
        assert answer.headers["location"] == "/"
        assert "The list is discarded." in (await client.get("/")).text
        assert (await client.get(href)).status_code == 404


async def test_lists_need_the_role_the_token_and_the_account(api: Api) -> None:
    async with (
        signed_in(api, Role.MEMBER) as client,
        signed_in(api, Role.VIEWER) as viewer,
        signed_in(api, account="bob") as bob,
    ):
        href = await uploaded(client)
        seen = (await viewer.get(href)).text
        assert "First rows" in seen
        assert "/start" not in seen
        start = {"mode": "fast", "what": "all", "priority": "normal"}
        assert (await post(viewer, f"{href}/start", page="/", **start)).status_code == 403
        assert (await bob.get(href)).status_code == 404
        assert (await post(bob, f"{href}/start", page="/", **start)).status_code == 404
        assert (await post(bob, f"{href}/discard", page="/")).status_code == 404
        kind = {"Content-Type": "application/octet-stream", "X-CSRF-Token": "0" * 64}
        assert (await client.post("/lists", content=CSV, headers=kind)).status_code == 403
        assert (await client.get(href)).status_code == 200


async def test_a_column_is_not_chosen_for_somebody_when_it_is_hardly_addresses(api: Api) -> None:
    rows = "".join(f"{n},{'a' + str(n) + '@example.com' if n % 5 < 2 else 'none'}\n" for n in range(50))
    async with signed_in(api, Role.MEMBER) as client:
        for data in (b"name,country\nAda,GB\nGrace,US\n", f"id,email\n{rows}".encode()):
            href = await uploaded(client, data)
            page = (await client.get(href)).text
            assert "No column is mostly addresses." in page
            assert "selected>" not in page.partition('id="column"')[2].partition("</select>")[0]
            start = {"mode": "fast", "what": "all", "priority": "normal"}
            refused = await post(client, f"{href}/start", page="/", **start)
            assert (refused.status_code, "Choose the column" in refused.text) == (422, True)
            name = re.findall(r'<option value="(\w+)"', page.partition('id="column"')[2])[1]
            chosen = await post(client, f"{href}/start", page="/", **start, column=name)
            assert (chosen.status_code, "Is it the right one?" in chosen.text) == (422, True)


async def test_cells_with_several_addresses_are_told_before_the_list_starts(api: Api) -> None:
    warning = "Cells with several addresses come back as invalid"
    async with signed_in(api, Role.MEMBER) as client:
        for cell, warns in (("a@example.com; b@example.com", True), ("a@example.com", False)):
            href = await uploaded(client, f'id,email\n1,"{cell}"\n2,c@example.com\n'.encode())
            assert (warning in (await client.get(href)).text) is warns


async def test_who_confirms_a_column_keeps_what_was_chosen_beside_it(api: Api) -> None:
    fields = {
        "name": "Spring",
        "mode": "fast",
        "what": "sample",
        "sample": "1",
        "priority": "low",
        "hours": "3",
    }
    ticked = {"evidence": "on", "repair": "on", "again": "on"}
    async with signed_in(api, Role.MEMBER) as client:
        href = await uploaded(client)
        page = (await post(client, f"{href}/start", page="/", **fields, **ticked, column="2")).text
        assert "Only 0 % of the column “who”" in page
    for fragment in (
        'name="name" type="text" value="Spring"',
        '<option value="2" selected',
        'name="mode" value="fast" checked',
        'name="what" value="sample" checked',
        'max="100000" value="1"',
        '<option value="low" selected',
        'name="hours" type="number" value="3"',
        *(f'name="{name}" type="checkbox" value="on" checked' for name in ticked),
    ):
        assert fragment in page, fragment


async def test_a_column_can_be_chosen_whatever_it_is_called(resolving: Api) -> None:
    names = ("email", " work mail", "home\nmail", "mail\u200b\u202e", "m" * 600, "2")
    head = ",".join(f'"{name}"' for name in names)
    rows = "".join(",".join(f"a{n}@c{place}.example" for place in range(len(names))) + "\n" for n in range(3))
    chosen = []
    async with signed_in(resolving, Role.MEMBER) as client:
        for place in range(len(names)):
            href = await uploaded(client, f"{head}\n{rows}".encode())
            select = (await client.get(href)).text.partition('id="column"')[2].partition("</select>")[0]
            value = re.findall(r'<option value="([^"]*)"', select)[place]
            start = {"mode": "fast", "what": "all", "priority": "normal", "column": value}
            answer = await post(client, f"{href}/start", page="/", **start)
            assert answer.status_code == 303, (names[place], words(answer.text))
            job = answer.headers["location"].rpartition("/")[2]
            (found,) = await sql(
                resolving.settings, "SELECT options->>'column' FROM job WHERE id = :id", id=job
            )
            chosen.append(found[0])
    assert chosen == ["", *names[1:]]


async def test_what_would_be_repaired_is_shown(api: Api) -> None:
    odd = '"Jane Doe <jane@example.com>"\nbob at gmail.com\nnobody knows\n'
    plain = "".join(f"a{n}@example.com\n" for n in range(20))
    async with signed_in(api, Role.MEMBER) as client:
        page = words((await client.get(await uploaded(client, f"email\n{odd}{plain}".encode()))).text)
        assert "Jane Doe &lt;jane@example.com&gt; → jane@example.com bob at gmail.com → bob@gmail.com" in page
        clean = words((await client.get(await uploaded(client, f"email\n{plain}".encode()))).text)
        assert "→" not in clean


NO_OPTIONS: list[dict[str, str]] = [
    {"mode": "deeper"},
    {"priority": "first"},
    {"what": "sample", "sample": "1.000"},
    {"hours": "1.000"},
    {"what": "sample", "sample": "many"},
    {"what": "sample", "sample": "100001"},
    {"what": "sample", "sample": ""},
    {"what": "sample", "sample": "0"},
    {"what": "sample", "sample": "0.9"},
    {"column": "4"},
    {"column": "email"},
    {"hours": "-1"},
    {"hours": "1e9"},
    {"name": "x" * 201},
]


async def test_options_that_are_none_start_nothing(resolving: Api) -> None:
    async with signed_in(resolving, Role.MEMBER) as client:
        href = await uploaded(client)
        for fields in NO_OPTIONS:
            chosen = {"mode": "fast", "what": "all", "priority": "normal", "sure": "on", **fields}
            answer = await post(client, f"{href}/start", page="/", **chosen)
            assert answer.status_code == 422, fields
            assert (await client.get(href)).status_code == 200, fields
