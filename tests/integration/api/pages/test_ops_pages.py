"""/ops: only operators come in, every page tells what it should, every button works and is written down."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from fastapi.routing import APIRoute

from mailsift.accounts.people import Role
from mailsift.api.pages import ops
from mailsift.jobs.admin.alarms import RULE_OF, RULES
from mailsift.pipeline.throttle import SessionOutcome
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import actions, some_job, words
from tests.support.busy_installation import fill, report_sessions, sql, strand_messages, write_ledger
from tests.support.sessions import post, signed_in

PAGES = (
    "/ops",
    "/ops/live",
    "/ops/jobs",
    "/ops/jobs?state=",
    "/ops/workers",
    "/ops/workers/live",
    "/ops/leases",
    "/ops/leases/live",
    "/ops/throttles",
    "/ops/throttles/live",
    "/ops/throttles/edit?provider=google",
    "/ops/ledger",
    "/ops/ledger?days=30",
    "/ops/opt-outs",
    "/ops/facts",
    "/ops/facts?domain=example.com",
    "/ops/deliveries",
    "/ops/broker",
    "/ops/broker/live",
    "/ops/failing-chunks",
    "/ops/schedules",
    "/ops/audit",
    "/ops/audit?text=cli",
    "/ops/audit?text=%00",
    "/ops/runbook",
    "/ops?span=week",
)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def operator(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(api, Role.VIEWER, operator=True) as client:
        yield client


async def test_to_everybody_else_nothing_is_here(api: Api) -> None:
    async with signed_in(api, Role.OWNER) as owner:
        for path in PAGES:
            answer = await owner.get(path)
            assert answer.status_code == 404, path
            assert "not_found" in answer.text
        routes = [route for route in ops.router.routes if isinstance(route, APIRoute)]
        for path in {route.path for route in routes if "POST" in (route.methods or ())}:
            assert (await post(owner, path.replace("{job_id}", "1"), action="pause")).status_code == 404, path
        assert "/ops" not in (await owner.get("/keys")).text
    async with httpx.AsyncClient(base_url=api.url, headers={"Accept": "text/html"}) as stranger:
        answer = await stranger.get("/ops/workers")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/ops/workers")


async def test_every_page_says_what_to_do_while_there_is_nothing(operator: httpx.AsyncClient) -> None:
    for path in PAGES:
        answer = await operator.get(path)
        assert answer.status_code == 200, path
    expected = {
        "/ops/workers": "No worker has reported in",
        "/ops/leases": "Nothing is being worked on",
        "/ops/throttles": "No provider has been asked yet",
        "/ops/ledger": "Nothing has been asked",
        "/ops/opt-outs": "Nobody has opted out",
        "/ops/facts?domain=example.com": "Nothing is remembered of example.com",
        "/ops/deliveries": "No endpoint needs a look",
        "/ops/failing-chunks": "No chunk makes trouble",
        "/ops/schedules": "No account has a schedule",
        "/ops/jobs": "No job matches",
        "/ops": "Nothing is left",
    }
    for path, text in expected.items():
        assert text in words((await operator.get(path)).text), path


async def test_every_page_shows_an_installation_in_full_swing(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    await report_sessions(api.settings, {"google": [SessionOutcome.CLEAN] * 3 + [SessionOutcome.RATE]})
    await strand_messages(api.settings, queued=3, unacked=2)
    await write_ledger(api.settings)
    job = await some_job(api)
    expected = {
        "/ops": ("Throughput", "1 schedule is late", "google", "Provider rate limit"),
        "/ops/jobs": ("newsletter 1", "running", "globex"),
        f"/ops/jobs/{job}": (
            "Timeline",
            "Tried again",
            "addresses wait for greylisting",
            "Chunks",
            "Greylisting",
            "Take back",
            "Pause",
            "MemoryError",
        ),
        f"/ops/jobs/{job}/live": ("Chunks",),
        "/ops/workers": ("worker-0:40", "Draining", "Gone", "Drain"),
        "/ops/leases": ("Chunk 7", "worker-", "Take back"),
        "/ops/throttles": ("google", "Closed", "4 sessions"),
        "/ops/ledger": (
            "google",
            "of the real ones",
            "1 listed or a bad name",
            "as a newcomer",
            "all others",
        ),
        "/ops/throttles/edit?provider=google&source=": ("Told we are too fast 1", "At most 10000"),
        "/ops/deliveries": ("https://globex.example/hooks", "Failing", "4 in a row", "Send again"),
        "/ops/broker": ("Queued 3", "Not acknowledged 2"),
        "/ops/failing-chunks": ("MemoryError", "Start afresh"),
        "/ops/schedules": ("acme every morning", "Late", "Missed"),
    }
    for path, texts in expected.items():
        answer = await operator.get(path)
        assert answer.status_code == 200, path
        seen = words(answer.text)
        assert [text for text in texts if text.lower() not in seen.lower()] == [], path


async def test_every_alarm_leads_in_one_click_to_its_cause_with_what_to_do_on_the_same_page(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    runbook = (await operator.get("/ops/runbook")).text
    for rule in RULES:
        assert f'id="{rule.code}"' in runbook
        answer = await operator.get(rule.address)
        assert answer.status_code == 200, rule.code
        seen = html.unescape(answer.text)
        assert words(rule.title) in words(seen)
        assert f'href="/ops/runbook#{rule.code}"' in seen, rule.code
        for name, value in parse_qsl(urlsplit(rule.page).query):
            if value == "version":  # stands below the name of a process, under no heading of its own
                continue
            order = "descending" if value.startswith("-") else "ascending"
            applied = f'aria-sort="{order}"' if name == "sort" else f'<option value="{value}" selected'
            assert applied in seen, (rule.code, name, value)
    overview = (await operator.get("/ops")).text
    assert f'href="{html.escape(RULE_OF["schedules_late"].address)}"' in overview


async def test_a_page_counts_and_names_what_its_filter_and_its_alarm_do(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    await sql(api.settings, "UPDATE endpoint SET failures = 9 WHERE NOT enabled")
    await sql(api.settings, "UPDATE schedule SET next_run_at = clock_timestamp() - interval '30 s'")
    deliveries = words((await operator.get("/ops/deliveries?state=failing")).text)
    (failing,) = re.findall(r"Endpoints failing (\d+)", deliveries)
    assert f" {failing} of " in deliveries
    assert "https://umbrella.example/hooks" not in deliveries  # it is disabled
    late = (await operator.get("/ops/schedules?state=late")).text
    assert len(re.findall(r'data-label="State"', late)) == late.count(">Late</span>") > 0


async def test_what_is_left_of_paused_jobs_waits_for_them_to_be_resumed(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    await sql(api.settings, "UPDATE job SET state = 'paused' WHERE state IN ('queued', 'running')")
    overview = words((await operator.get("/ops")).text)
    assert "Ready 0 " in overview
    assert "Its job to be resumed" in overview.partition("What is left")[2]


async def test_the_next_try_at_an_endpoint_is_still_to_come(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    for hours, is_told in ((1, True), (-1, False)):
        await sql(
            api.settings,
            "UPDATE endpoint SET probe_at = now() + make_interval(hours => :hours) WHERE failures > 0",
            hours=hours,
        )
        assert ("next try" in (await operator.get("/ops/deliveries")).text) == is_told


async def test_fragments_carry_their_own_address_and_pages_of_ended_jobs_stop(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings)
    for path in (
        "/ops/live",
        "/ops/workers/live",
        "/ops/leases/live",
        "/ops/throttles/live",
        "/ops/broker/live",
    ):
        fragment = (await operator.get(path)).text
        assert f'data-swap="{path}"' in fragment
        assert "<html" not in fragment
    assert "data-swap" in (await operator.get(f"/ops/jobs/{await some_job(api)}")).text
    assert "data-swap" not in (await operator.get(f"/ops/jobs/{await some_job(api, 'completed')}")).text


async def test_jobs_go_on_page_by_page(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings, jobs=120)
    first = (await operator.get("/ops/jobs?state=")).text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await operator.get(older.replace("&amp;", "&"))).text
    found = [set(re.findall(r'href="/ops/jobs/([0-9a-f-]{36})"', page)) for page in (first, second)]
    beyond = (await operator.get("/ops/jobs?state=&page=99")).text
    assert "Page 3 of 3" in words(beyond)
    assert len(set(re.findall(r'href="/ops/jobs/([0-9a-f-]{36})"', beyond))) == 20
    assert [len(ids) for ids in found] == [50, 50]
    assert not found[0] & found[1]
    oldest = (await operator.get("/ops/jobs?state=&sort=created")).text
    assert not found[0] & set(re.findall(r'href="/ops/jobs/([0-9a-f-]{36})"', oldest))
    assert 'aria-sort="ascending"' in oldest
    assert (await operator.get("/ops/jobs?page=x&sort=1")).status_code == 200
    assert (await operator.get("/ops/jobs?age=tomorrow")).status_code == 422


async def test_lists_are_filtered_sorted_and_found_by_words(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    outcomes = {f"host{n}.example": [SessionOutcome.CLEAN] for n in range(60)}
    await report_sessions(api.settings, {**outcomes, "google": [SessionOutcome.RATE]})

    async def rows(path: str) -> list[str]:
        page = (await operator.get(path)).text
        return re.findall(r'<th scope="row">.*?(?:mono">|">)([^<]+)<', page)

    gone = await rows("/ops/workers?state=gone")
    assert gone == ["worker-2:48"]
    assert len(await rows("/ops/workers?text=WORKER-1")) == 3
    lags = await rows("/ops/workers?sort=-lag")
    assert lags[:2] == ["worker-2:48", "worker-1:47"]
    assert (await rows("/ops/throttles?state=closed")) == ["google"]
    first, second = (
        await rows("/ops/throttles?sort=provider"),
        await rows("/ops/throttles?sort=provider&page=2"),
    )
    assert (len(first), len(set(first) & set(second)), second[-1]) == (50, 0, "yahoo")
    assert "Nothing matches" in (await operator.get("/ops/leases?text=nobody%27s")).text
    assert 'data-swap="/ops/workers/live?state=gone"' in (await operator.get("/ops/workers?state=gone")).text
    nonsense = await rows("/ops/workers?state=asleep&sort=smell&page=-4")
    assert len(nonsense) == 9


async def test_what_customers_name_is_shown_as_text(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    await sql(api.settings, "UPDATE job SET name = :name, error_detail = :name", name=HOSTILE)
    await sql(api.settings, "UPDATE account SET name = name || :name", name=HOSTILE)
    await sql(api.settings, "UPDATE schedule SET name = :name, last_error = :name", name=HOSTILE)
    await sql(api.settings, "UPDATE endpoint SET url = :name", name=HOSTILE)
    await sql(api.settings, "UPDATE chunk SET lane = :name, last_error = :name", name=HOSTILE)
    await sql(api.settings, "UPDATE worker SET host = :name, version = :name", name=HOSTILE)
    for path in (*PAGES, f"/ops/jobs/{await some_job(api)}"):
        page = await operator.get(path)
        assert page.status_code == 200, path
        assert HOSTILE not in page.text, path
        assert " style=" not in page.text, path


async def test_a_post_without_the_token_changes_nothing(api: Api, operator: httpx.AsyncClient) -> None:
    await fill(api.settings)
    for path in ("/ops/jobs", "/ops/workers", "/ops/leases", "/ops/throttles/hold", "/ops/broker"):
        answer = await operator.post(path, data={"order": "drain", "action": "cancel"})
        assert (answer.status_code, "csrf_failed" in answer.text) == (403, True), path
    assert await actions(api) == []


async def test_pages_are_small_with_a_thousand_jobs_and_twenty_thousand_chunks(
    api: Api, operator: httpx.AsyncClient
) -> None:
    await fill(api.settings, jobs=1_000, chunks=20)
    await report_sessions(api.settings, {f"host{n}.example": [SessionOutcome.CLEAN] for n in range(60)})
    (counted,) = await sql(api.settings, "SELECT count(*) AS n FROM chunk")
    assert counted["n"] > 19_000
    for path in (*PAGES, f"/ops/jobs/{await some_job(api)}"):
        size = len((await operator.get(path)).content)
        assert size < 100_000, f"{path} is {size:,} bytes"
