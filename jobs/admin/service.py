"""What operators look at and what they do, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from mailsift.jobs.admin.actions import Actions, JobActions
from mailsift.jobs.admin.console import Console, InstallationReader
from mailsift.jobs.admin.throttle_admin import ThrottleAdmin


@dataclass(frozen=True, slots=True)
class Operations:
    """What pages and terminal use.

    Attributes:
        reader: reads what the alarms look at.
        jobs, throttles, actions: to change jobs; providers and domains; workers, leases and deliveries.
    """

    console: Console
    reader: InstallationReader
    jobs: JobActions
    throttles: ThrottleAdmin
    actions: Actions
