"""Jobs on pages: listed, watched, steered, searched, taken along and compared; with a real worker."""

from __future__ import annotations

import json
import re
import shutil
from typing import NoReturn

import httpx
import polars as pl
import pytest

from mailsift.accounts.people import Role
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs
from tests.integration.api.conftest import Api
from tests.integration.api.pages.lists import CSV, done, ended, started, uploaded, words
from tests.integration.api.pages.queries import audit_of, sql
from tests.support.sessions import post, signed_in


async def live(client: httpx.AsyncClient, job: str) -> list[tuple[str, dict[str, object]]]:
    """Follow a job to its end; returns the events."""
    found, name = [], ""
    async with client.stream("GET", f"{job}/live") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                found.append((name, json.loads(line[6:])))
    return found


async def onward(client: httpx.AsyncClient, address: str) -> list[str]:
    """Return a page and all behind it."""
    pages = []
    while address:
        pages.append((await client.get(address)).text)
        more = re.search(r'rel="next" href="([^"]+)"', pages[-1])
        address = more[1].replace("&amp;", "&") if more else ""
    return pages


@pytest.mark.usefixtures("worker")
async def test_what_needs_no_store_is_shown_while_the_store_is_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_away(*_: object) -> NoReturn:
        raise MailsiftError("blob_store_failed", "The blob store is away.", retryable=True)

    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client)
        for read in (Blobs.list, Blobs.read_if_there, Blobs.fetch, Blobs.fetch_if_there):
            monkeypatch.setattr(Blobs, read.__name__, is_away)
        assert "3 of 4 rows are safe to send" in words((await client.get(job)).text)
        assert "Lists that you have not started can’t be shown" in (await client.get("/")).text
        assert (await client.get(f"{job}/results")).status_code == 503


@pytest.mark.usefixtures("worker")
async def test_a_job_is_followed_to_its_end(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await started(client)
        events = await live(client, job)
        assert [name for name, _ in events][-1] == "end"
        assert events[0][1]["stage"] != events[-1][1]["stage"]
        assert events[-1][1]["processed_text"] == "4 of 4"
        assert events[-1][1]["send"] == "3"
        assert events[-1][1]["sentence"] == "3 of 4 rows are safe to send."
        page = words((await client.get(job)).text)
    for sentence in (
        "3 of 4 rows are safe to send. Fast mode does not ask mail servers",
        "Safe to send 3 75.0 %",
        "To review 0 0 %",
        "To remove 1 25.0 %",
        "Why rows are not safe Reason Rows Share Syntax error",
        " kB Kept until",
        "Rows validated 4 of 4 Addresses 3, 1 duplicate",
        "Passed (valid) Every check of this mode passed; the mailbox was not looked up. 3 75.0 %",
        "Syntax error (invalid) The address breaks a rule of its syntax. 1 25.0 %",
        "example.com 3",
        "Fast mode does not look up mail providers.",
        "bulk.validation.completed",
    ):
        assert sentence in page.replace("&#39;", "'"), sentence


@pytest.mark.usefixtures("worker")
async def test_of_a_list_with_one_row_no_page_speaks_in_the_plural(api: Api) -> None:
    one = b"email\nann@example.com\n"
    async with signed_in(api, Role.OWNER, operator=True) as client:
        draft = await uploaded(client, one)
        pages = {"list": (await client.get(draft)).text}
        job = await done(client, one)
        below = [f"{job}{page}" for page in ("", "/results", "/runs", "/what-if")]
        for address in ("/", "/jobs", *below, "/account/data", "/ops", f"/ops{job}"):
            pages[address] = (await client.get(address)).text
    nouns = "rows|addresses|jobs|lists|columns|duplicates|chunks|days"
    many = re.compile(rf"(?<![\d,.+])1 (?:[a-z]+ )?(?:{nouns})\b")
    assert {name: found for name, page in pages.items() if (found := many.findall(words(page)))} == {}


def addresses(pages: list[str]) -> list[str]:
    """Return the addresses on pages of results."""
    cells = [cell for page in pages for cell in re.findall(r'class="address">(.*?)</th>', page)]
    return [re.sub(r"<[^>]*>", "", cell) for cell in cells]


@pytest.mark.usefixtures("worker")
async def test_rows_are_filtered_searched_paged_and_looked_into(api: Api) -> None:
    rows = "".join(f"{n},user{n}@{'one' if n % 2 else 'two'}.example\n" for n in range(120))
    data = f"id,email\n{rows}x,broken\n".encode()
    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client, data, evidence="on")
        pages = await onward(client, f"{job}/results?domain=ONE.example")
        assert all("60 matching rows" in words(page) for page in pages)
        assert addresses(pages) == [f"user{n}@one.example" for n in range(1, 120, 2)]
        back = re.search(r'rel="prev" href="([^"]+)"', pages[-1])
        assert back is not None
        assert back[1] == f"{job}/results?domain=ONE.example"
        for query, count in (
            ("status=invalid", "1 – 1 of 1"),
            ("tier=remove", "1 – 1 of 1"),
            ("tier=send&status=invalid", "No row matches"),
            ("result=syntax_error", "1 – 1 of 1"),
            ("q=USER11", "1 – 11 of 11"),
            ("q=user11%40&at=start", "1 – 1 of 1"),
            ("status=nonsense", "1 – 50 of 121"),
            ("after=99", "101 – 121 of 121"),
        ):
            page = words((await client.get(f"{job}/results?{query}")).text)
            assert count in page, query
        for query, found in (("domain=ONE.example&q=user11", 6), ("q=user11%40&at=start", 1)):
            page = (await client.get(f"{job}/results?{query}")).text
            form = page[page.index(f'action="{job}/download"') :].partition("</form>")[0]
            assert f"Download {found} row" in form
            wanted = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
            file = await client.get(f"{job}/download", params={**wanted, "format": "jsonl"})
            assert len(file.text.splitlines()) == found, query
        sorted_down = await onward(client, f"{job}/results?domain=one.example&sort=-email&size=25")
        assert addresses(sorted_down) == sorted(addresses(pages), reverse=True)
        assert len(sorted_down) == 3
        chosen = (await client.get(f"{job}/results?q=user7%40&columns=chosen&column=id&column=none")).text
        assert re.findall(r'<t[hd][^>]*class="own"[^>]*>([^<]*)<', chosen) == ["id", "7"]
        assert "Contains: user7@" in chosen
        assert 'class="own"' not in (await client.get(f"{job}/results?columns=chosen")).text
        assert "No row matches" in (await client.get(f"{job}/results?provider=nobody")).text
        jump = await client.get(f"{job}/results?row=1,00")
        assert jump.headers["location"] == f"{job}/results?after=98"
        row = words((await client.get(f"{job}/rows/121")).text)
        assert "id x email broken" in row
        assert "The address has no @ sign. (no_at)" in row
        assert (await client.get(f"{job}/rows/122")).status_code == 404
        assert (await client.get(f"{job}/rows/0")).status_code == 404


@pytest.mark.usefixtures("worker")
async def test_what_was_judged_stands_beside_what_was_typed(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client)
        page = words((await client.get(f"{job}/results")).text)
        assert "BOB@example.com judged as bob@example.com" in page
        assert page.count("judged as") == 1
        for evidence, number in (("bob@example.com", 2), ("ann@example.com", 1)):
            assert f"Judged as {evidence}" in words((await client.get(f"{job}/rows/{number}")).text)
        assert "Judged as" not in words((await client.get(f"{job}/rows/4")).text)


@pytest.mark.usefixtures("worker")
async def test_a_list_is_repaired_where_that_was_ticked(api: Api) -> None:
    data = b"email\nJane <jane@example.com>\njane@example.com\njane doe@example.com\n"
    async with signed_in(api, Role.MEMBER) as client:
        plain, job = await done(client, data), await done(client, data, repair="on")
        taken = [await client.get(f"{one}/download?format=jsonl&status=valid") for one in (plain, job)]
        before, after = [[json.loads(line) for line in answer.text.splitlines()] for answer in taken]
        assert [row["mailsift_address"] for row in before] == ["jane@example.com"]
        assert [row["mailsift_address"] for row in after] == ["jane@example.com"] * 2
        assert [row["mailsift_suggestion"] for row in after] == ["Validated as jane@example.com.", ""]
        assert "Validated as jane@example.com." in words((await client.get(f"{job}/rows/1")).text)


@pytest.mark.usefixtures("worker")
async def test_results_are_taken_along_whole_or_by_verdict(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client, signed_in(api, Role.VIEWER) as viewer:
        job = await done(client)
        bad = await viewer.get(f"{job}/download?format=csv&status=invalid")
        assert bad.headers["content-disposition"].startswith('attachment; filename="list.mailsift.csv"')
        assert [line.split(",")[2] for line in bad.text.splitlines()] == ["email", "no at"]
        whole = await client.get(f"{job}/download?format=jsonl")
        assert len(whole.text.splitlines()) == 4
        assert (await client.get(f"{job}/download?format=parquet")).content[:4] == b"PAR1"
        assert (await client.get(f"{job}/download?format=xlsx")).content[:2] == b"PK"
        assert (await client.get(f"{job}/download?format=pdf")).status_code == 422


@pytest.mark.usefixtures("worker")
async def test_runs_of_a_list_are_compared(api: Api, settings: Settings) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client)
        assert "This list ran once" in (await client.get(f"{job}/runs")).text
        again = (await post(client, f"{job}/rerun", page="/")).headers["location"]
        await ended(client, again)
        first, second = (address.rpartition("/")[2] for address in (job, again))
        same = words((await client.get(f"{again}/runs?against={first}")).text)
        assert "Addresses in both 3" in same
        assert "Nothing changed" in same
        await _worsen(settings, second)
        page = (await client.get(f"{again}/runs?against={first}")).text
        text = words(page)
        assert "Changed verdict 2" in text
        overview = (await client.get(again)).text
        changes = re.search(r'data-swap="([^"]+/changes[^"]+)"', overview)
        assert changes is not None
        changed = words((await client.get(changes[1])).text)
        assert "2 of 3 addresses have another verdict than in the run" in changed
        assert "2 valid → risky" in changed
        assert "Passed Disposable 2" in text
        assert "ann@example.com Valid Passed 60 Risky Disposable 20" in text
        stranger = await client.get(f"{again}/runs?against={again}")
        assert "Addresses in both" not in stranger.text


async def _worsen(settings: Settings, job_id: str) -> None:
    """Let a run find what it found not to be so."""
    results = settings.home / "blobs" / "jobs" / job_id / "results.parquet"
    metadata = pl.read_parquet_metadata(results)
    frame = pl.read_parquet(results)
    good = pl.col("mailsift_status") == "valid"
    worse = {"mailsift_status": "risky", "mailsift_result": "disposable", "mailsift_score": 20}
    frame = frame.with_columns(
        pl.when(good).then(pl.lit(value)).otherwise(pl.col(name)).cast(frame.schema[name]).alias(name)
        for name, value in worse.items()
    )
    frame.write_parquet(results, metadata={"mailsift.names": metadata["mailsift.names"]})


@pytest.mark.usefixtures("worker")
async def test_a_sample_says_what_to_expect_and_becomes_the_whole_list(api: Api) -> None:
    good = "".join(f"user{n}@example.com\n" for n in range(300))
    bad = "".join(f"user{n}@bad..example\n" for n in range(100))
    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client, f"email\n{good}{bad}".encode(), what="sample", sample="40")
        page = words((await client.get(job)).text)
        assert "From 40 of 400 rows" in page
        low, high = re.search(r"Valid 75.0 % (\d+) – (\d+) rows", page).groups()  # type: ignore[union-attr]  # fails as it should
        assert int(low) < 300 < int(high)
        whole = (await post(client, f"{job}/promote", page="/")).headers["location"]
        assert "400 of 400" in words(await ended(client, whole))
        assert "Validate the whole list" not in (await client.get(whole)).text


@pytest.mark.usefixtures("worker")
async def test_what_a_page_asks_for_again_and_again_answers_though_the_results_are_lost(
    api: Api, settings: Settings
) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await done(client)
        shutil.rmtree(settings.home / "blobs" / job.lstrip("/"))
        asked = re.findall(r'data-swap="([^"]+)"', (await client.get(job)).text)
        assert f"{job}/bounces" in asked
        for address in asked:
            assert (await client.get(address)).status_code == 200, address


async def test_a_job_is_paused_resumed_cancelled_and_deleted(api: Api, settings: Settings) -> None:
    async with signed_in(api, Role.MEMBER) as client, signed_in(api, Role.VIEWER) as viewer:
        job = await started(client)
        job_id = job.rpartition("/")[2]
        await sql(settings, "UPDATE job SET state = 'running', total = 4 WHERE id = :id", id=job_id)
        page = (await client.get(job)).text
        assert f'action="{job}/pause"' in page
        assert f'action="{job}/delete"' not in page
        assert f'action="{job}/' not in (await viewer.get(job)).text
        assert (await post(viewer, f"{job}/pause", page="/")).status_code == 403
        for action, state in (("pause", "Paused"), ("resume", "Queued"), ("cancel", "Cancelled")):
            answer = await post(client, f"{job}/{action}", page="/")
            assert answer.headers["location"] == job
            assert f">{state}</span>" in (await client.get(job)).text
        wrong = await post(client, f"{job}/resume", page="/")
        assert (wrong.status_code, "can’t resume" in wrong.text) == (409, True)
        assert (await post(client, f"{job}/explode", page="/")).status_code == 404
        assert (await post(client, f"{job}/retry", page="/")).status_code == 409
        gone = await post(client, f"{job}/delete", page="/")
        assert gone.headers["location"] == "/jobs"
        assert (await client.get(job)).status_code == 404
    actions = [action for action, subject in await audit_of(settings) if subject == job_id]
    assert actions == ["job.create", "job.pause", "job.resume", "job.cancel", "job.delete"]


async def test_what_a_job_waits_for_is_said_in_a_sentence(api: Api, settings: Settings) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await started(client)
        job_id = job.rpartition("/")[2]
        await sql(
            settings,
            "UPDATE job SET state = 'running', total = 9, addresses = 9, chunks = 3, chunks_open = 3,"
            " warning = 'probe_unavailable' WHERE id = :id",
            id=job_id,
        )
        for n, (lane, count) in enumerate((("mx.one.test", 3), ("mx.two.test", 309))):
            await sql(
                settings,
                "INSERT INTO chunk (job_id, n, lane, waits_for, ready_at, addresses, source_key)"
                " VALUES (:id, :n, :lane, 'greylisted', '2100-01-01 12:03:00+00', :count, 'x')",
                id=job_id,
                n=n,
                lane=lane,
                count=count,
            )
        page = words((await client.get(job)).text)
        assert "312 addresses wait for greylisting at 2 providers, until 12:03:00 UTC" in page
        assert "This machine cannot reach mail servers on port 25" in page


async def test_another_accounts_job_is_not_there(api: Api) -> None:
    async with signed_in(api) as client, signed_in(api, account="bob") as bob:
        job = await started(client)
        own = f"/changes?against={job.rpartition(chr(47))[2]}"
        for page in ("", "/live", "/results", "/rows/1", "/runs", "/breakdown", "/download", "/bounces", own):
            assert (await bob.get(f"{job}{page}")).status_code == 404, page
        for action in ("pause", "cancel", "rerun", "retry", "promote", "delete"):
            assert (await post(bob, f"{job}/{action}", page="/")).status_code == 404, action
        assert "No list yet" in (await bob.get("/jobs")).text


async def test_a_thousand_jobs_are_listed_found_and_light(api: Api, settings: Settings) -> None:
    async with open_service(settings) as service:
        account = await service.account("alice")
    await sql(
        settings,
        "INSERT INTO job (id, account_id, name, state, options, total, addresses, processed, valid,"
        " created_at, started_at, finished_at) SELECT gen_random_uuid(), :account,"
        " 'list ' || n || CASE n % 100 WHEN 7 THEN ' 100%_off' ELSE '' END,"
        " CASE n % 10 WHEN 0 THEN 'failed' ELSE 'completed' END, CAST(:options AS jsonb), 10, 10, 10, 10,"
        " now() - n * interval '1 minute', now(), now() FROM generate_series(1, 1000) n",
        account=account,
        options=json.dumps({"mode": "deep"}),
    )
    async with signed_in(api, Role.VIEWER) as client:
        assert len((await client.get("/jobs")).content) < 100_000
        pages = await onward(client, "/jobs?state=failed")
        seen = [
            name for page in pages for name in re.findall(r'<a href="/jobs/[0-9a-f-]{36}">([^<]+)<', page)
        ]
        assert seen == [f"list {n}" for n in range(10, 1001, 10)]
        found = await client.get("/jobs", params={"q": "100%_OFF"})
        assert found.text.count("100%_off</a>") == 10
        assert "No job matches" in (await client.get("/jobs", params={"q": "100_off"})).text
        assert (await client.get("/jobs", params={"cursor": "nonsense"})).status_code == 422
        await sql(settings, "UPDATE job SET created_at = '2020-02-29 23:59:59+00' WHERE name = 'list 9'")
        one_day = {"since": "2020-02-29", "until": "2020-02-29"}
        assert re.findall(r">(list \d+)</a>", (await client.get("/jobs", params=one_day)).text) == ["list 9"]
        assert "No job matches" in (await client.get("/jobs", params={"since": "2100-01-01"})).text
        assert "No job matches" in (await client.get("/jobs", params={"until": "2000-01-01"})).text


async def test_many_jobs_are_steered_at_once(api: Api, settings: Settings) -> None:
    async with signed_in(api, Role.MEMBER) as client, signed_in(api, account="bob") as bob:
        mine = [(await started(client)).rpartition("/")[2] for _ in range(2)]
        theirs = (await started(bob)).rpartition("/")[2]
        nothing = await post(client, "/jobs", page="/", do="cancel")
        assert nothing.headers["location"] == "/jobs"
        assert "Tick the jobs first." in (await client.get("/jobs")).text
        here = "/jobs?state=active"
        assert 'name="next" value="/jobs?state=active"' in (await client.get(here)).text
        done = await post(client, "/jobs", page="/", do="cancel", job=[*mine, theirs], next=here)
        assert done.headers["location"] == here
        assert "2 jobs cancelled. 1 left as it was" in (await client.get("/jobs")).text
        states = [(await bob.get(f"/jobs/{theirs}")).text, (await client.get(f"/jobs/{mine[0]}")).text]
        assert [">Cancelled</span>" in page for page in states] == [False, True]
        await post(client, "/jobs", page="/", do="delete", job=mine)
        page = (await client.get("/jobs")).text
        assert "2 jobs deleted." in page
        assert "No list yet" in page
        assert (await post(client, "/jobs", page="/", do="explode", job=mine)).status_code == 422
    assert [action for action, _ in await audit_of(settings)].count("job.delete") == 2


async def test_what_is_paused_has_no_speed(api: Api, settings: Settings) -> None:
    async with signed_in(api) as client:
        await started(client)
        for state, has_speed in (("running", True), ("paused", False)):
            await sql(
                settings,
                "UPDATE job SET state = :state, total = 4, processed = 1, valid = 1, send = 1,"
                " started_at = now() - interval '1 minute'",
                state=state,
            )
            assert ("rows/min" in (await client.get("/jobs")).text) == has_speed


async def test_the_list_keeps_itself_up_to_date_while_something_runs(api: Api, settings: Settings) -> None:
    async with signed_in(api) as client:
        job = await started(client)
        page = (await client.get("/jobs")).text
        assert 'data-swap="/jobs/rows"' in page
        rows = (await client.get("/jobs/rows")).text
        assert rows.lstrip().startswith('<div class="jobs" data-swap=')
        await sql(
            settings,
            "UPDATE job SET state = 'failed', finished_at = now(), error_code = 'no_address_column',"
            " error_detail = 'No column.' WHERE id = :id",
            id=job.rpartition("/")[2],
        )
        rows = (await client.get("/jobs/rows")).text
        assert "data-swap" not in rows
        assert "no address column" in rows
        page = (await client.get(job)).text
        assert "No column." in page
        assert "to choose the column" in page
        await sql(settings, "UPDATE job SET error_code = 'intake_crashed' WHERE state = 'failed'")
        page = (await client.get(job)).text
        assert "Run it again" in page
        assert "to choose the column" not in page


async def test_a_job_submitted_elsewhere_shows_its_metadata_as_text(api: Api, settings: Settings) -> None:
    async with open_service(settings) as service:
        account = await service.account("alice")
        source = settings.home / "list.csv"
        source.write_bytes(CSV)
        options = JobOptions(mode=Mode.FAST, metadata={"<b>team</b>": "<i>x</i>"})
        job_id = await service.submit(account, source, options)
    async with signed_in(api) as client:
        page = (await client.get(f"/jobs/{job_id}")).text
    assert "&lt;b&gt;team&lt;/b&gt;" in page
    assert "<i>x</i>" not in page
