"""Whoever can write to the broker can wake workers and nothing else: what comes is JSON or thrown away."""

from __future__ import annotations

import os
from pathlib import Path

from kombu import Exchange, Producer, Queue
from typing_extensions import override

from mailsift.container import open_service
from mailsift.jobs.tasks import PULL, QUEUE, make_app
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.storage.states import JobState
from tests.support.installation import ended, settings_for, until
from tests.support.workers import workers


class Mine:
    """Makes a directory when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self._place = str(place)

    @override
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self._place,)


def send(redis_url: str, body: object, *, serializer: str, task: str = PULL) -> None:
    """Put a message into the queue as whoever likes would."""
    queue = Queue(QUEUE, Exchange(QUEUE), routing_key=QUEUE)
    with make_app(redis_url).connection_for_write() as connection:
        Producer(connection).publish(
            body,
            exchange=queue.exchange,
            routing_key=QUEUE,
            declare=[queue],
            serializer=serializer,
            headers={"task": task, "id": "x", "lang": "py", "argsrepr": "", "kwargsrepr": ""},
            correlation_id="x",
        )


async def test_a_pickle_is_not_opened_and_no_other_task_is_known(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={})
    log, made = tmp_path / "worker.log", tmp_path / "made"
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    send(redis_url, ((Mine(made),), {}, {}), serializer="pickle")
    send(redis_url, ([str(made)], {}, {}), serializer="json", task="os.mkdir")
    send(redis_url, ([str(made)], {"path": str(made)}, {}), serializer="json")

    async def refused() -> bool:
        logged = log.read_text()
        return all(why in logged for why in ("ContentDisallowed", "unregistered task", "builtins.TypeError"))

    with workers(settings, 1, log):
        await until(refused, within=60)
        async with open_service(settings) as service:
            account = await service.account("tests")
            job_id = await service.submit(account, source, JobOptions(mode=Mode.FAST))
            view = await ended(service, account, job_id, within=60)
    assert view.state is JobState.COMPLETED
    assert not made.exists()
