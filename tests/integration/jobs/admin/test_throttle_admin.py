"""Holds and edited limits: every process obeys within seconds, whatever becomes of Redis."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
import redis.asyncio

from mailsift.container import open_container, open_engine, open_service
from mailsift.jobs.admin.actions import Operations, ProviderLimits
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.sql.throttles import ANY_SOURCE
from mailsift.storage.states import JobState
from tests.support.busy_installation import report_sessions, sql
from tests.support.child_processes import environment_for
from tests.support.installation import settings_for
from tests.support.servers import RedisServer
from tests.support.workers import ROOT

PROVIDER = "ordinary-host.test"  # of ordinary.sandbox.test
LIST = "email\nknown1@ordinary.sandbox.test\nknown1@exim.sandbox.test\n"
SOON = "SELECT ready_at < clock_timestamp() + interval '10 s' AS soon FROM chunk WHERE state = 'ready'"
PATIENCE = 60.0


class Asker:
    """A process that asks the throttle."""

    def __init__(self, settings: Settings, provider: str = PROVIDER) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.throttle_client", provider],
            cwd=ROOT,
            env=environment_for(settings.environment()),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def until(self, wanted: Callable[[str], bool]) -> list[str]:
        """Return the answers up to the first one that is wanted."""
        limit, seen = time.monotonic() + PATIENCE, list[str]()
        while True:
            seen.append(self._lines.get(timeout=max(0.0, limit - time.monotonic())))
            if wanted(seen[-1]):
                return seen

    def until_in_a_row(self, line: str, count: int) -> None:
        """Return after so many answers of one kind in a row."""
        found = 0

        def enough(seen: str) -> bool:
            nonlocal found
            found = found + 1 if seen == line else 0
            return found == count

        self.until(enough)

    def next(self, count: int) -> list[str]:
        """Return the answers from now on, those not yet looked at left out."""
        while not self._lines.empty():
            self._lines.get()
        return [self._lines.get(timeout=PATIENCE) for _ in range(count)]


def granted(line: str) -> bool:
    return line.startswith("granted")


def held(line: str) -> bool:
    return line == "held"


async def test_a_hold_reaches_every_process_within_seconds_and_survives_an_emptied_redis(
    settings: Settings, ops: Operations
) -> None:
    assert settings.redis_url is not None
    with Asker(settings) as first, Asker(settings) as second:
        for asker in (first, second):
            asker.until(granted)
        began = time.monotonic()
        await ops.throttles.hold("olga", PROVIDER, ANY_SOURCE, seconds=0, note="asked to")
        for asker in (first, second):
            asker.until(held)
        assert time.monotonic() - began < PATIENCE / 2
        async with redis.asyncio.Redis.from_url(settings.redis_url.get_secret_value()) as client:
            await client.flushall()
        for asker in (first, second):
            assert set(asker.next(20)) == {"held"}
        assert await ops.throttles.let_go("olga", PROVIDER, ANY_SOURCE)
        for asker in (first, second):
            asker.until(granted)
    assert not await ops.throttles.let_go("olga", PROVIDER, ANY_SOURCE)


async def test_a_hold_holds_while_redis_is_gone(
    tmp_path: Path, database_url: str, redis_server: RedisServer
) -> None:
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_server.url, sandbox={}
    )
    with Asker(settings) as asker:
        asker.until(granted)
        async with open_container(settings) as container:
            ops = container.operations
            await ops.throttles.hold("olga", PROVIDER, ANY_SOURCE, seconds=3600)
            asker.until(held)
            redis_server.kill()
            assert set(asker.next(20)) == {"held"}
            await ops.throttles.let_go("olga", PROVIDER, ANY_SOURCE)  # its wake-up is lost; the rest is not
            asker.until(granted)


async def test_edited_limits_reach_every_process_and_a_raise_acts_as_fast_as_a_cut(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={},
        overrides="[limits]\nrate = 10\nburst = 5\n",
    )
    async with open_container(settings) as container:
        ops = container.operations
        with Asker(settings) as first, Asker(settings) as second:
            for asker in (first, second):
                asker.until(granted)
            await ops.throttles.edit_limits("olga", PROVIDER, "", ProviderLimits(rate=0.001, sessions=1))
            for asker in (first, second):  # once the burst that is left has gone
                asker.until_in_a_row("denied", 30)
            (row,) = [row for row in await ops.console.throttles() or () if row.edit]
            assert (row.now.rate, row.now.sessions, row.base.rate) == (0.001, 1, 10.0)
            began = time.monotonic()
            await ops.throttles.edit_limits("olga", PROVIDER, "", ProviderLimits(rate=None, sessions=None))
            for asker in (first, second):
                asker.until(granted)
            assert time.monotonic() - began < PATIENCE / 2
    assert await sql(settings, "SELECT * FROM throttle_edit") == []


async def test_a_held_provider_is_not_asked_its_addresses_wait_and_go_on_when_let_go(
    settings: Settings, ops: Operations, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    sandbox.reset()
    source = tmp_path / "list.csv"
    source.write_text(LIST)
    await ops.throttles.hold("olga", PROVIDER, ANY_SOURCE, seconds=3600)
    async with open_service(settings) as service, open_engine(settings) as engine:
        account = await service.account("tests")
        job = await service.submit(account, source, JobOptions())
        await engine.drain()
        view = await service.get(account, job)
        assert (view.state, view.processed, view.valid) == (JobState.RUNNING, 1, 1)
        assert [(wait.reason, wait.addresses) for wait in view.waiting] == [("throttled", 1)]
        assert PROVIDER not in sandbox.counters()["rcpts_by_provider"]
        await sql(settings, "UPDATE chunk SET lane = :lane WHERE state = 'ready'", lane=PROVIDER)
        picture = await ops.console.job(job)
        (backlog,) = picture.backlogs
        assert (backlog.row.throttle_key, backlog.held) == (PROVIDER, True)
        assert backlog.seconds == pytest.approx(3600, abs=60)
        await ops.throttles.let_go("olga", PROVIDER, ANY_SOURCE)
        await engine.drain()  # it may still take the provider for held
        assert all(row["soon"] for row in await sql(settings, SOON))
        limit = time.monotonic() + PATIENCE
        while (view := await service.get(account, job)).finished_at is None:
            assert time.monotonic() < limit, view
            await engine.drain()
    assert (view.state, view.valid) == (JobState.COMPLETED, 2)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (ProviderLimits(rate=20_001, sessions=None), "bad_limit"),
        (ProviderLimits(rate=0, sessions=None), "bad_limit"),
        (ProviderLimits(rate=float("nan"), sessions=None), "bad_limit"),
        (ProviderLimits(rate=None, sessions=11), "bad_limit"),
        (ProviderLimits(rate=None, sessions=0), "bad_limit"),
    ],
)
async def test_no_edit_goes_above_twice_the_table(ops: Operations, limits: ProviderLimits, code: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        await ops.throttles.edit_limits("olga", "google", "", limits)
    assert refused.value.code == code
    assert await ops.console.audit() == []


async def test_what_is_written_past_the_form_is_bounded_too(settings: Settings, ops: Operations) -> None:
    await sql(
        settings,
        "INSERT INTO throttle_edit (provider, source, rate, sessions, edited_by)"
        " VALUES ('google', '*', 1e9, 9999, 'psql')",
    )
    row = await ops.console.throttle("google", "")
    assert (row.now.rate, row.now.sessions) == (10_000.0, 10)


async def test_nobody_holds_what_does_not_exist(ops: Operations) -> None:
    for provider, source, seconds, code in (
        ("", "*", 0.0, "bad_provider"),
        ("google", "192.0.2.99", 0.0, "unknown_source"),
        ("google", "*", -1.0, "bad_limit"),
        ("google", "*", 1e9, "bad_limit"),
    ):
        with pytest.raises(MailsiftError) as refused:
            await ops.throttles.hold("olga", provider, source, seconds=seconds)
        assert refused.value.code == code


async def test_a_hold_ends_by_itself_and_limits_outlive_it(settings: Settings, ops: Operations) -> None:
    await ops.throttles.edit_limits("olga", "google", "*", ProviderLimits(rate=1.0, sessions=None))
    await ops.throttles.hold("olga", "google", "*", seconds=3600)
    row = await ops.console.throttle("google", "")
    assert (row.state, row.now.rate) == ("held", 1.0)
    await sql(settings, "UPDATE throttle_edit SET held_until = clock_timestamp() - interval '1 s'")
    row = await ops.console.throttle("google", "")
    assert (row.state, row.now.rate, row.edit is not None) == ("open", 1.0, True)


async def test_what_was_learned_is_forgotten_at_once(settings: Settings, ops: Operations) -> None:
    await report_sessions(settings, {"google": [SessionOutcome.RATE], "yahoo": [SessionOutcome.BLOCKED] * 5})
    before = {row.learned.provider: row for row in await ops.console.throttles() or ()}
    assert (before["google"].state, before["google"].learned.share) == ("closed", 0.5)
    assert (before["yahoo"].state, before["yahoo"].learned.blocks) == ("refused", 5)
    assert await ops.throttles.reset("olga", "google", ANY_SOURCE) == 1
    assert await ops.throttles.reset("olga", "yahoo", "") == 1
    assert await ops.throttles.reset("olga", "yahoo", "") == 0
    after = [row.state for row in await ops.console.throttles() or ()]
    assert after == ["open", "open"]
    actions = [(line.action, line.subject) for line in await ops.console.audit()]
    assert actions[-1] == ("throttle.reset", "google at every source")
