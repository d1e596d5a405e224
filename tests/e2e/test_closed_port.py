"""Where no mail server can be reached a deep job ends at once, says so loudly and blames no address."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from mailsift.storage.sql import accounts, jobs
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import settings_for
from tests.support.parts import open_database
from tests.support.ports import free_port

SEED, DOMAINS, ROWS = 5, 200, 2_000
SUMMARY = {
    "job_id",
    "status",
    "total_emails",
    "processed",
    "valid",
    "invalid",
    "risky",
    "duplicates",
    "address_column",
    "seconds",
    "tiers",
}
MEANINGLESS = ("yahoo.com", "ymail.com", "aol.com")  # providers nobody asks, reachable or not


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=SEED, domains=DOMAINS) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess) -> Settings:
    closed = {"MAILSIFT_SMTP_PORT": str(free_port())}
    addresses = {"database_url": database_url, "redis_url": redis_url}
    # What waits here is silent DNS alone: it is silent each time.
    return settings_for(
        tmp_path / "home", sandbox=sandbox.env | closed, greylist_delays=(0.5, 0.5, 0.5), **addresses
    )


async def stored(settings: Settings) -> tuple[dict[str, object], bool]:
    """The options of the one job, and whether it has a deadline."""
    database = open_database(settings)
    async with database.begin() as connection:
        account = await accounts.ensure_account(connection, "local")
        (row,) = await jobs.newest(connection, account, 2)
    await database.aclose()
    return row["options"], row["deadline_at"] is not None


def test_a_deep_job_ends_within_seconds_and_says_why(
    settings: Settings, keyboard: Keyboard, tmp_path: Path
) -> None:
    source, out = tmp_path / "list.csv", tmp_path / "out.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=ROWS)
    began = time.monotonic()
    words = ("run", source, "--output", out, "--json", "--max-age", "5", "--deadline", "3600")
    ran = CommandLine(settings).run(*words)
    assert time.monotonic() - began < 90  # a time-out for every server would be minutes
    assert ran.status == 0, ran.err
    summary = json.loads(ran.out)
    assert set(summary) == SUMMARY
    assert summary["seconds"] < 60
    assert "Warning: probe_unavailable: " in ran.err

    rows = pl.read_csv(out, infer_schema=False).hstack(
        pl.read_csv(source.with_name("list.truth.csv"), infer_schema=False).select("medium", "deep_result")
    )
    routed = rows.filter(
        (pl.col("medium") == "valid")
        & ~pl.col("email").str.strip_chars().str.to_lowercase().str.contains("|".join(MEANINGLESS))
    )
    assert len(routed) > 1_000
    assert set(routed["mailsift_result"]) == {"probe_unavailable"}
    assert set(routed["mailsift_status"]) == {"risky"}
    invalid = rows.filter(pl.col("mailsift_status") == "invalid")
    assert set(invalid["medium"]) <= {"invalid"}

    job = json.loads(keyboard.type(settings, "jobs", "show", summary["job_id"], "--json").out)
    assert job["warning"] == "probe_unavailable"
    assert "probe_unavailable" in keyboard.type(settings, "jobs", "show", summary["job_id"]).out
    options, has_deadline = asyncio.run(stored(settings))
    assert (options["max_age"], has_deadline) == (5.0, True)


def test_check_and_doctor_say_so_too(settings: Settings, keyboard: Keyboard) -> None:
    addresses = ("someone@gmail.com", "other@gmail.com", "nobody@nxdomain.sandbox.test")
    checked = keyboard.type(settings, "check", *addresses, "--json")
    results = [json.loads(line)["result"] for line in checked.out.splitlines()]
    assert results == ["probe_unavailable", "probe_unavailable", "domain_not_found"]
    assert checked.err.count("Warning: probe_unavailable: ") == 1
    assert checked.err.count('"port_25.closed"') == 1

    medium = keyboard.type(settings, "check", "someone@gmail.com", "--mode", "medium")
    assert "Warning" not in medium.err

    doctor = keyboard.type(settings, "doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(doctor.out)}
    assert doctor.status == 1
    assert findings["port 25"]["health"] == "failed"


def test_the_same_machine_with_an_open_port(
    settings: Settings, keyboard: Keyboard, sandbox: SandboxProcess
) -> None:
    opened = settings.model_copy(update={"smtp_port": sandbox.smtp_port})
    checked = keyboard.type(opened, "check", "known1@ordinary.sandbox.test", "--json")
    assert json.loads(checked.out)["result"] == "deliverable"
    assert checked.err == ""
    report = keyboard.type(opened, "doctor", "--json").out
    findings = {finding["name"]: finding for finding in json.loads(report)}
    assert findings["port 25"]["health"] == findings["resolver"]["health"] == "ok"
