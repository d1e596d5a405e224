"""The first things there are to do for a new account, until each is done or put away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from typing import Final

from mailsift.accounts.keys import KeyService
from mailsift.accounts.people import Visitor
from mailsift.jobs.service import JobService
from mailsift.jobs.submissions import one_piece
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.scripted import ADDRESSES, DOMAIN
from mailsift.pipeline.verdict import Result
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts
from mailsift.storage.sql.accounts import StepsRow

_SAMPLE_NAME: Final = "Sample list"
_DAYS: Final = 14
_NOT_DEEP: Final = frozenset({Result.PASSED, Result.UNKNOWN_SUFFIX})
_PEOPLE: Final = (
    *("Amara Osei", "Ben Carter", "Chiara Conti", "Daniel Novak", "Elif Demir", "Finn Larsen"),
    *("Grace Lim", "Hugo Martin", "Ines Silva", "Jonas Weber", "Kira Sato", "Liam Walsh"),
)
_MORE: Final = ("marie", "paul", "sofia", "info")  # so that some are safe to send, one of them a role


class FirstStep(StrEnum):
    """A first thing to do."""

    SAMPLE = "sample"
    LIST = "list"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """What is left to do, in order; `has_key`: of connecting a system, half is done."""

    left: tuple[FirstStep, ...] = ()
    has_key: bool = False


def _steps_left(row: StepsRow | None) -> FirstSteps:
    """Decide what is left to do: nothing for an account that has been at work for a while."""
    if row is None or not row.new:
        return FirstSteps()
    done: Mapping[FirstStep, bool] = {
        FirstStep.SAMPLE: row.sample is not None,
        FirstStep.LIST: row.has_list,
        FirstStep.CONNECT: row.has_key and row.has_webhook,
    }
    left = tuple(step for step in FirstStep if not done[step] and step not in row.dismissed)
    return FirstSteps(left, row.has_key)


def sample_list() -> bytes:
    """Return a list with every result that mode deep knows; its addresses are those of test mode."""
    rows = [(result.value, email) for result, email in ADDRESSES.items() if result not in _NOT_DEEP]
    rows += [(Result.DELIVERABLE.value, f"{local}@{DOMAIN}") for local in _MORE]
    named = (f"{name},{email},{result}" for name, (result, email) in zip(cycle(_PEOPLE), rows, strict=False))
    return "\n".join(("name,email,what it shows", *named, "")).encode()


class FirstStepsService:
    """What a new account has to do, and the sample list."""

    def __init__(self, *, database: Database, keys: KeyService, jobs: JobService) -> None:
        self._database = database
        self._keys = keys
        self._jobs = jobs

    async def of(self, visitor: Visitor) -> FirstSteps:
        """Return what the visitor's account has left to do."""
        return _steps_left(await self._row(visitor.account_id))

    async def dismiss(self, visitor: Visitor, step: FirstStep) -> None:
        """Put a step away, for everybody of the visitor's account."""
        await self._database.run(accounts.dismiss_step, visitor.account_id, step.value)

    async def run_sample(self, account_id: AccountId) -> JobId:
        """Start the sample list, once, in the account's test account: nobody is asked, nothing counted."""
        row = await self._row(account_id)
        if row is not None and row.sample is not None:
            return JobId(row.sample)
        owner = await self._keys.test_account(account_id)
        options = JobOptions(mode=Mode.DEEP, evidence=True, name=_SAMPLE_NAME)
        submitted = await self._jobs.receive(
            owner, one_piece(sample_list()), options, source_name="sample-list.csv", once="first-steps:sample"
        )
        return submitted.job_id

    async def _row(self, account_id: AccountId) -> StepsRow | None:
        return await self._database.run(accounts.steps_of, account_id, days=_DAYS)
