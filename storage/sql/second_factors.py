"""Second factors in SQL; of recovery codes only hashes are stored, secrets are sealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, row_as


@dataclass(frozen=True, slots=True)
class SecondFactorRow:
    """A person's second factor; until it is confirmed it guards nothing."""

    secret: bytes = field(repr=False)
    recovery_left: int
    confirmed_at: datetime | None


_PUT = text("""
    INSERT INTO second_factor (person_id, secret) VALUES (:person_id, :secret)
    ON CONFLICT (person_id) DO UPDATE SET secret = :secret, last_step = 0
    WHERE second_factor.confirmed_at IS NULL
    RETURNING person_id
""")

_GET = text("""
    SELECT secret, cardinality(recovery) AS recovery_left, confirmed_at FROM second_factor
    WHERE person_id = :person_id
""")

_CONFIRM = text("""
    UPDATE second_factor SET confirmed_at = :now, recovery = :recovery, last_step = :step
    WHERE person_id = :person_id AND confirmed_at IS NULL AND secret = :secret
""")

# Of two who come with one code, one gets in.
_USE_STEP = text("""
    UPDATE second_factor SET last_step = :step
    WHERE person_id = :person_id AND confirmed_at IS NOT NULL AND secret = :secret AND last_step < :step
""")

_USE_RECOVERY = text("""
    UPDATE second_factor SET recovery = array_remove(recovery, :digest)
    WHERE person_id = :person_id AND confirmed_at IS NOT NULL AND :digest = ANY(recovery)
""")

_DELETE = text("DELETE FROM second_factor WHERE person_id = :person_id")


async def put(connection: Connection, person_id: UUID, secret: bytes) -> bool:
    """Note a secret that is to be confirmed; False when a confirmed one is there already."""
    values = {"person_id": person_id, "secret": secret}
    return (await connection.execute(_PUT, values)).first() is not None


async def get(connection: Connection, person_id: UUID) -> SecondFactorRow | None:
    """Return the person's second factor."""
    return await row_as(SecondFactorRow, connection, _GET, {"person_id": person_id})


async def confirm(
    connection: Connection,
    person_id: UUID,
    secret: bytes,
    *,
    recovery: Sequence[bytes],
    step: int,
    now: datetime,
) -> bool:
    """Let this secret guard from now on; False when one does already, or another one is to be confirmed."""
    values = {"person_id": person_id, "secret": secret, "recovery": list(recovery), "step": step, "now": now}
    return (await connection.execute(_CONFIRM, values)).rowcount == 1


async def use_step(connection: Connection, person_id: UUID, secret: bytes, step: int) -> bool:
    """Use the code of a step; False when that or a later one was used, or another secret guards by now."""
    values = {"person_id": person_id, "secret": secret, "step": step}
    return (await connection.execute(_USE_STEP, values)).rowcount == 1


async def use_recovery(connection: Connection, person_id: UUID, digest: bytes) -> bool:
    """Use up a recovery code; False when there is no such one."""
    values = {"person_id": person_id, "digest": digest}
    return (await connection.execute(_USE_RECOVERY, values)).rowcount == 1


async def delete(connection: Connection, person_id: UUID) -> bool:
    """Forget the second factor; False when there is none."""
    return (await connection.execute(_DELETE, {"person_id": person_id})).rowcount == 1
