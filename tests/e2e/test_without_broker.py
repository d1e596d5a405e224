"""Redis is away for the whole of a job, or holds rubbish in the broker's place: the job completes."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import redis

from mailsift.container import open_service
from mailsift.jobs.tasks import QUEUE, make_app, send_wake_ups
from mailsift.jobs.views import JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.redis.connection import broker_keys
from mailsift.storage.states import JobState
from tests.support.child_processes import start_service
from tests.support.installation import ended, settings_for, until
from tests.support.servers import RedisServer
from tests.support.workers import kill_group, workers

COUNT = {
    "known{}@ordinary.sandbox.test": 30,
    "nobody{}@ordinary.sandbox.test": 20,
    "known{}@exim.sandbox.test": 10,
    "not an address {}": 5,
}
EMAILS = [shape.format(n) for shape, count in COUNT.items() for n in range(count)]
EXPECTED = {Mode.FAST: (60, 5), Mode.MEDIUM: (60, 5), Mode.DEEP: (40, 25)}


async def completed(settings: Settings, folder: Path, mode: Mode) -> JobView:
    """Have the list validated from upload to end."""
    source = folder / "list.csv"
    source.write_text("email\n" + "\n".join(EMAILS))
    async with open_service(settings) as service:
        account = await service.account("tests")
        job_id = await service.submit(account, source, JobOptions(mode=mode))
        return await ended(service, account, job_id, within=90)


async def test_a_job_completes_exactly_while_redis_is_away(
    tmp_path: Path, database_url: str, sandbox: SandboxProcess
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=f"unix://{tmp_path}/no.sock",
        sandbox=sandbox.env,
    )
    with workers(settings, 1, tmp_path / "worker.log"):
        for mode, (valid, invalid) in EXPECTED.items():
            view = await completed(settings, tmp_path, mode)
            assert (view.state, view.processed, view.risky) == (JobState.COMPLETED, len(EMAILS), 0), mode
            assert (view.valid, view.invalid) == (valid, invalid), mode


async def test_a_worker_that_waits_for_redis_ends_with_the_command_that_started_it(
    tmp_path: Path, database_url: str
) -> None:
    """Its loop waits in the library, where nothing of ours ticks: it went on for ever, and so did servers."""
    away, log = f"unix://{tmp_path}/no.sock", tmp_path / "worker.log"
    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=away, sandbox={})
    words = ("mailsift", "worker", "--processes", "1")
    command = ("sh", "-c", '"$@" --with-parent $$ & wait', "sh")

    async def waits() -> bool:
        return b"Cannot connect" in log.read_bytes()

    async def has_ended() -> bool:
        return not worker.is_running()

    with log.open("wb") as out, start_service(settings, out, *words, within=command) as shell:
        try:
            await until(waits, within=60)
            (worker,) = psutil.Process(shell.pid).children()
            shell.kill()
            await until(has_ended, within=30)
        finally:
            kill_group(shell.pid)


async def test_a_worker_says_now_and_then_that_redis_takes_nothing(
    tmp_path: Path, database_url: str, redis_server: RedisServer
) -> None:
    """It answers, so the library asked again at once, and wrote seven lines a second."""
    url, log = redis_server.url, tmp_path / "worker.log"
    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=url, sandbox={})

    def refusals() -> list[datetime]:
        warnings = [json.loads(line) for line in log.read_text().splitlines() if "Cannot connect" in line]
        return [datetime.fromisoformat(line["timestamp"]) for line in warnings]

    async def is_connected() -> bool:
        return bool(client.exists("ms:celery:_kombu.binding.mailsift"))

    async def was_refused_again() -> bool:
        return len(refusals()) >= 3

    async def takes_wake_ups() -> bool:
        return not client.llen("ms:celery:mailsift")

    with (
        redis.Redis.from_url(url) as client,
        workers(settings, 1, log) as group,
        closing(make_app(url)) as app,
    ):
        await until(is_connected, within=60)
        client.replicaof("127.0.0.1", 1)
        await until(was_refused_again, within=60)
        client.replicaof("NO", "ONE")
        send_wake_ups(app, 1)
        await until(takes_wake_ups, within=60)
        assert group.all_alive
    times = refusals()
    assert min(later - one for one, later in pairwise(times)) > timedelta(seconds=1)


NAMES = (
    "mailsift",
    "unacked",
    "unacked_index",
    "_kombu.binding.mailsift",
    "_kombu.binding_permanent.mailsift",
    "_kombu.binding_deadlines",
)
KEYS = [f"ms:celery:{name}" for name in NAMES]


async def test_a_broker_key_of_a_wrong_type_is_mended(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={})
    log = tmp_path / "worker.log"

    async def mended() -> bool:
        return all(client.type(key) != b"string" for key in KEYS)

    with redis.Redis.from_url(redis_url) as client:
        client.mset(dict.fromkeys(KEYS, "rubbish"))
        with workers(settings, 1, log) as group:
            for spoilt in ([], *([key] for key in KEYS)):
                for key in spoilt:
                    client.delete(key)
                    client.set(key, "rubbish")
                assert (await completed(settings, tmp_path, Mode.FAST)).valid == 60, spoilt
                await until(mended, within=60)
            assert group.all_alive
            kept = {key.decode() for key in client.scan_iter("ms:celery:*")}
            assert kept <= set(broker_keys(QUEUE)), "the library keeps something that nobody would mend"
    warnings = [json.loads(line) for line in log.read_text().splitlines() if "broker.key_mended" in line]
    assert {event["key"] for event in warnings} == set(KEYS)


async def test_a_broker_key_is_mended_when_the_worker_stumbles_over_it_before_it_ticks(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={}, sweep_seconds=3600
    )
    app, log = make_app(redis_url), tmp_path / "worker.log"

    with redis.Redis.from_url(redis_url) as client, workers(settings, 1, log) as group, closing(app):
        for key in KEYS[:3]:  # the last of them is read before a connection is there
            count = log.read_text().count("broker.key_mended")
            client.set(key, "rubbish")
            send_wake_ups(app, 1)

            async def mended(before: int = count) -> bool:
                return log.read_text().count("broker.key_mended") > before

            await until(mended, within=60)
            assert group.all_alive
