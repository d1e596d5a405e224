"""A session with a Mailsift installation for programs with an event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, BinaryIO, Self

import httpx

from mailsift_client.client import ENDED, PAUSE, WAIT, check_answer, of_files
from mailsift_client.errors import MailsiftError, unwrap
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
    FullVerdict,
    JobResponse,
    JsonList,
    SingleRequest,
)
from mailsift_client.generated.types import UNSET, File
from mailsift_client.transport import PatientAsyncTransport, proxy_of
from mailsift_client.uploads import AsyncUpload, addresses_of, file_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from uuid import UUID

    from typing_extensions import Unpack

    from mailsift_client.client import ListOptions, RowFilter
    from mailsift_client.generated.models import (
        EventResponse,
        EventType,
        Mode,
        ResultFormat,
        ResultRowResponse,
        SortBy,
    )


class AsyncMailsift:
    """A session; closed with the block. Its methods are those of `Mailsift`, to be awaited or iterated.

    Args:
        url: of the installation.
        key: `svc_key_...`, or `svc_test_...` for test mode.
        patience: seconds to wait in all for an answer that comes with a Retry-After.
        timeout: seconds to wait for any other.
        sleep: waits so many seconds.

    Attributes:
        api: takes the generated operations that have no method here (`asyncio_detailed`).
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience: float = 60.0,
        timeout: float = 90.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        transport = PatientAsyncTransport(httpx.AsyncHTTPTransport(proxy=proxy_of(url)), patience, sleep)
        self.api = AuthenticatedClient(
            base_url=url.rstrip("/"),
            token=key,
            timeout=httpx.Timeout(timeout),
            httpx_args={"transport": transport},
        )
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.get_async_httpx_client().aclose()

    async def check(
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
        answer = await validate_email.asyncio_detailed(client=self.api, body=wanted)
        found = unwrap(answer, EnvelopeUnionFullVerdictMinimalVerdict).data
        if not isinstance(found, FullVerdict):  # without `Prefer` it is one
            raise MailsiftError("The verdict lacks fields.", status=200)
        return found

    async def check_many(
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
        answer = await validate_batch.asyncio_detailed(client=self.api, body=wanted)
        found = unwrap(answer, EnvelopeBatchResponse)
        return [one for one in found.data.results if isinstance(one, BatchVerdict)]

    async def submit(
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
            AsyncUpload(file).put_into(kwargs)
        made = await self.api.get_async_httpx_client().request(**kwargs)
        return unwrap(create_job._build_response(client=self.api, response=made), EnvelopeJobResponse).data  # noqa: SLF001 - see _stream

    async def job(self, job_id: UUID, *, wait: float = 0.0) -> JobResponse:
        """Look at a job; with `wait`, when it ends or after so many seconds (60 at most)."""
        found = await get_job.asyncio_detailed(job_id, client=self.api, wait=wait)
        return unwrap(found, EnvelopeJobResponse).data

    async def wait(self, job_id: UUID, *, timeout: float = float("inf")) -> JobResponse:  # noqa: ASYNC109 - it does not cancel
        """Return a job once it has ended.

        Raises:
            TimeoutError: it has not, after so many seconds.
        """
        until = time.monotonic() + timeout
        while True:
            job = await self.job(job_id, wait=max(0.0, min(WAIT, until - time.monotonic())))
            if job.status in ENDED:
                return job
            if time.monotonic() >= until:
                raise TimeoutError(f"The job is {job.status} after {timeout:g} s.")

    async def follow(self, job_id: UUID) -> AsyncIterator[JobResponse]:
        """Yield a job whenever it has changed, until it has ended; a stream that breaks off is made anew."""
        while True:
            async for job in self._stream(job_id):
                yield job
                if job.status in ENDED:
                    return
            await self._sleep(PAUSE)

    async def _stream(self, job_id: UUID) -> AsyncIterator[JobResponse]:
        kwargs = follow_job._get_kwargs(job_id)  # noqa: SLF001 - what the generator gives to build on
        async with self.api.get_async_httpx_client().stream(**kwargs) as response:
            await _check(response)
            with suppress(MailsiftError):  # it breaks off
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        yield JobResponse.from_dict(json.loads(line.removeprefix("data: ")))

    async def results(
        self, job_id: UUID, *, sort: SortBy = "row", page: int = 1_000, **rows: Unpack[RowFilter]
    ) -> AsyncIterator[ResultRowResponse]:
        """Yield the rows of a job with their verdicts, page by page."""
        cursor = ""
        while True:
            answer = await get_results.asyncio_detailed(
                job_id, client=self.api, format_="json", sort=sort, limit=page, cursor=cursor, **rows
            )
            found = unwrap(answer, EnvelopeResultsResponse).data
            for row in found.rows:
                yield row
            cursor = found.next_cursor
            if not cursor:
                return

    async def download(
        self, job_id: UUID, file: IO[bytes], *, kind: ResultFormat = "csv", **rows: Unpack[RowFilter]
    ) -> None:
        """Write the results of a job to a file: `csv`, `xlsx`, `jsonl` or `parquet`."""
        kwargs = get_results._get_kwargs(job_id, format_=kind, **rows)  # noqa: SLF001 - see _stream
        kwargs["params"] = of_files(kwargs["params"])
        async with self.api.get_async_httpx_client().stream(**kwargs) as response:
            await _check(response)
            async for piece in response.aiter_bytes():
                await asyncio.to_thread(file.write, piece)

    async def delete(self, job_id: UUID) -> None:
        """Delete an ended job with everything that belongs to it."""
        unwrap(await delete_job.asyncio_detailed(job_id, client=self.api), EnvelopeNoneType)

    async def events(
        self, *, kinds: Sequence[EventType] = (), job_id: UUID | None = None
    ) -> AsyncIterator[EventResponse]:
        """Yield what happened, the oldest first, whether a webhook told of it or not."""
        cursor = ""
        while True:
            answer = await list_events.asyncio_detailed(
                client=self.api, type_=list(kinds), job_id=job_id or UNSET, cursor=cursor
            )
            found = unwrap(answer, EnvelopeEventsResponse).data
            for event in found.events:
                yield event
            cursor = found.next_cursor
            if not cursor:
                return


async def _check(response: httpx.Response) -> None:
    if not response.is_success:
        await response.aread()
    check_answer(response)
