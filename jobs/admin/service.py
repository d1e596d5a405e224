"""What operators look at and what they do, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from mailsift.jobs.admin.actions import Actions, JobActions
from mailsift.jobs.admin.console import Console, FleetConfig
from mailsift.jobs.admin.throttle_admin import ThrottleAdmin
from mailsift.jobs.forecasts import Forecasts
from mailsift.jobs.service import JobService
from mailsift.jobs.waker import Waker
from mailsift.storage.database import Database
from mailsift.storage.redis.connection import Client


@dataclass(frozen=True, slots=True)
class Operations:
    """What pages and terminal use.

    Attributes:
        console: to look.
        jobs, throttles, actions: to change jobs; providers and domains; workers, leases and deliveries.
    """

    console: Console
    jobs: JobActions
    throttles: ThrottleAdmin
    actions: Actions


def operations(
    *,
    database: Database,
    redis: Client,
    jobs: JobService,
    forecasts: Forecasts,
    waker: Waker,
    world: FleetConfig,
) -> Operations:
    """Put it together over these parts."""
    return Operations(
        console=Console(database=database, redis=redis, forecasts=forecasts, world=world),
        jobs=JobActions(database=database, jobs=jobs, waker=waker),
        throttles=ThrottleAdmin(database=database, redis=redis, waker=waker, world=world),
        actions=Actions(database=database, waker=waker, clock=world.clock),
    )
