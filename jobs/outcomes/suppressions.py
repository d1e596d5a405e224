"""To whom an account may not send: listed, looked up, added, removed, read from files and written to them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import UUID

from mailsift.events import audit
from mailsift.jobs.outcomes.service import AddressCipher, CipherOf, ImportCounts, can_be, in_batches
from mailsift.jobs.results.export import csv_lines, defused
from mailsift.jobs.views import bad_cursor
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.syntax.address import canonical_of
from mailsift.pipeline.wording import counted
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import outcomes
from mailsift.storage.sql.outcomes import SuppressionRow

_AT_ONCE: Final = 1_000


class SuppressionReason(StrEnum):
    """Why an account may not send to an address."""

    COMPLAINED = "complained"
    UNSUBSCRIBED = "unsubscribed"
    BOUNCED = "bounced"
    MANUAL = "manual"  # somebody said so, for no reason we know


class SuppressionFormat(StrEnum):
    """Whose format a list is written in."""

    CSV = "csv"  # ours
    SES = "ses"  # JSON lines for a bulk import to Amazon's account-level list
    SENDGRID = "sendgrid"  # CSV, as SendGrid takes and gives it


@dataclass(frozen=True, slots=True)
class Suppression:
    """One address an account may not send to, why, who said so and since when (epoch seconds; 0: unknown)."""

    email: str
    reason: SuppressionReason
    origin: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class SuppressionPage:
    """Some of them, in an order that does not shift; `next` names the last one while there are more."""

    suppressions: tuple[Suppression, ...]
    next: str


class SuppressionService:
    """The suppression lists of one installation's accounts."""

    def __init__(self, *, database: Database, cipher: CipherOf, clock: Clock) -> None:
        self._database = database
        self._cipher = cipher
        self._clock = clock

    async def page(
        self, account_id: UUID, *, limit: int, cursor: str = "", email: str = "", reason: str = ""
    ) -> SuppressionPage:
        """Return some of the account's list; `cursor` is `next` of the page before.

        Only this `email`, in any spelling, and only with this `reason`, where they are not "".

        Raises:
            MailsiftError: `bad_cursor`, `secret_key_missing`.
        """
        after = _read_cursor(cursor)
        address = canonical_of(email) if email else ""
        if email and not address:
            return SuppressionPage((), "")
        async with self._database.begin() as connection:
            cipher = await self._cipher(connection, account_id)
            only = cipher.digest(address) if address else None
            rows = await outcomes.page_of_suppressions(
                connection, account_id, limit=limit + 1, after=after, only=only, reason=reason
            )
        page = tuple(_opened(row, cipher) for row in rows[:limit])
        return SuppressionPage(page, rows[limit - 1].address.hex() if len(rows) > limit else "")

    async def count(self, account_id: UUID) -> Mapping[str, int]:
        """Return how many there are by reason."""
        return await self._database.run(outcomes.count_suppressions, account_id)

    async def add(self, account_id: UUID, found: Sequence[Suppression]) -> ImportCounts:
        """Put addresses on the list; those that are there stay as they are; what is none is malformed."""
        taken = await self._add(account_id, found)
        await self._record_added(account_id, taken.taken)
        return taken

    async def _add(self, account_id: UUID, found: Sequence[Suppression]) -> ImportCounts:
        named = [(canonical_of(one.email), one) for one in found]
        malformed = sum(not address for address, _ in named)
        # of two reasons the wish counts, whichever is named first; of one that stands twice the first
        good = dict[str, Suppression]()
        for address, one in sorted(named, key=lambda one: _STRONGEST_FIRST.index(one[1].reason)):
            good.setdefault(address, one)
        good.pop("", None)
        if not good:
            return ImportCounts(malformed=malformed)

        async def transaction(connection: Connection) -> int:
            cipher = await self._cipher(connection, account_id)
            rows = [self._row(address, one, cipher) for address, one in good.items()]
            return await outcomes.add_suppressions(connection, account_id, rows)

        added = await self._database.run(transaction)
        return ImportCounts(added, len(found) - malformed - added, malformed)

    async def remove(self, account_id: UUID, emails: Iterable[str]) -> int:
        """Take addresses off the list; returns how many stood on it."""
        addresses = {canonical_of(email) for email in emails} - {""}

        async def transaction(connection: Connection) -> int:
            cipher = await self._cipher(connection, account_id)
            removed = await outcomes.remove_suppressions(
                connection, account_id, [*map(cipher.digest, addresses)]
            )
            await _record(connection, account_id, "suppression.remove", removed)
            return removed

        return await self._database.run(transaction)

    async def import_file(self, account_id: UUID, path: Path) -> ImportCounts:
        """Put the addresses of a file on the list (mailsift.jobs.outcomes.files.read_suppressed).

        What is on the list stays: the file is read once for each reason in it, the strongest first.

        Raises:
            MailsiftError: see `unpacked` and `read_suppressed`.
        """
        from mailsift.jobs.outcomes.files import read_suppressed, unpacked  # noqa: PLC0415 - slow to load

        total, named = ImportCounts(), set(_STRONGEST_FIRST)
        async with unpacked(path) as file:
            for reason in _STRONGEST_FIRST:
                if reason not in named:
                    continue
                named = set()
                async for batch in in_batches(read_suppressed, file):
                    found = [
                        Suppression(email, _REASON_OF.get(kind, SuppressionReason.MANUAL), "file", since)
                        for email, kind, since in batch
                    ]
                    named.update(one.reason for one in found)
                    total += await self._add(account_id, [one for one in found if one.reason is reason])
        await self._record_added(account_id, total.taken)
        return total

    async def _record_added(self, account_id: UUID, count: int) -> None:
        await self._database.run(_record, account_id, "suppression.add", count)

    async def export(self, account_id: UUID, format: SuppressionFormat) -> AsyncGenerator[bytes, None]:  # noqa: A002 - the word for it
        """Yield the whole list as a file.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        head, write = _WRITERS[format]
        cursor, more = "", True
        while more:
            page = await self.page(account_id, limit=_AT_ONCE, cursor=cursor)
            yield head + (write(page.suppressions) if page.suppressions else b"")
            head, cursor, more = b"", page.next, bool(page.next)

    def _row(self, address: str, one: Suppression, cipher: AddressCipher) -> SuppressionRow:
        now = self._clock()
        since = one.since if can_be(one.since, now) else now
        return SuppressionRow(
            cipher.digest(address),
            cipher.seal(address),
            one.reason.value,
            one.origin,
            utc_datetime(since),
        )


async def _record(connection: Connection, account_id: UUID, action: str, count: int) -> None:
    """Write down how many addresses were put on the list or taken off it, and of none which."""
    if count:
        subject = counted(count, "address")
        await audit.record_change(connection, account_id, action, subject)


_REASON_OF: Final = {reason.value: reason for reason in SuppressionReason}
_STRONGEST_FIRST: Final = list(SuppressionReason)


def _opened(row: SuppressionRow, cipher: AddressCipher) -> Suppression:
    reason = _REASON_OF.get(row.reason, SuppressionReason.MANUAL)
    return Suppression(cipher.open(row.sealed), reason, row.origin, row.since.timestamp())


def _read_cursor(cursor: str) -> bytes | None:
    try:
        return bytes.fromhex(cursor) if cursor else None
    except ValueError:
        raise bad_cursor() from None


def _time(since: float) -> str:
    return utc_datetime(since).isoformat(timespec="seconds")


def _our_csv(found: Iterable[Suppression]) -> bytes:
    return csv_lines((defused(one.email), one.reason.value, one.origin, _time(one.since)) for one in found)


def _ses(found: Iterable[Suppression]) -> bytes:
    """Write JSON lines; Amazon knows two reasons, and takes what nobody complained about as bounced."""
    reasons = {SuppressionReason.COMPLAINED: "COMPLAINT"}
    lines = ({"emailAddress": one.email, "reason": reasons.get(one.reason, "BOUNCE")} for one in found)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _sendgrid(found: Iterable[Suppression]) -> bytes:
    return csv_lines((one.email, int(one.since)) for one in found)


_WRITERS: Final[Mapping[SuppressionFormat, tuple[bytes, Callable[[Iterable[Suppression]], bytes]]]] = {
    SuppressionFormat.CSV: (b"email,reason,origin,since\n", _our_csv),
    SuppressionFormat.SES: (b"", _ses),
    SuppressionFormat.SENDGRID: (b"email,created\n", _sendgrid),
}
"""How a file begins, and how some are written."""
