"""Lists are fetched from places and results put there, with the credentials an account may use."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import polars as pl

from mailsift.events.signing import Vault
from mailsift.jobs.columns import JUDGED_ADDRESS, VERDICT_PREFIX, distinct_names, read_names
from mailsift.jobs.places.place import LONGEST_NAME, Connections, Place, parse_sink, parse_source
from mailsift.jobs.results.export import check_fits, export, format_of, plain_values
from mailsift.jobs.results.files import tiered
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.tiers import TierPolicy
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Database
from mailsift.storage.foreign import (
    TAKEN_NAMES,
    matching_objects,
    read_object,
    read_query,
    write_object,
    write_table,
)
from mailsift.storage.sql import accounts

if TYPE_CHECKING:
    from mailsift.events.sender import WebhookSender

_ROWS_AT_ONCE: Final = 50_000
_SQL_TYPES: Final = {"Boolean": "boolean", "UInt8": "smallint", "UInt16": "integer"}


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Where a job's list comes from and its results go; None: neither a place."""

    source: Place | None = None
    sink: Place | None = None

    def __bool__(self) -> bool:
        return self.source is not None or self.sink is not None

    def digest(self) -> str:
        """Return what tells one pair of places from another."""
        return hashlib.sha256(repr((self.source, self.sink)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Reads from and writes to places.

    Attributes:
        connections: which stores and databases accounts may use.
        web: reads from web servers, past the address guard.
        vault: seals the places of a job, whose queries and signed URLs may be secrets.
        database: where the accounts are; made when it is asked for.
        environment: also use what nobody has a connection to, with what the environment has of credentials.
    """

    connections: Connections
    web: Callable[[], WebhookSender]
    vault: Callable[[], Vault]
    database: Callable[[], Database]
    environment: bool = False

    def with_environment(self) -> Places:
        """Return places for somebody at this machine, whose own credentials the environment has."""
        return replace(self, environment=True)

    async def checked(self, account_id: AccountId, source: str, sink: str) -> JobPlaces:
        """Read the URLs a customer gave, "" for none, and see whether the account may use them.

        Raises:
            MailsiftError: `bad_place`, `place_not_allowed`, `unknown_export_format`.
        """
        places = JobPlaces(parse_source(source) if source else None, parse_sink(sink) if sink else None)
        for place in filter(None, (places.source, places.sink)):
            await self._credentials(account_id, place)
        if places.sink is not None and places.sink.is_store:
            format_of(Path(places.sink.label))
        return places

    def seal(self, account_id: AccountId, places: JobPlaces) -> str:
        """Return the places as a job's options carry them: only for this account, by keys of this service."""
        return self.vault().seal(account_id, json.dumps(asdict(places)).encode()).hex()

    def unseal(self, account_id: AccountId, sealed: str) -> JobPlaces:
        """Return what `seal` was given; nothing for "".

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        if not sealed:
            return JobPlaces()
        fields = json.loads(self.vault().open(account_id, bytes.fromhex(sealed)))
        return JobPlaces(*(Place(**fields[name]) if fields[name] else None for name in ("source", "sink")))

    async def stored_list(
        self, blobs: Blobs, account_id: AccountId, job_id: UUID, sealed: str, *, sha256: str
    ) -> Path:
        """Return the stored list of a job, whole; one that came from a place may be whatever lay there.

        Raises:
            MailsiftError: `blob_not_found`, `source_damaged`, or what the blob store says.
        """
        digest = "" if self.unseal(account_id, sealed).source else sha256
        return await blobs.fetch_as(JobBlobs(job_id).source, digest)

    async def read(self, account_id: AccountId, place: Place) -> AsyncIterator[bytes]:
        """Yield the list, piece by piece.

        Raises:
            MailsiftError: `place_not_allowed`, `place_not_found`, `place_refused`; `place_timeout`,
                `place_unavailable` (both retryable).
        """
        async for piece in self._pieces(place, await self._credentials(account_id, place)):
            yield piece

    def _pieces(self, place: Place, credentials: Mapping[str, str]) -> AsyncIterator[bytes]:
        if place.is_database:
            return read_query(place.base, credentials, place.query)
        if place.is_store:
            return read_object(place.base, credentials)
        return self.web().read(place.base)

    async def write(
        self,
        account_id: AccountId,
        place: Place,
        results: Path,
        *,
        job: JobId,
        scratch: Path,
        policy: TierPolicy,
    ) -> None:
        """Put a job's results (mailsift.jobs.results.files) there, all of them or nothing.

        A file gets the tiers that a policy comes to; a table keeps the columns it was made with.

        Raises:
            MailsiftError: as `read`; `unknown_export_format`.
        """
        credentials = await self._credentials(account_id, place)
        if place.is_database:
            names = list(read_names(results).values())
            columns, rows = _columns(results, names), _rows(results)
            await write_table(place.base, credentials, place.table, columns, rows, job=job)
            return
        with tempfile.TemporaryDirectory(dir=scratch, prefix="sink-") as folder:
            out = Path(folder) / "results"
            await asyncio.to_thread(export, results, out, format=format_of(Path(place.label)), policy=policy)
            await write_object(place.base, credentials, out)

    @staticmethod
    def check_fits(sink: Place | None, rows: int) -> None:
        """Refuse more rows than the results' place can hold, before they are validated.

        Raises:
            MailsiftError: `too_many_rows_for_xlsx`.
        """
        if sink is not None and sink.is_store:
            check_fits(format_of(Path(sink.label)), rows)

    async def matching(self, pattern: Place, account: str) -> list[str]:
        """Return the objects of a store that match a URL with `*` in it, for the account of this name.

        Raises:
            MailsiftError: as `read`.
        """
        found = self.connections.find(pattern, account)
        return await matching_objects(pattern.base, {} if found is None else found.credentials)

    async def _credentials(self, account_id: AccountId, place: Place) -> Mapping[str, str]:
        if not place.is_database and not place.is_store:
            self.web().check(place.base)
            return {}
        account = await self.database().run(accounts.get, account_id)
        found = self.connections.find(place, account["name"] if account else "")
        if found is not None:
            return found.credentials
        if not self.environment:
            text = f"This account has no connection to {place.label} (MAILSIFT_CONNECTIONS)."
            raise MailsiftError("place_not_allowed", text)
        return {}


def _columns(results: Path, names: list[str]) -> list[tuple[str, str]]:
    """Return name and SQL type of every column of a results file; the customer's own are texts."""
    ours = [name for name in tiered(results, None).collect_schema() if name.startswith(VERDICT_PREFIX)]
    kinds = {VERDICT_PREFIX + name: _SQL_TYPES.get(kind.__name__, "text") for name, kind in VERDICTS.items()}
    theirs = distinct_names(names, [*TAKEN_NAMES, JUDGED_ADDRESS, *ours], longest=LONGEST_NAME)
    return [(name, "text") for name in theirs] + [(name, kinds.get(name, "text")) for name in ours]


def _rows(results: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a results file, without the NULs in them, which PostgreSQL cannot hold.

    Slice by slice: `collect_batches` takes a file for ended when it is interrupted, and a slice raises.
    """
    rows = tiered(results, None)
    schema = rows.collect_schema()
    ours = [name for name in schema if name.startswith(VERDICT_PREFIX)]
    theirs = [_text(name, dtype) for name, dtype in schema.items() if name not in ours]
    height = rows.select(pl.len()).collect().item()
    for start in range(0, height, _ROWS_AT_ONCE):
        yield from rows.select(*theirs, *ours).slice(start, _ROWS_AT_ONCE).collect().iter_rows()


def _text(name: str, dtype: pl.DataType) -> pl.Expr:
    texts = plain_values(name, dtype, sheet=True).cast(pl.String, strict=False)
    return texts.str.replace_all("\0", "", literal=True)
