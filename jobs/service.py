"""What callers ask of jobs: submit, read, control, delete, browse, and fetch the results."""

from __future__ import annotations

import base64
import binascii
import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from mailsift.events import audit
from mailsift.jobs.engine.end import cancel_job
from mailsift.jobs.erasure import Eraser
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.metrics import JOBS_ENDED
from mailsift.jobs.places.service import Places
from mailsift.jobs.results.breakdown import Diff, Replay, compare_runs, count_tiers, replay
from mailsift.jobs.results.browse import Browser, RowFilter, in_thread
from mailsift.jobs.results.parts import rows_to_retry
from mailsift.jobs.submissions import Submissions, Submitted
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView, load_options, view_of
from mailsift.jobs.waker import Waker
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.tiers import Tier, TierPolicy
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import accounts, chunks, jobs, people
from mailsift.storage.sql.jobs import JobEvent, job_not_found, owned
from mailsift.storage.states import ENDED, JobState, JobTransition

if TYPE_CHECKING:
    from mailsift.jobs.forecasts import Forecasts

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first, and where the next page begins; "" when there is none."""

    jobs: list[JobView]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class JobHistory:
    """What stands beside the view of a job.

    Attributes:
        runs: other jobs over the same list, newest first.
        events: its events, oldest first.
        source_name, source_bytes: of the uploaded file.
        stored_bytes: of all that is kept of it, 0 while the store does not answer.
        column: name of the address column, "" until it is known.
        schedule_id: the schedule that started it.
    """

    runs: tuple[JobView, ...]
    events: tuple[JobEvent, ...]
    source_name: str
    source_bytes: int
    stored_bytes: int
    column: str
    schedule_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobService:
    """The jobs of one installation; every call names the account it speaks for.

    Attributes:
        submissions: stores lists and inserts their jobs.
        browser: reads results row by row, what they amount to, and as a file.
        forecasts: who says when jobs end; loaded when the first is asked about that has not.
    """

    database: Database
    blobs: Blobs
    waker: Waker
    scratch: Path
    forecasts: Callable[[], Forecasts]
    places: Places
    eraser: Eraser
    submissions: Submissions
    browser: Browser

    async def account(self, name: str) -> AccountId:
        """Return the account with this name, made when it is new."""
        return AccountId(await self.database.run(accounts.ensure_account, name))

    async def find_account(self, name: str) -> AccountId:
        """Return the account with this name.

        Raises:
            MailsiftError: `account_not_found`.
        """
        found = await self.database.run(accounts.find, name)
        if found is None:
            raise MailsiftError("account_not_found", "There is no account with this name.")
        return AccountId(found)

    async def owner(self, account_id: AccountId, job_id: JobId) -> AccountId:
        """Return whose a job is that the account's people may see: its own or its test account's."""
        found = await self.database.run(accounts.owner_of_job, account_id, job_id)
        return account_id if found is None else AccountId(found)

    async def test_account(self, account_id: AccountId) -> AccountId | None:
        """Return the account's test account, None where nobody has tested yet."""
        found = await self.database.run(accounts.test_account, account_id)
        return None if found is None else AccountId(found)

    async def submit(
        self, account_id: AccountId, source: Path, options: JobOptions, *, parent: JobId | None = None
    ) -> JobId:
        """Store a list and start its job.

        Raises:
            MailsiftError: `file_not_found`, `not_a_file`, or what the blob store says.
        """
        check_readable(source)
        submitted = await self.receive(
            account_id, read_pieces(source), options, source_name=source.name, parent=parent
        )
        return submitted.job_id

    async def receive(  # noqa: PLR0913 - what a list is sent with, one argument each
        self,
        account_id: AccountId,
        pieces: AsyncIterator[bytes],
        options: JobOptions,
        *,
        source_name: str = "",
        parent: JobId | None = None,
        sink: str = "",
        once: str = "",
    ) -> Submitted:
        """Store a list as it comes in and start its job; memory holds one piece at a time.

        Args:
            account_id: whose list.
            pieces: the file; when they end early by an exception, nothing is left of them.
            options: what to do.
            source_name: the file's name as the customer calls it.
            parent: the job this one repeats.
            sink: the place where the results are put, "" for nowhere.
            once: with the same key, list and options no second job is made within 24 hours.

        Raises:
            MailsiftError: `bad_place`, `place_not_allowed`, `unknown_export_format`, `idempotency_key_reused`
                with another list or other options, `empty_file`, what `pieces` raises, or what the blob store
                says.
        """
        places = await self.places.checked(account_id, "", sink)
        sealed = replace(options, places=self.places.seal(account_id, places)) if places else options
        digest = places.digest() if places else ""
        new = await self.submissions.store(account_id, pieces, sealed, source_name=source_name, parent=parent)
        try:
            submitted = await self.submissions.insert(new, once, digest)
        except MailsiftError as error:
            if error.code != "database_unavailable":  # else the job may be there, and nobody has heard of it
                await self.blobs.delete(JobBlobs(new.id).source)
            raise
        if submitted.job_id == new.id:  # be it by this commit or by one before that nobody has heard of
            await self.waker.wake(1)
        else:
            await self.blobs.delete(JobBlobs(new.id).source)
        return submitted

    async def fetch(
        self, account_id: AccountId, source: str, sink: str, options: JobOptions, *, once: str = ""
    ) -> Submitted:
        """Start a job whose list a worker fetches from a place; `sink` and `once` are as for `receive`.

        Raises:
            MailsiftError: `bad_place`, `place_not_allowed`, `unknown_export_format`,
                `idempotency_key_reused`.
        """
        places = await self.places.checked(account_id, source, sink)
        new = await self.submissions.expect(account_id, places, options)
        submitted = await self.submissions.insert(new, once)
        if submitted.fresh:
            await self.waker.wake(1)
        return submitted

    async def get(self, account_id: AccountId, job_id: JobId) -> JobView:
        """Return the job as it stands now.

        Raises:
            MailsiftError: `job_not_found`, also when it belongs to somebody else.
        """
        async with self.database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            waiting = [] if row["finished_at"] else await chunks.waits(connection, job_id)
        row = await self._with_tier_counts(row)
        left = None if row["finished_at"] else (await self.forecasts().of([row])).get(row["id"])
        return view_of(row, waiting, time_left=left)

    async def has_ended(self, account_id: AccountId, job_id: JobId) -> bool:
        """Say whether the job has ended, for who looks again and again: `get` works out when it may.

        Raises:
            MailsiftError: `job_not_found`, also when it belongs to somebody else.
        """
        async with self.database.begin() as connection:
            return (await owned(connection, account_id, job_id))["finished_at"] is not None

    async def _with_tier_counts(self, row: Row) -> Row:
        """Count the tiers of a complete job anew, where a release without tiers did some of it."""
        if row["state"] != JobState.COMPLETED or sum(row[tier.value] for tier in Tier) == row["processed"]:
            return row
        try:
            results = await self.blobs.fetch(JobBlobs(row["id"]).results)
        except MailsiftError:
            return row
        policy = load_options(row["options"]).tiers
        tiers = await in_thread(row["account_id"], count_tiers, results, policy)
        async with self.database.begin() as connection:
            await jobs.set_tiers(connection, row["id"], tiers)
            return await jobs.get(connection, row["id"]) or row

    async def numbered(self, account_id: AccountId, number: int) -> JobId:
        """Return the account's job with this number (mailsift.storage.sql.jobs.number_of).

        Raises:
            MailsiftError: `job_not_found`.
        """
        if 0 <= number < 1 << jobs.NUMBER_BITS:
            found = await self.database.run(jobs.numbered, account_id, number)
            if found is not None:
                return JobId(found)
        raise job_not_found()

    async def beginning_with(self, account_id: AccountId, text: str) -> JobId:
        """Return the account's job whose id begins with this.

        Raises:
            MailsiftError: `job_not_found`, `job_ambiguous`.
        """
        found = await self.database.run(jobs.beginning_with, account_id, text.lower(), 2) if text else ()
        if len(found) > 1:
            raise MailsiftError("job_ambiguous", "More than one job id starts with these characters.")
        if not found:
            raise job_not_found()
        return JobId(found[0])

    async def page(
        self,
        account_id: AccountId,
        *,
        limit: int,
        cursor: str = "",
        states: Collection[JobState] = (),
        name: str = "",
        days: tuple[datetime | None, datetime | None] = (None, None),
    ) -> JobPage:
        """Return one page of the account's jobs, behind the page whose `next_cursor` is given.

        New jobs do not shift the pages; see `mailsift.storage.sql.jobs.newest` for what narrows them.

        Raises:
            MailsiftError: `bad_cursor` for one that is not from this list with this filter.
        """
        dates = [f"day:{day.isoformat()}" if day else "" for day in days] if any(days) else []
        narrowed = [*sorted(states), *([f"name:{name}"] if name else []), *dates]
        before = _read_cursor(cursor, narrowed) if cursor else None
        rows = await self.database.run(
            jobs.newest, account_id, limit + 1, before=before, states=states, name=name, days=days
        )
        times = await self.forecasts().of(rows[:limit])
        views = [view_of(row, time_left=times.get(row["id"])) for row in rows[:limit]]
        more = len(rows) > limit
        return JobPage(views, _write_cursor(views[-1], narrowed) if more else "")

    async def _stored_bytes(self, job_id: JobId) -> int:
        try:
            return sum((await self.blobs.sizes(JobBlobs(job_id).prefix)).values())
        except MailsiftError:
            return 0

    async def history(self, account_id: AccountId, job_id: JobId, *, runs: int = 50) -> JobHistory:
        """Return what belongs to a job, with at most so many other runs.

        Raises:
            MailsiftError: `job_not_found`.
        """
        async with self.database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            others = await jobs.same_list(connection, row, runs)
            events = await jobs.events_of(connection, job_id)
        return from_row(
            JobHistory,
            row,
            runs=tuple(view_of(other) for other in others),
            events=tuple(events),
            stored_bytes=await self._stored_bytes(job_id),
            column=row["address_column"],
        )

    async def pause(self, account_id: AccountId, job_id: JobId) -> None:
        """Stop claiming the job's chunks; those being worked on may finish.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """
        await self._change(account_id, job_id, "pause", jobs.pause)

    async def resume(self, account_id: AccountId, job_id: JobId) -> None:
        """Let a paused job go on, beside the others and not before them.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """
        await self._change(account_id, job_id, "resume", jobs.resume)
        await self.waker.wake(1)

    async def cancel(self, account_id: AccountId, job_id: JobId) -> None:
        """End the job now; the verdicts it has so far are kept.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """
        await self._change(account_id, job_id, "cancel", cancel_job)
        JOBS_ENDED.labels(JobTransition.CANCEL.target).inc()
        await self.waker.wake(1)  # somebody is to be told

    async def _change(
        self,
        account_id: AccountId,
        job_id: JobId,
        verb: str,
        change: Callable[[Connection, UUID], Awaitable[bool]],
    ) -> None:
        async def transaction(connection: Connection) -> None:
            row = await owned(connection, account_id, job_id)
            if not await change(connection, job_id):
                raise _conflict(row["state"], verb)
            await audit.record_change(connection, account_id, f"job.{verb}", str(job_id))

        await self.database.run(transaction)

    async def delete(self, account_id: AccountId, job_id: JobId) -> None:
        """Delete an ended job and everything of it: list, results, events, idempotency key.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict` while it runs.
        """
        async with self.database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            named = await people.list_named(connection, account_id, str(job_id))
        if row["state"] not in ENDED:
            raise MailsiftError("job_state_conflict", "Cancel the running job first, then delete it.")
        await self.eraser.job(job_id)
        await self._record(account_id, job_id, "job.delete", **named)

    async def _record(self, account_id: AccountId, job_id: JobId, action: str, **detail: object) -> None:
        async with self.database.begin() as connection:
            await audit.record_change(connection, account_id, action, str(job_id), **detail)

    async def retry(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a new job over the rows of an ended one whose result says nothing about the mailbox.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`, `no_results_yet`, `nothing_to_retry`.
        """
        row = await self.database.run(owned, account_id, job_id)
        if row["state"] not in ENDED:
            raise MailsiftError("job_state_conflict", "Only a job that has ended can be retried.")
        # The results of some rows are not what is wanted where those of all of them are.
        options = replace(load_options(row["options"]), max_age=0.0, places="", preview=0, part=True)
        async with self.browser.results(account_id, job_id) as results:
            with tempfile.TemporaryDirectory(dir=self.scratch, prefix="retry-") as folder:
                source = Path(folder) / "retry.parquet"
                column = await in_thread(account_id, rows_to_retry, results, source, row["address_column"])
                name = f"{row['name'].removesuffix('(retry)').rstrip()} (retry)".lstrip()
                again = replace(options, column=column, name=name)
                made = await self.submit(account_id, source, again, parent=job_id)
        await self._record(account_id, job_id, "job.retry")
        return made

    async def rerun(
        self,
        account_id: AccountId,
        job_id: JobId,
        options: JobOptions,
        *,
        action: str = "job.rerun",
        once: str = "",
    ) -> JobId:
        """Start a new job over the list of another one; `action` is what the audit log says of it.

        Raises:
            MailsiftError: `job_not_found`, `source_gone`.
        """
        row = await self.database.run(owned, account_id, job_id)
        sealed, name = load_options(row["options"]).places, row["source_name"]
        try:
            source = await self.places.stored_list(
                self.blobs, account_id, job_id, sealed, sha256=row["source_sha256"]
            )
        except MailsiftError as error:
            if error.code != "blob_not_found":
                raise
            raise MailsiftError("source_gone", "The list of this job is no longer kept.") from error
        pieces = read_pieces(source)
        made = await self.receive(account_id, pieces, options, source_name=name, parent=job_id, once=once)
        await self._record(account_id, job_id, action)
        return made.job_id

    async def restart(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a new job over the list of one that failed for reasons of ours, once.

        Mailboxes that were asked already are not asked again.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`, `list_at_fault`, `already_restarted`,
                `source_gone`.
        """
        async with self.database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            repeated = await jobs.was_repeated(connection, job_id)
        if row["state"] != JobState.FAILED:
            raise _conflict(row["state"], "restart")
        if row["error_code"] in LIST_FAULTS:
            raise MailsiftError("list_at_fault", "This job failed because of its list and would fail again.")
        if repeated:
            raise MailsiftError("already_restarted", "This list has already been rerun.")
        options = replace(load_options(row["options"]), name=row["name"])
        return await self.rerun(account_id, job_id, options, action="job.restart", once=f"restart:{job_id}")

    async def repeat(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a new job over the same list as before; every mail server is asked again.

        Raises:
            MailsiftError: `job_not_found`, `source_gone`.
        """
        view = await self.get(account_id, job_id)
        return await self.rerun(account_id, job_id, replace(view.options, max_age=0.0, name=view.name))

    async def promote(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a job over the whole list of a preview; what the sample has just asked is not asked again.

        Raises:
            MailsiftError: `job_not_found`, `not_a_preview`, `source_gone`.
        """
        view = await self.get(account_id, job_id)
        if not view.options.preview:
            raise MailsiftError("not_a_preview", "This job isn’t a preview.")
        options = replace(view.options, preview=0, name=view.name)
        return await self.rerun(account_id, job_id, options, action="job.promote")

    async def diff(self, account_id: AccountId, before: JobId, after: JobId, *, limit: int) -> Diff:
        """Compare two runs of a list (mailsift.jobs.results.breakdown).

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `not_the_same_list`.
        """
        async with self.database.begin() as connection:
            rows = [await owned(connection, account_id, job_id) for job_id in (before, after)]
        columns = (rows[0]["address_column"], rows[1]["address_column"])
        lists = (await self._whole_list(rows[0]), await self._whole_list(rows[1]))
        async with (
            self.browser.results(account_id, before) as old,
            self.browser.results(account_id, after) as new,
        ):
            return await in_thread(account_id, compare_runs, old, new, columns, limit=limit, lists=lists)

    async def _whole_list(self, row: Row) -> Path | None:
        """Return all rows of a job that has not completed; None: every row has a verdict."""
        if row["state"] == JobState.COMPLETED:
            return None
        return await self.blobs.fetch_if_there(JobBlobs(row["id"]).rows)

    async def replay(
        self, account_id: AccountId, job_id: JobId, policy: TierPolicy, *, keep: bool = False
    ) -> Replay:
        """Say what another policy makes of the verdicts so far; `keep`: the job is read by it from now on.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `job_state_conflict` to keep it while it runs.
        """
        async with self.browser.selection(account_id, job_id, RowFilter()) as found:
            replayed = await in_thread(account_id, replay, found.results, found.policy, policy)
        if keep:
            async with self.database.begin() as connection:
                await owned(connection, account_id, job_id)
                if not await jobs.set_tiers(connection, job_id, replayed.after, policy=policy.as_json()):
                    text = "A job that runs keeps its policy; cancel it, or wait for its end."
                    raise MailsiftError("job_state_conflict", text)
                await audit.record_change(connection, account_id, "job.policy", str(job_id))
        return replayed


async def read_pieces(source: Path) -> AsyncIterator[bytes]:
    """Read a file piece by piece."""
    with source.open("rb") as file:
        while data := file.read(_READ_BYTES):
            yield data


def _conflict(state: str, verb: str) -> MailsiftError:
    return MailsiftError("job_state_conflict", f"You can’t {verb} a job whose state is “{state}”.")


def check_readable(source: Path) -> None:
    """Refuse what cannot be a list.

    Raises:
        MailsiftError: `file_not_found`, `not_a_file`.
    """
    if not os.path.exists(source):  # noqa: PTH110 - says no to a name that is too long for one
        raise MailsiftError("file_not_found", f"There is no file {source}.")
    if not source.is_file():
        raise MailsiftError("not_a_file", f"{source} isn’t a regular file.")


def _write_cursor(last: JobView, narrowed: list[str]) -> str:
    place = json.dumps([last.created_at.isoformat(), str(last.id), narrowed])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, narrowed: list[str]) -> tuple[datetime, UUID]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        stamp, job_id, found = json.loads(base64.b64decode(padded, b"-_", validate=True))
        created_at, last = datetime.fromisoformat(stamp), UUID(job_id)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise _bad_cursor() from None
    if found != narrowed or created_at.tzinfo is None:
        raise _bad_cursor()
    return created_at, last


def _bad_cursor() -> MailsiftError:
    return MailsiftError("bad_cursor", "This cursor doesn’t belong to this list with this filter.")
