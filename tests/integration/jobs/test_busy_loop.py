"""A loop that gets no turn for longer than our patience is no silent server: nobody is asked twice."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import polars as pl
from typing_extensions import override

from mailsift.jobs.service import JobService
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.validator import ValidationRequest, ValidationResult
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.ready_jobs import Changed, Planter, engine_on, work_until_ended

PATIENCE: Final = 1.2
"""Seconds without news from DNS after which the engine would let a domain come back later."""
HOSTS: Final = 4


class Starved(Changed):
    """Takes the loop for longer than the engine's patience, again and again, while a frame is validated."""

    @override
    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        hog = asyncio.create_task(_hold_the_loop())
        try:
            return await super().validate(frame, request)
        finally:
            hog.cancel()


def take_the_core() -> None:
    time.sleep(1.5 * PATIENCE)  # what a machine without a free core does to the loop


async def _hold_the_loop() -> None:
    while True:
        take_the_core()
        await asyncio.sleep(0.02)


async def test_whoever_has_no_processor_asks_nobody_twice(
    settings: Settings, planter: Planter, service: JobService, sandbox: SandboxProcess
) -> None:
    asked = {}
    for validator in (Changed, Starved):
        given = [f"known@{validator.__name__.lower()}{n}.flood.sandbox.test" for n in range(HOSTS)]
        account, job = await planter.plant(given, options=JobOptions(mode=Mode.DEEP, max_age=0))
        sandbox.reset()
        patience: dict[str, object] = {"dns_s": PATIENCE, "brisk_s": PATIENCE, "budget_s": 2 * PATIENCE}
        async with engine_on(settings, validator(), work_plan=patience) as engine:
            view = await work_until_ended(engine, service, account, job)
        asked[validator] = {"chunks": view.chunks, "rcpts": sandbox.counters()["rcpts"]}
        assert view.valid == HOSTS
    assert asked[Changed]["chunks"] == 1
    assert asked[Starved] == asked[Changed]
