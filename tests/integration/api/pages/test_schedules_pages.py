"""/schedules: made from a job's list, said in words, paused, run, deleted."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from mailsift.accounts.people import Role
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import audit_of, sql
from tests.support.sessions import post, signed_in

GOOD = {
    "name": "Weekly",
    "rhythm": "0 6 * * 1",
    "cron": "",
    "zone": "Europe/Berlin",
    "recheck": "all",
    "overlap": "skip",
    "catch_up": "latest",
    "jitter": "0",
    "failures": "5",
    "ends": "",
}


@pytest.fixture
async def job(api: Api) -> str:
    """A list of alice's that can be scheduled."""
    source = api.settings.home / "customers.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(api.settings) as service:
        return str(
            await service.submit(await service.account("alice"), source, JobOptions(name="customers.csv"))
        )


async def made(client: httpx.AsyncClient, job: str, **fields: str) -> str:
    """Create a schedule; returns its path."""
    answer = await post(client, "/schedules/new", **{**GOOD, "job": job, **fields})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def test_a_schedule_is_told_in_words_with_its_next_runs(api: Api, job: str) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        form = (await member.get(f"/schedules/new?job={job}")).text
        offered = rf'<option value="{job}" selected>customers.csv, \d+ \w+ \d+, \d\d:\d\d UTC</option>'
        assert re.search(offered, form)
        found = (await member.get("/schedules/new?q=CUSTOM")).text
        assert f'value="{job}"' in found
        assert "Find a list by name" in found
        assert "No list has this in its name." in (await member.get("/schedules/new?q=nobody")).text
        path = await made(member, job)
        page = html.unescape((await member.get(path)).text)
        assert "Every Monday at 06:00" in page
        assert "Europe/Berlin" in page
        runs = re.findall(r"<li class=\"spread\"><span><time datetime=\"([^\"]+)\"", page)
        assert len(runs) == 5
        assert all(re.search(r"T0[45]:00:00\+00:00$", at) for at in runs), "six o'clock in Berlin"
        assert "Weekly" in (await member.get("/schedules")).text
    assert await audit_of(api.settings) == [("schedule.create", "Weekly")]


MISTAKES: list[tuple[dict[str, str], str]] = [
    ({"rhythm": "", "cron": "every day"}, "A cron line must have five fields."),
    ({"rhythm": "", "cron": "0 0 30 2 *"}, "never fires"),
    ({"cron": "30 5 * * 2"}, "Every Monday at 06:00"),
    ({"zone": "Mars/Olympus"}, "must be an IANA name"),
    ({"ends": "2020-01-01"}, "No runs are left"),
    ({"ends": "tomorrow"}, "must be a date"),
    ({"ends": "9999-12-31"}, "never ends"),
]


async def test_a_mistake_is_told_and_the_form_keeps_what_was_typed(api: Api, job: str) -> None:
    async with signed_in(api) as owner:
        for fields, expected in MISTAKES:
            answer = await post(owner, "/schedules/new", **{**GOOD, "job": job, "name": "kept", **fields})
            assert answer.status_code == 422, fields
            assert expected in html.unescape(answer.text), fields
            assert 'value="kept"' in answer.text, fields


async def test_a_schedule_whose_end_stands_for_never_is_shown_and_changed_in_every_zone(
    api: Api, job: str
) -> None:
    forever = {"job_id": job, "cron": "0 6 * * 1", "ends_at": "9999-12-31T23:59:59Z", "zone": "Asia/Tokyo"}
    async with api.client(await api.key("alice")) as program, signed_in(api) as owner:
        schedule = (await program.post("/v1/bulk/schedules", json=forever)).json()["data"]["schedule_id"]
        page = await owner.get(f"/schedules/{schedule}")
        assert (page.status_code, "31 Dec 9999, 23:59 UTC" in page.text) == (200, True)
        assert (await owner.get(f"/schedules/{schedule}/edit")).status_code == 200


async def test_who_looks_hears_beforehand_when_the_list_goes_and_the_schedule_pauses(
    api: Api, job: str
) -> None:
    async with signed_in(api) as owner:
        assert "as long as the job is kept" in (await owner.get("/schedules/new")).text
        path = await made(owner, job)

        async def page() -> str:
            return re.sub(r"<[^>]+>", "", (await owner.get(path)).text)

        assert "pauses" not in await page()  # it is kept for ever
        await sql(api.settings, "UPDATE job SET expires_at = '2031-05-06T07:08:00Z'")
        warning = "is deleted on 6 May 2031, 09:08 CEST; then this schedule pauses"
        assert warning in await page()
        await post(owner, f"{path}/pause")
        assert warning not in await page()
        await post(owner, f"{path}/resume")
        await sql(api.settings, "UPDATE schedule SET fetches = true")  # its list, for every run
        assert warning not in await page()


async def test_a_schedule_that_is_over_says_so(api: Api, job: str) -> None:
    async with signed_in(api) as owner:
        path = await made(owner, job)
        await sql(api.settings, "UPDATE schedule SET ends_at = '2020-01-01', enabled = false")
        page, listed = (await owner.get(path)).text, (await owner.get("/schedules")).text
    assert "No runs left before it ends." in page
    assert "resume" not in page
    assert '<span class="badge muted">Ended</span>' in listed


async def test_the_preview_says_what_the_form_would_do(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as viewer:
        good = await viewer.get("/schedules/preview", params={"rhythm": "0 6 * * 1", "zone": "UTC"})
        assert "Every Monday at 06:00" in good.text
        assert good.text.count("<time") == 5
        assert good.text.strip().startswith('<div class="callout" id="preview">')
        bad = await viewer.get("/schedules/preview", params={"cron": "<b> 1 2 3 4", "zone": "UTC"})
        assert "malformed" in bad.text
        assert "<b>" not in bad.text


async def test_a_schedule_is_changed_and_keeps_what_the_form_does_not_know(api: Api, job: str) -> None:
    async with signed_in(api) as owner:
        path = await made(owner, job)
        await sql(
            api.settings, 'UPDATE schedule SET jitter_seconds = 77, options = options || \'{"mode": "fast"}\''
        )
        form = (await owner.get(f"{path}/edit")).text
        assert '<option value="77" selected>Up to 77 seconds later</option>' in form
        assert "to use the list" not in form  # it has no name then
        fields = {
            **GOOD,
            "name": "Daily",
            "rhythm": "",
            "cron": "5  4 * * *",
            "jitter": "77",
            "ends": "2031-12-31",
        }
        answer = await post(owner, f"{path}/edit", **fields)
        assert answer.headers["location"] == path
        page = (await owner.get(path)).text
        assert "Every day at 04:05" in page
        assert "31 Dec 2031, 23:59 CET" in page
        again = (await owner.get(f"{path}/edit")).text
        assert 'value="5 4 * * *"' in again
        assert 'value="2031-12-31"' in again
    assert await sql(api.settings, "SELECT options->>'mode', jitter_seconds FROM schedule") == [("fast", 77)]


async def test_an_end_that_a_program_has_set_stays_when_the_form_says_nothing_else(
    api: Api, job: str
) -> None:
    async with signed_in(api) as owner:
        path = await made(owner, job)
        await sql(api.settings, "UPDATE schedule SET ends_at = '2031-12-31 05:00+01'")
        fields = {**GOOD, "name": "Another", "ends": "2031-12-31"}
        await post(owner, f"{path}/edit", **fields)
        page = (await owner.get(path)).text
        assert "Another" in page
        assert "31 Dec 2031, 05:00 CET" in page
        await post(owner, f"{path}/edit", **{**fields, "ends": "2031-12-30"})
        assert "30 Dec 2031, 23:59 CET" in (await owner.get(path)).text


async def test_a_schedule_is_paused_resumed_run_and_deleted(api: Api, job: str) -> None:
    async with signed_in(api) as owner:
        path = await made(owner, job)
        await post(owner, f"{path}/pause")
        assert "nothing runs until you resume it" in (await owner.get(path)).text
        assert "Paused" in (await owner.get("/schedules")).text
        await post(owner, f"{path}/resume")
        assert "nothing runs until you resume it" not in (await owner.get(path)).text
        await post(owner, f"{path}/run")
        page = (await owner.get(path)).text
        assert "A run has started." in page
        assert "started by hand" in page
        assert (await post(owner, f"{path}/delete")).headers["location"] == "/schedules"
        assert (await owner.get(path)).status_code == 404
    assert [action for action, _ in await audit_of(api.settings)] == [
        "schedule.create",
        "schedule.pause",
        "schedule.resume",
        "schedule.run",
        "schedule.delete",
    ]
    assert await sql(api.settings, "SELECT count(*) FROM job") == [(2,)], "its jobs stay"


async def test_a_schedule_that_paused_itself_says_why(api: Api, job: str) -> None:
    async with signed_in(api) as owner:
        path = await made(owner, job)
        await sql(api.settings, "UPDATE schedule SET enabled = false, last_error = 'runs_failed'")
        for page in (path, "/schedules"):
            assert "too many runs failed in a row" in (await owner.get(page)).text


async def test_the_empty_list_says_what_to_do_first(api: Api) -> None:
    async with signed_in(api) as owner:
        page = (await owner.get("/schedules")).text
        assert "Validate a list first" in page
        assert "Validate a list first" in (await owner.get("/schedules/new")).text


async def test_another_accounts_list_cannot_be_scheduled(api: Api, job: str) -> None:
    async with signed_in(api, account="bob") as bob:
        assert (await bob.get(f"/schedules/new?job={job}")).status_code == 404
        answer = await post(bob, "/schedules/new", **{**GOOD, "job": job})
        assert answer.status_code == 404
        assert (await post(bob, "/schedules/new", **{**GOOD, "job": "nonsense"})).status_code == 404


async def test_repair_is_switched_on_and_off(api: Api, job: str) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        path = await made(member, job, repair="on")
        assert re.search(r'name="repair"[^>]* checked', (await member.get(f"{path}/edit")).text)
        stored = "SELECT options ->> 'repair', options ->> 'name' FROM schedule"
        assert await sql(api.settings, stored) == [("true", "customers.csv")]
        await post(member, f"{path}/edit", **GOOD)
        assert await sql(api.settings, stored) == [("false", "customers.csv")]


async def test_lists_and_schedules_without_names_can_be_told_and_clicked(api: Api, job: str) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        path = await made(member, job)
        await sql(api.settings, "UPDATE job SET name = ''")
        await sql(api.settings, "UPDATE schedule SET name = ''")
        form = (await member.get("/schedules/new")).text
        assert re.search(rf'<option value="{job}">List without a name, ', form)
        assert re.search(rf'<a href="{path}">Without a name</a>', (await member.get(f"{path}/edit")).text)
        for page in ("results", "runs", "what-if"):
            assert "a list without a name · " in (await member.get(f"/jobs/{job}/{page}")).text
