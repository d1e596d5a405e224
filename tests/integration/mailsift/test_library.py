"""The library on the sandbox: the engine's verdicts, every domain asked once, and nobody waits too long."""

from __future__ import annotations

import asyncio
import csv
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import mailsift
from mailsift import library
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from tests.support.installation import settings_for
from tests.support.ready_jobs import engine_on, work_until_ended

ROWS = 3_000


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=300, mix=WorldMix.CALM) as running:
        yield running


@pytest.fixture
def one(sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[mailsift.Checker]:
    for name, value in sandbox.env.items():
        monkeypatch.setenv(name, value)
    with mailsift.Checker() as opened:
        yield opened


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "list.csv"
    write_list(SandboxWorld(seed=1, domains=300, mix=WorldMix.CALM), path, rows=ROWS)
    return path


async def engine_verdicts(
    tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess, listed: Path
) -> pl.DataFrame:
    settings = settings_for(tmp_path, database_url=database_url, redis_url=redis_url, sandbox=sandbox.env)
    async with open_service(settings) as service, engine_on(settings) as engine:
        account = await service.account("tests")
        job = await service.submit(account, listed, JobOptions(mode=Mode.MEDIUM))
        await work_until_ended(engine, service, account, job)
        async with service.browser.results(account, job) as path:
            return pl.read_parquet(path)


async def test_medium_says_what_the_engine_says_and_asks_once(
    one: mailsift.Checker,
    sandbox: SandboxProcess,
    listed: Path,
    tmp_path: Path,
    database_url: str,
    redis_url: str,
) -> None:
    theirs = await engine_verdicts(tmp_path, database_url, redis_url, sandbox, listed)
    frame = pl.read_csv(listed, infer_schema=False)
    ours = await one.acheck_many(frame, column="email", prefix="mailsift_")
    fields = [f"mailsift_{name}" for name in VERDICTS]
    assert ours.select(fields).equals(theirs.select(fields))
    asked = sandbox.counters()["dns_queries"]
    assert one.check_many(frame["email"], mode="medium")["result"].equals(ours["mailsift_result"])
    assert one.check(frame["email"][0]).result == ours["mailsift_result"][0]
    # what DNS did not answer is asked for again after half a minute; canaries are looked at now and then
    assert sandbox.counters()["dns_queries"] - asked < ROWS / 30


def test_threads_share_one_loop_and_what_was_learned(one: mailsift.Checker) -> None:
    found: list[str] = []
    before = set(threading.enumerate())
    threads = [
        threading.Thread(target=lambda: found.append(str(one.check("known@ordinary.sandbox.test").result)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["passed"] * 8
    assert len(set(threading.enumerate()) - before) == 1


def test_deep_warns_once_and_knows_the_truth(one: mailsift.Checker, listed: Path) -> None:
    truth_path = listed.with_name("list.truth.csv")
    truth = list(csv.DictReader(truth_path.read_text(encoding="utf-8").splitlines()))
    known = {row["email"]: row["deep_result"] for row in truth if row["email"] and row["deep_result"]}
    some = {
        email: result
        for email, result in list(known.items())[:60]
        if result in {"deliverable", "mailbox_not_found"}
    }
    library.deep_was_said.clear()
    with pytest.warns(mailsift.DeepModeWarning, match="port 25"):
        found = one.check_many(list(some), mode="deep", deadline=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.check(next(iter(some)), mode="deep")
    wrong = [pair for pair in zip(found["result"], some.values(), strict=True) if pair[0] != pair[1]]
    assert {ours for ours, _ in wrong} <= {"not_asked", "deferred"}
    assert len(wrong) < len(some) / 2


async def test_a_deadline_makes_risky_what_is_not_known_and_closing_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAILSIFT_DNS_CANARIES", ",")
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    with silent, mailsift.Checker(resolvers=[f"127.0.0.1:{silent.getsockname()[1]}"]) as deaf:
        assert str(deaf.check("a@example.com", deadline=0.1).result) == "dns_unavailable"
        waiting = asyncio.create_task(deaf.acheck_many(["b@example.com"]))
        await asyncio.sleep(0.05)
        await deaf.aclose()
        with pytest.raises(mailsift.MailsiftError, match="checker_closed"):
            await waiting
