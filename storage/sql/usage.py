"""What accounts use, by day and mode, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection


@dataclass(frozen=True, slots=True)
class Amounts:
    """What was used.

    Attributes:
        rows: rows of lists, or addresses as they were sent, that got a verdict.
        addresses: distinct ones among them.
        probes: mailboxes about which a mail server was asked and answered.
    """

    rows: int = 0
    addresses: int = 0
    probes: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        """Return both together."""
        return Amounts(self.rows + other.rows, self.addresses + other.addresses, self.probes + other.probes)


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What an account used on one day (UTC) in one mode."""

    day: date
    mode: str
    amounts: Amounts


# An account that was deleted meanwhile has used nothing.
_ADD = text("""
    INSERT INTO usage AS u (account_id, day, mode, rows, addresses, probes)
    SELECT id, (clock_timestamp() AT TIME ZONE 'UTC')::date, :mode, :rows, :addresses, :probes
    FROM account WHERE id = :account_id
    ON CONFLICT (account_id, day, mode) DO UPDATE SET rows = u.rows + excluded.rows,
        addresses = u.addresses + excluded.addresses, probes = u.probes + excluded.probes
""")

_DAYS = text("""
    SELECT day, mode, rows, addresses, probes FROM usage
    WHERE account_id = :account_id AND day BETWEEN :first AND :last ORDER BY day, mode
""")


async def add(connection: Connection, account_id: UUID, amounts: Mapping[str, Amounts]) -> None:
    """Add to what the account used today, by mode."""
    for mode, used in sorted(amounts.items()):
        await connection.execute(_ADD, {"account_id": account_id, "mode": mode, **asdict(used)})


async def days(connection: Connection, account_id: UUID, first: date, last: date) -> Sequence[DayUsage]:
    """Return what the account used from the first to the last day, the oldest first."""
    found = await connection.execute(_DAYS, {"account_id": account_id, "first": first, "last": last})
    return [DayUsage(row.day, row.mode, Amounts(row.rows, row.addresses, row.probes)) for row in found]
