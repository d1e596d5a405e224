"""What accounts tell of messages they really sent: stored without addresses in the clear, and looked up."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

import structlog

from mailsift.events.signing import KEY_BYTES, Vault
from mailsift.jobs.policies import policy_of
from mailsift.jobs.results.export import csv_lines, defused
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.outcomes.outcome import (
    NO_OUTCOMES,
    NOT_LOOKED_UP,
    Diagnosis,
    Outcome,
    OutcomeFacts,
    OutcomeKind,
    ParsedOutcome,
    mailbox_fact,
)
from mailsift.pipeline.syntax.address import canonical_of
from mailsift.pipeline.tiers import unwanted_by
from mailsift.storage.database import Connection, Database, DatabaseError
from mailsift.storage.shared_calls import SharedCalls
from mailsift.storage.sql import accuracy, outcomes
from mailsift.storage.sql.outcomes import OutcomeRow

_DIGEST_BYTES: Final = 16

T = TypeVar("T")


class AddressCipher:
    """Hides the addresses of one account: seals them, and makes the digests they are looked up by."""

    def __init__(self, account_id: UUID, key: bytes, token: Callable[[int], bytes]) -> None:
        self._account_id = account_id
        self._key = key
        self._vault = Vault({"": key}, token=token)

    def digest(self, address: str) -> bytes:
        """Return what an address is looked up by."""
        return hmac.digest(self._key, address.encode(), hashlib.sha256)[:_DIGEST_BYTES]

    def seal(self, address: str) -> bytes:
        """Return an address that only this account's key opens."""
        return self._vault.seal(self._account_id, address.encode())

    def open(self, sealed: bytes) -> str:
        """Return a sealed address.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        return self._vault.open(self._account_id, sealed).decode()


CipherOf: TypeAlias = Callable[[Connection, UUID], Awaitable[AddressCipher]]
"""What gives the cipher of an account."""


async def cipher_of(
    connection: Connection, account_id: UUID, vault: Vault, token: Callable[[int], bytes]
) -> AddressCipher:
    """Return what hides an account's addresses; its key is made at the first time.

    Raises:
        MailsiftError: `secret_key_missing`, `account_not_found`.
    """
    sealed = await outcomes.account_secret(connection, account_id)
    if sealed is None:
        await outcomes.keep_account_secret(connection, account_id, vault.seal(account_id, token(KEY_BYTES)))
        sealed = await outcomes.account_secret(connection, account_id)
    if sealed is None:
        raise MailsiftError("account_not_found", "The account has been deleted.")
    return AddressCipher(account_id, vault.open(account_id, sealed), token)


_AT_ONCE: Final = 1_000
"""So few that to hide, store or open them keeps others of this process waiting for a moment only."""
_log = structlog.get_logger()
_FactsLookup: TypeAlias = tuple[str, float | None, Sequence[str]]
"""An account’s id, how old an outcome may be for it (as for `OutcomeService.facts_of`), and addresses."""
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What became of reports.

    Attributes:
        taken: outcomes that were new.
        repeated: ones that were known already.
        malformed: ones without an address that parses.
    """

    taken: int = 0
    repeated: int = 0
    malformed: int = 0

    def __add__(self, other: ImportCounts) -> ImportCounts:
        """Return both together."""
        return ImportCounts(
            self.taken + other.taken, self.repeated + other.repeated, self.malformed + other.malformed
        )


@dataclass(kw_only=True, repr=False)
class OutcomeService:
    """The outcomes of one installation's accounts.

    An address is stored twice: as a digest with the account's key, to look it up, and sealed with the same
    key, for the account's own exports. Without the installation's secret key neither can be undone.
    """

    database: Database
    cipher: CipherOf
    clock: Clock

    def __post_init__(self) -> None:
        """Let those who ask at the same time ask together."""
        self._lookups = SharedCalls(self._look_up, most=_AT_ONCE)

    async def record(self, account_id: UUID, found: Sequence[ParsedOutcome]) -> ImportCounts:
        """Store what reports say of an account's messages; the same one a second time changes nothing.

        One without a time, or with one that cannot be, counts from now.
        """
        total = ImportCounts()
        for start in range(0, len(found), _AT_ONCE):
            total += await self._record(account_id, found[start : start + _AT_ONCE])
        return total

    async def import_file(self, account_id: UUID, path: Path) -> ImportCounts:
        """Read a file (mailsift.jobs.outcomes.files) and store what happened.

        Raises:
            MailsiftError: see `unpacked` and `read_outcomes`.
        """
        # 130 patterns, a twentieth of the start of an API or a worker, for what few of them ever do
        from mailsift.jobs.outcomes.files import read_outcomes, unpacked  # noqa: PLC0415

        total = ImportCounts()
        async with unpacked(path) as file:
            async for batch in in_batches(read_outcomes, file):
                total += await self.record(account_id, batch)
        return total

    async def facts_of(
        self, account_id: UUID, addresses: Iterable[str], max_age: float | None = None
    ) -> OutcomeFacts:
        """Return what the account's own messages showed of addresses, by the account's policy.

        Args:
            account_id: whose.
            addresses: canonical ones.
            max_age: seconds; outcomes that are older show nothing to somebody who has said so. Whom the
                account may not send to is told all the same: a wish has no age.
        """
        if not await self.database.run(outcomes.accounts_with_any, [account_id]):
            return NO_OUTCOMES
        return await self._facts_of(account_id, addresses, max_age)

    async def _facts_of(
        self, account_id: UUID, addresses: Iterable[str], max_age: float | None
    ) -> OutcomeFacts:
        """Do what `facts_of` does for an account that has outcomes, or addresses it may not send to."""
        async with self.database.begin() as connection:
            policy = (await policy_of(connection, account_id)).outcomes
            cipher = await self.cipher(connection, account_id)
            by_digest = {cipher.digest(address): address for address in addresses}
            rows = await outcomes.of_addresses(connection, account_id, list(by_digest))
            suppressed = await outcomes.suppression_reasons(connection, account_id, list(by_digest))
        histories: defaultdict[str, list[Outcome]] = defaultdict(list)
        for row in rows:
            histories[by_digest[bytes(row.address)]].append(read_row(row, by_digest[bytes(row.address)]))
        now = self.clock()
        facts = {
            address: mailbox_fact(found, policy, now, within=max_age) for address, found in histories.items()
        }
        return OutcomeFacts(
            sent={address: fact for address, fact in facts.items() if fact is not None},
            unwanted={by_digest[digest]: unwanted_by(reason) for digest, reason in suppressed},
        )

    async def facts_if_available(
        self, owner: str, addresses: Sequence[str], max_age: float | None
    ) -> OutcomeFacts:
        """Do what `facts_of` does for somebody who waits: while the database is away nothing is looked up."""
        known = await self._lookups.ask((owner, max_age, addresses))
        return known.only(addresses)

    async def _look_up(self, asked: Sequence[_FactsLookup]) -> Sequence[OutcomeFacts]:
        """Return for each of these questions what is known of what its account asks about."""
        wanted: defaultdict[tuple[str, float | None], set[str]] = defaultdict(set)
        for owner, max_age, addresses in asked:
            wanted[owner, max_age].update(addresses)
        known = dict.fromkeys(wanted, NOT_LOOKED_UP)
        with _unknown_in_outages():
            accounts = {owner: UUID(owner) for owner, _ in wanted}
            found = await self.database.run(outcomes.accounts_with_any, accounts.values())
            for (owner, max_age), theirs in wanted.items():
                with _unknown_in_outages():
                    known[owner, max_age] = (
                        await self._facts_of(accounts[owner], theirs, max_age)
                        if accounts[owner] in found
                        else NO_OUTCOMES
                    )
        return [known[owner, max_age] for owner, max_age, _ in asked]

    async def export(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        """Yield all outcomes of the account as CSV, with their addresses.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        head, after = ",".join(_EXPORTED).encode() + b"\n", None
        while True:
            async with self.database.begin() as connection:
                cipher = await self.cipher(connection, account_id)
                rows = await outcomes.page_of_outcomes(connection, account_id, limit=_AT_ONCE, after=after)
            yield head + csv_lines(_cells(row, cipher) for row in rows)
            if not rows:
                return
            head, after = b"", bytes(rows[-1].report)

    async def digester(self, account_id: UUID) -> Callable[[str], bytes]:
        """Return what makes the digest that a canonical address of this account is looked up by."""
        return (await self.database.run(self.cipher, account_id)).digest

    async def _record(self, account_id: UUID, found: Sequence[ParsedOutcome]) -> ImportCounts:
        read = [one for one in found if one is not None]
        canonical = {address: canonical_of(address) for address in {one.address for one in read}}
        good = [one for one in read if canonical[one.address]]
        if not good:
            return ImportCounts(malformed=len(found))

        async def transaction(connection: Connection) -> int:
            cipher = await self.cipher(connection, account_id)
            rows = {row.report: row for row in self._rows(good, canonical, cipher)}
            added = await outcomes.add_outcomes(connection, account_id, list(rows.values()))
            if added:
                await accuracy.note_news(connection, account_id)
            return added

        added = await self.database.run(transaction)
        return ImportCounts(added, len(good) - added, len(found) - len(good))

    def _rows(
        self, found: Iterable[Outcome], canonical: Mapping[str, str], cipher: AddressCipher
    ) -> Iterable[OutcomeRow]:
        now = self.clock()
        for one in found:
            address = canonical[one.address]
            is_dated = can_be(one.happened_at, now)
            diagnosis, digest = one.diagnosis, cipher.digest(address)
            yield OutcomeRow(
                report=_report_digest(one, digest),
                address=digest,
                sealed=cipher.seal(address),
                kind=one.kind.value,
                answer=diagnosis.answer.value,
                rule=diagnosis.rule,
                smtp_code=diagnosis.smtp_code,
                enhanced=diagnosis.enhanced,
                said=diagnosis.text,
                origin=one.origin,
                happened_at=utc_datetime(one.happened_at if is_dated else now),
                undated=not is_dated,
            )


@contextmanager
def _unknown_in_outages() -> Iterator[None]:
    """End the block where the database does not answer, or an account's key cannot be opened."""
    try:
        yield
    except (MailsiftError, DatabaseError) as error:
        _log.warning("outcomes.unknown", **error_fields(error))


_EXPORTED: Final = ("email", "event", "timestamp", "reason", "shows", "origin")


def _cells(row: OutcomeRow, cipher: AddressCipher) -> Sequence[str]:
    return (
        defused(cipher.open(bytes(row.sealed))),
        row.kind,
        row.happened_at.isoformat(),
        defused(row.said),  # a stranger's server has chosen the words
        row.answer,
        row.origin,
    )


async def in_batches(read: Callable[[Path], Iterator[T]], path: Path) -> AsyncIterator[list[T]]:
    """Yield what is read of a file, some at a time; threads of their own read it."""
    reading = await asyncio.to_thread(read, path)
    while batch := await asyncio.to_thread(lambda: list(islice(reading, _AT_ONCE))):
        yield batch


def can_be(at: float, now: float) -> bool:
    """Say whether a moment somebody names can be when something happened."""
    return _EARLIEST < at <= now


def _report_digest(outcome: Outcome, address: bytes) -> bytes:
    """Return what two reports of the same thing have in common, whoever brings them and however often."""
    occasion = outcome.message_id or f"{outcome.happened_at:.0f}"
    named = f"{outcome.kind.value}\0{occasion}\0{outcome.diagnosis.rule}"
    return hashlib.sha256(address + named.encode()).digest()[:_DIGEST_BYTES]


def read_row(row: OutcomeRow, address: str) -> Outcome:
    """Return a stored outcome; `address` is what its address is to be called."""
    diagnosis = Diagnosis(Answer(row.answer), row.rule, row.smtp_code, row.enhanced, row.said)
    at = row.happened_at.timestamp()
    return Outcome(address, OutcomeKind(row.kind), at, diagnosis, row.origin, undated=row.undated)
