"""The operator's desk: everything to look at and everything to do, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.operations.actions import Actions
from jobs.operations.brakes import Brakes
from jobs.operations.console import Console, World
from jobs.operations.job_actions import JobActions
from jobs.ports import Waker
from jobs.service import JobService
from pipeline.clock import Clock
from storage.database import Database
from storage.redis import Client


@dataclass(frozen=True, slots=True)
class Operations:
    """What pages and terminal use.

    Attributes:
        console: to look.
        jobs, brakes, actions: to change jobs; providers and domains; workers, leases and deliveries.
    """

    console: Console
    jobs: JobActions
    brakes: Brakes
    actions: Actions


def operations(
    *, database: Database, redis: Client, jobs: JobService, waker: Waker, world: World, clock: Clock
) -> Operations:
    """Return the desk over these parts."""
    return Operations(
        console=Console(database=database, redis=redis, world=world),
        jobs=JobActions(database=database, jobs=jobs, waker=waker),
        brakes=Brakes(database=database, redis=redis, waker=waker, world=world),
        actions=Actions(database=database, waker=waker, clock=clock),
    )
