"""A second factor for who signs in with a password: one-time codes (TOTP, RFC 6238) and recovery codes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self
from uuid import UUID

from mailsift.accounts.people import Visitor, note
from mailsift.events.signing import Vault
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import people
from mailsift.storage.sql.people import SecondFactorRow

_STEP_S: Final = 30
_DRIFT: Final = 1  # steps a clock may be off (RFC 6238, section 5.2)
_SECRET_BYTES: Final = 20  # as long as the hash (RFC 4226, section 4)
_RECOVERY_CODES, _RECOVERY_BYTES = 10, 10
PENDING_S: Final = 300
"""Seconds within which a code has to follow a password."""
_PENDING_OWNER: Final = UUID("6d61696c-7369-6674-0000-7365636f6e64")
"""What sealed half sign-ins belong to, so that nothing else that is sealed is taken for one."""


class CodeNeededError(MailsiftError):
    """The password was right and a code is missing; `pending` comes back with it."""

    def __init__(self, pending: str) -> None:
        super().__init__("code_needed", "Type the code that your authenticator shows.")
        self.pending = pending


@dataclass(frozen=True, slots=True)
class PasswordProof:
    """Whose password was right, and a mark of what is stored of that one: another one has another."""

    person_id: UUID
    mark: str = field(repr=False)

    @classmethod
    def of(cls, person: Row) -> Self:
        """Return what proves that somebody knows the password this person has now."""
        return cls(person["id"], hashlib.sha256(person["password"].encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A second factor that is being set up."""

    secret: str = field(repr=False)  # in base32, as people type it
    uri: str = field(repr=False)  # what a QR code holds


@dataclass(frozen=True, slots=True)
class FactorView:
    """Whether a second factor guards somebody, and how many recovery codes they have left."""

    on: bool
    recovery_left: int


class SecondFactors:
    """The second factors of one installation."""

    def __init__(
        self, *, database: Database, vault: Vault, clock: Clock, token: Callable[[int], bytes]
    ) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._token = token

    async def view(self, person_id: UUID) -> FactorView:
        """Return where somebody's second factor stands."""
        row = await self._database.run(_guarding, person_id)
        return FactorView(on=row is not None, recovery_left=row.recovery_left if row else 0)

    async def is_on(self, connection: Connection, person_id: UUID) -> bool:
        """Say whether a second factor guards somebody."""
        return await _guarding(connection, person_id) is not None

    async def enrol(self, visitor: Visitor) -> Enrolment:
        """Make a secret, which guards once it is confirmed.

        Raises:
            MailsiftError: `factor_on`, `person_not_found`.
        """
        import pyotp  # noqa: PLC0415 - for the few who set one up

        secret = base64.b32encode(self._token(_SECRET_BYTES)).decode()
        async with self._database.begin() as connection:
            if await people.lock_person(connection, visitor.user_id) is None:
                raise people.person_not_found()
            sealed = self._vault.seal(visitor.user_id, secret.encode())
            if not await people.put_second_factor(connection, visitor.user_id, sealed):
                raise MailsiftError("factor_on", "Two-step sign-in is already on.")
        uri = pyotp.TOTP(secret).provisioning_uri(name=visitor.email, issuer_name="Mailsift")
        return Enrolment(secret, uri)

    async def confirm(self, connection: Connection, visitor: Visitor, code: str) -> list[str]:
        """Let it guard from now on; returns the recovery codes, which are shown this once.

        Raises:
            MailsiftError: `wrong_code`.
        """
        codes = [self._recovery_code() for _ in range(_RECOVERY_CODES)]
        row = await people.get_second_factor(connection, visitor.user_id)
        step = self._step_of(visitor.user_id, row.secret, code) if row else None
        if row is None or step is None:
            raise _wrong_code()
        hashes = [_hashed(visitor.user_id, one) for one in codes]
        if not await people.confirm_second_factor(
            connection,
            visitor.user_id,
            row.secret,
            recovery=hashes,
            step=step,
            now=utc_datetime(self._clock()),
        ):
            raise _wrong_code()
        await note(connection, visitor, "factor.on")
        return codes

    async def turn_off(self, visitor: Visitor, code: str) -> None:
        """Forget it.

        Raises:
            MailsiftError: `wrong_code`.
        """
        async with self._database.begin() as connection:
            await self.use(connection, visitor.user_id, code)
            await people.delete_second_factor(connection, visitor.user_id)
            await note(connection, visitor, "factor.off")

    async def reset(self, email: str, *, actor: str) -> None:
        """Forget the second factor of somebody who has lost it.

        Raises:
            MailsiftError: `person_not_found`, `factor_off`.
        """
        async with self._database.begin() as connection:
            person = await people.person_of(connection, email)
            if person is None:
                raise people.person_not_found()
            if not await people.delete_second_factor(connection, person["id"]):
                raise MailsiftError("factor_off", "This person hasn’t turned on two-step sign-in.")
            await people.audit_operation(connection, actor, "factor.reset", email)

    async def use(self, connection: Connection, person_id: UUID, code: str) -> bool:
        """Use a code, which works once; returns whether it was a recovery code.

        Raises:
            MailsiftError: `wrong_code`.
        """
        row = await _guarding(connection, person_id)
        if row is None:
            raise _wrong_code()
        step = self._step_of(person_id, row.secret, code)
        if step is not None and await people.use_one_time_code(connection, person_id, row.secret, step):
            return False
        if await people.use_recovery_code(connection, person_id, _hashed(person_id, code)):
            return True
        raise _wrong_code()

    def pending(self, proof: PasswordProof) -> str:
        """Return what says for some minutes that somebody's password was right."""
        state = json.dumps([proof.person_id.hex, proof.mark, self._clock() + PENDING_S]).encode()
        return base64.urlsafe_b64encode(self._vault.seal(_PENDING_OWNER, state)).decode()

    def proof_of(self, pending: str) -> PasswordProof:
        """Return whose password was right.

        Raises:
            MailsiftError: `sign_in_again`.
        """
        try:
            sealed = base64.urlsafe_b64decode(pending)
            person, mark, ends = json.loads(self._vault.open(_PENDING_OWNER, sealed))
        except (MailsiftError, ValueError):
            raise _sign_in_again() from None
        if ends <= self._clock():
            raise _sign_in_again()
        return PasswordProof(UUID(person), mark)

    def _step_of(self, person_id: UUID, sealed: bytes, code: str) -> int | None:
        """Return the step whose code this is, of those that a clock may show now."""
        import pyotp  # noqa: PLC0415 - for the few who have one

        totp = pyotp.TOTP(self._vault.open(person_id, sealed).decode())
        digits = "".join(str(unicodedata.decimal(sign, sign)) for sign in code if not sign.isspace())
        typed, now = digits.encode("utf-8", "surrogatepass"), int(self._clock()) // _STEP_S
        steps = range(now - _DRIFT, now + _DRIFT + 1)
        fits = [step for step in steps if hmac.compare_digest(totp.at(step * _STEP_S).encode(), typed)]
        return max(fits, default=None)

    def _recovery_code(self) -> str:
        text = base64.b32encode(self._token(_RECOVERY_BYTES)).decode().lower()
        return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


async def _guarding(connection: Connection, person_id: UUID) -> SecondFactorRow | None:
    """Return what guards somebody; None while it is not confirmed."""
    row = await people.get_second_factor(connection, person_id)
    return row if row is not None and row.confirmed_at is not None else None


def _hashed(person_id: UUID, code: str) -> bytes:
    """Return what is stored of a recovery code of 80 random bits; such a one needs no slow hash."""
    plain = "".join(sign for sign in code.lower() if sign.isalnum())
    return hashlib.sha256(person_id.bytes + plain.encode("utf-8", "surrogatepass")).digest()


def _wrong_code() -> MailsiftError:
    return MailsiftError("wrong_code", "This code is wrong or has already been used.")


def _sign_in_again() -> MailsiftError:
    return MailsiftError("sign_in_again", "Too much time has passed. Sign in again.")
