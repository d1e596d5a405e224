"""The audit log: sentences with the list's name, narrowed, downloaded, told to webhooks that ask for it."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

from mailsift.accounts.people import Role
from mailsift.container import open_service
from mailsift.events.payloads import EventType
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import sql, words
from tests.support.sessions import post, signed_in

SECRET_PATH = "https://hooks.example.com/T000/B000/XXXX"
ADA = "ada@example.com"


async def _happened(
    api: Api, action: str, subject: str = "", at: str = "2026-07-01T12:00Z", **detail: object
) -> None:
    await sql(
        api.settings,
        "INSERT INTO audit (account_id, actor, action, subject, detail, at)"
        " SELECT id, :actor, :action, :subject, CAST(:detail AS jsonb), :at FROM account"
        " WHERE name = 'alice'",
        actor=ADA,
        action=action,
        subject=subject,
        detail=json.dumps(detail),
        at=datetime.fromisoformat(at),
    )


async def _a_job(api: Api, name: str) -> str:
    source = api.settings.home / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(api.settings) as service:
        job = await service.submit(
            await service.account("alice"), source, JobOptions(name=name, mode=Mode.FAST)
        )
    await sql(api.settings, "UPDATE job SET addresses = 12044, state = 'completed', finished_at = now()")
    return f"/jobs/{job}"


async def test_a_line_is_a_sentence_that_outlives_its_list_and_names_no_address(api: Api) -> None:
    async with signed_in(api) as owner:
        job = await _a_job(api, "June newsletter")
        await post(owner, f"{job}/delete", page="/")
        assert (await owner.get(job)).status_code == 404
        assert "deleted “June newsletter” (fast, 12,044 addresses)" in words(
            (await owner.get("/account/log")).text
        )
        job = await _a_job(api, "for bob@corp.example only")
        await post(owner, f"{job}/rerun", page="/")
        page = words((await owner.get("/account/log")).text)
        assert "ran again “for … only” (fast, 12,044 addresses)" in page
        assert "bob@corp.example" not in page


async def test_the_log_is_narrowed_by_who_what_and_when_in_the_readers_days(api: Api) -> None:
    async with signed_in(api) as owner:
        await _happened(api, "schedule.create", "Monthly", at="2026-07-01T22:30Z")
        await _happened(api, "webhook.create", SECRET_PATH, at="2026-07-03T12:00Z")
        log = "/account/log"
        found = {
            "Monthly": {"who": ADA, "what": "schedules"},
            "hooks.example.com": {"since": "2026-07-03", "until": "2026-07-03"},
        }
        for name, asked in found.items():
            page = (await owner.get(log, params=asked)).text
            assert [other in page for other in found] == [other == name for other in found], asked
        first, second = ({"since": day, "until": day} for day in ("2026-07-01", "2026-07-02"))
        assert "Monthly" in (await owner.get(log, params=first)).text
        await post(owner, "/account/you/zone", zone="Europe/Berlin")
        assert "Monthly" not in (await owner.get(log, params=first)).text
        assert "Monthly" in (await owner.get(log, params=second)).text
        assert "Nothing matches" in (await owner.get(log, params={"who": "nobody@example.com"})).text
        assert SECRET_PATH not in (await owner.get(log)).text


async def test_the_log_is_downloaded_whole_or_narrowed_by_every_member_and_by_nobody_else(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as viewer, signed_in(api, account="bob") as bob:
        await sql(
            api.settings,
            "INSERT INTO audit (account_id, actor, action, subject)"
            " SELECT id, 'cli', 'schedule.run', 'n' || n FROM account, generate_series(1, 2100) n"
            " WHERE name = 'alice'",
        )
        await _happened(api, "key.create", "svc_key_h4Tz…9QpL", name="Newsletter server")
        await _happened(api, "webhook.create", SECRET_PATH)
        answer = await viewer.get("/account/log.jsonl")
        assert "attachment" in answer.headers["content-disposition"]
        lines = [json.loads(line) for line in answer.text.splitlines()]
        ids = [line["id"] for line in lines]
        assert len(ids) >= 2_102
        assert ids == sorted(set(ids), reverse=True)
        assert (lines[0]["actor"], lines[0]["sentence"]) == (
            ADA,
            f"{ADA} registered the webhook hooks.example.com",
        )
        assert datetime.fromisoformat(lines[0]["at"]).utcoffset() == timedelta()
        assert "svc_key" not in answer.text
        assert "T000" not in answer.text
        narrow = (await viewer.get("/account/log.jsonl", params={"who": ADA, "what": "keys"})).text
        assert [json.loads(line)["subject"] for line in narrow.splitlines()] == ["“Newsletter server”"]
        assert ADA not in (await bob.get("/account/log.jsonl")).text


async def test_lines_are_told_to_webhooks_that_name_the_event_and_to_no_other(settings: Settings) -> None:
    local = settings.model_copy(update={"webhook_allow_http": True, "allow_non_public": True})
    kinds = [one.value for one in EventType]
    async with running(local) as api, signed_in(api) as owner:
        form = (await owner.get("/webhooks/new")).text
        assert len(re.findall(r'name="type" type="checkbox"[^>]* checked', form)) == 2, (
            "not before it is chosen"
        )
        for name, types in {"all": kinds[:2], "log": ["audit.recorded"]}.items():
            made = await post(owner, "/webhooks/new", url=f"http://127.0.0.1:9/{name}", type=types)
            assert made.status_code == 200, made.text
        job = await _a_job(api, "June newsletter")
        await post(owner, f"{job}/rerun", page="/")
    events = await sql(
        settings,
        "SELECT url, convert_from(body, 'UTF8') FROM delivery JOIN event ON event_id = event.id"
        " JOIN endpoint ON endpoint_id = endpoint.id WHERE type = 'audit.recorded' ORDER BY event.created_at",
    )
    assert {url for url, _ in events} == {"http://127.0.0.1:9/log"}
    data = json.loads(str(events[-1][1]))["data"]
    assert data["action"] == "job.rerun"
    assert data["sentence"].endswith("ran again “June newsletter” (fast, 12,044 addresses)")
    assert set(data) == {"action", "actor", "subject", "sentence"}
