"""A session with a Mailsift installation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, BinaryIO, Final, Self, TypedDict
from uuid import UUID

import httpx
from typing_extensions import Unpack

from mailsift_client.errors import MailsiftError, problem_in, problem_of, unwrap
from mailsift_client.generated import AuthenticatedClient
from mailsift_client.generated.api.email import validate_batch, validate_email
from mailsift_client.generated.api.events import list_events
from mailsift_client.generated.api.jobs import create_job, delete_job, follow_job, get_job, get_results
from mailsift_client.generated.models import (
    BatchRequest,
    BatchVerdict,
    EnvelopeBatchResponse,
    EnvelopeEventsResponse,
    EnvelopeJobResponse,
    EnvelopeNoneType,
    EnvelopeResultsResponse,
    EnvelopeUnionFullVerdictMinimalVerdict,
    EventResponse,
    EventType,
    FullVerdict,
    JobResponse,
    JobState,
    JsonList,
    Mode,
    Priority,
    Result,
    ResultFormat,
    ResultRowResponse,
    SingleRequest,
    SortBy,
    Status,
    Tier,
)
from mailsift_client.generated.types import UNSET, File
from mailsift_client.transport import PatientTransport, proxy_of
from mailsift_client.uploads import Upload, addresses_of, file_of

ENDED: Final[frozenset[JobState]] = frozenset({"completed", "failed", "cancelled"})
"""States a job does not leave."""
WAIT: Final = 50.0
"""Seconds of one call that waits for a job."""
PAUSE: Final = 1.0
"""Seconds before a stream that broke off is taken up again."""


class ListOptions(TypedDict, total=False):
    """How a list is to be validated; docs/api.md says what each of them does."""

    mode: Mode
    column: str
    name: str
    max_age: float
    priority: Priority
    deadline: float
    retention: float
    evidence: bool
    repair: bool
    preview: int
    sink: str


class RowFilter(TypedDict, total=False):
    """Which rows of the results, and what of them."""

    status: list[Status]
    result: list[Result]
    tier: list[Tier]
    provider: str
    domain: str
    text: str
    repaired: bool
    columns: list[str]


class Mailsift:
    """A session; closed with the block.

    Args:
        url: of the installation.
        key: `svc_key_...`, or `svc_test_...` for test mode.
        patience: seconds to wait in all for one answer, where the service says later or is away.
        timeout: seconds to wait for any other.
        sleep: waits so many seconds.

    Attributes:
        api: takes the generated operations that have no method here.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience: float = 60.0,
        timeout: float = 90.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        transport = PatientTransport(httpx.HTTPTransport(proxy=proxy_of(url)), patience, sleep)
        self.api = AuthenticatedClient(
            base_url=url.rstrip("/"),
            token=key,
            timeout=httpx.Timeout(timeout),
            httpx_args={"transport": transport},
        )
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.get_httpx_client().close()

    def check(
        self,
        email: str,
        *,
        mode: Mode = "deep",
        deadline_ms: int = 10_000,
        repair: bool = False,
        max_age: float | None = None,
    ) -> FullVerdict:
        """Return the verdict on one address.

        Args:
            email: the address.
            mode: how far to look.
            deadline_ms: how long to look.
            repair: judge an address with an obvious slip as it was meant.
            max_age: seconds; what is known from longer ago is asked again, with 0 all of it. None: an
                answer is used again for a day, and an outcome for as long as the account's policy says.
        """
        wanted = SingleRequest(
            email=email,
            mode=mode,
            deadline_ms=deadline_ms,
            repair=repair,
            max_age=UNSET if max_age is None else max_age,
        )
        found = unwrap(
            validate_email.sync_detailed(client=self.api, body=wanted), EnvelopeUnionFullVerdictMinimalVerdict
        ).data
        if not isinstance(found, FullVerdict):  # without `Prefer` it is one
            raise MailsiftError("The verdict lacks fields.", status=200)
        return found

    def check_many(
        self,
        emails: Sequence[str],
        *,
        mode: Mode = "deep",
        deadline_ms: int = 10_000,
        repair: bool = False,
        max_age: float | None = None,
    ) -> list[BatchVerdict]:
        """Return the verdicts on up to 100 addresses, in their order; see `check` for how to look.

        Raises:
            TypeError: it is one address, or a frame.
        """
        wanted = BatchRequest(
            emails=addresses_of(emails),
            mode=mode,
            deadline_ms=deadline_ms,
            repair=repair,
            max_age=UNSET if max_age is None else max_age,
        )
        found = unwrap(validate_batch.sync_detailed(client=self.api, body=wanted), EnvelopeBatchResponse)
        return [one for one in found.data.results if isinstance(one, BatchVerdict)]

    def submit(
        self, source: BinaryIO | Iterable[str], *, idempotency_key: str = "", **options: Unpack[ListOptions]
    ) -> JobResponse:
        """Start a job.

        Args:
            source: an open file (CSV, XLSX, JSON lines, Parquet ...), or addresses.
            idempotency_key: with the same one, the same list is taken once in 24 hours.
            options: how to validate it.

        Raises:
            TypeError: the source is the name of a file, a file opened as text, or a frame.
        """
        file, once = file_of(source), idempotency_key or UNSET
        body = JsonList(emails=addresses_of(source)) if file is None else File(payload=file)
        kwargs = create_job._get_kwargs(body=body, idempotency_key=once, **options)  # noqa: SLF001 - see _stream
        if file is not None:
            Upload(file).put_into(kwargs)
        made = self.api.get_httpx_client().request(**kwargs)
        return unwrap(create_job._build_response(client=self.api, response=made), EnvelopeJobResponse).data  # noqa: SLF001 - see _stream

    def job(self, job_id: UUID, *, wait: float = 0.0) -> JobResponse:
        """Look at a job; with `wait`, when it ends or after so many seconds (60 at most)."""
        found = get_job.sync_detailed(job_id, client=self.api, wait=wait)
        return unwrap(found, EnvelopeJobResponse).data

    def wait(self, job_id: UUID, *, timeout: float = float("inf")) -> JobResponse:
        """Return a job once it has ended.

        Raises:
            TimeoutError: it has not, after so many seconds.
        """
        until = time.monotonic() + timeout
        while True:
            job = self.job(job_id, wait=max(0.0, min(WAIT, until - time.monotonic())))
            if job.status in ENDED:
                return job
            if time.monotonic() >= until:
                raise TimeoutError(f"The job is {job.status} after {timeout:g} s.")

    def follow(self, job_id: UUID) -> Iterator[JobResponse]:
        """Yield a job whenever it has changed, until it has ended; a stream that breaks off is made anew."""
        while True:
            for job in self._stream(job_id):
                yield job
                if job.status in ENDED:
                    return
            self._sleep(PAUSE)

    def _stream(self, job_id: UUID) -> Iterator[JobResponse]:
        kwargs = follow_job._get_kwargs(job_id)  # noqa: SLF001 - what the generator gives to build on
        with self.api.get_httpx_client().stream(**kwargs) as response:
            _check(response)
            with suppress(MailsiftError):  # it breaks off
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        yield JobResponse.from_dict(json.loads(line.removeprefix("data: ")))

    def results(
        self, job_id: UUID, *, sort: SortBy = "row", page: int = 1_000, **rows: Unpack[RowFilter]
    ) -> Iterator[ResultRowResponse]:
        """Yield the rows of a job with their verdicts, page by page."""
        cursor = ""
        while True:
            answer = get_results.sync_detailed(
                job_id, client=self.api, format_="json", sort=sort, limit=page, cursor=cursor, **rows
            )
            found = unwrap(answer, EnvelopeResultsResponse).data
            yield from found.rows
            cursor = found.next_cursor
            if not cursor:
                return

    def download(
        self, job_id: UUID, file: IO[bytes], *, kind: ResultFormat = "csv", **rows: Unpack[RowFilter]
    ) -> None:
        """Write the results of a job to a file: `csv`, `xlsx`, `jsonl` or `parquet`."""
        kwargs = get_results._get_kwargs(job_id, format_=kind, **rows)  # noqa: SLF001 - see _stream
        kwargs["params"] = of_files(kwargs["params"])
        with self.api.get_httpx_client().stream(**kwargs) as response:
            _check(response)
            for piece in response.iter_bytes():
                file.write(piece)

    def delete(self, job_id: UUID) -> None:
        """Delete an ended job with everything that belongs to it."""
        unwrap(delete_job.sync_detailed(job_id, client=self.api), EnvelopeNoneType)

    def events(
        self, *, kinds: Sequence[EventType] = (), job_id: UUID | None = None
    ) -> Iterator[EventResponse]:
        """Yield what happened, the oldest first, whether a webhook told of it or not."""
        cursor = ""
        while True:
            answer = list_events.sync_detailed(
                client=self.api, type_=list(kinds), job_id=job_id or UNSET, cursor=cursor
            )
            found = unwrap(answer, EnvelopeEventsResponse).data
            yield from found.events
            cursor = found.next_cursor
            if not cursor:
                return


def of_files(params: dict[str, Any]) -> dict[str, Any]:
    """Leave out what goes with pages only: the generator writes the defaults, too."""
    return {name: value for name, value in params.items() if name not in {"sort", "limit", "cursor"}}


def _check(response: httpx.Response) -> None:
    if not response.is_success:
        response.read()
    check_answer(response)


def check_answer(response: httpx.Response) -> None:
    """Raise a MailsiftError for an answer that is none; what it says has been read."""
    if not response.is_success:
        raise problem_of(problem_in(response.content), response.status_code)
