"""What operators do about providers and domains: limits, holds, what was learned, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mailsift.jobs.admin.console import domain_of, provider_key
from mailsift.jobs.rates import FleetConfig
from mailsift.jobs.waker import Waker
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import provider_by_name
from mailsift.storage.database import Connection, Database
from mailsift.storage.redis.connection import Client, ClientError, redis_unavailable
from mailsift.storage.redis.facts import FactInspector
from mailsift.storage.redis.throttle_view import ThrottleInspector
from mailsift.storage.sql import opt_outs, people, sources, throttle_edits
from mailsift.storage.sql.opt_outs import OptedOut
from mailsift.storage.sql.throttle_edits import (
    ANY_PROVIDER,
    ANY_SOURCE,
    MOST_RAISE,
    ThrottleEdit,
    most_sessions,
)

_LONGEST_NOTE: Final = 200
_OF_TABLE: Final = "as in the table"
_LONGEST_HOLD: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider is to be asked with; None = what its row says."""

    rate: float | None
    sessions: int | None
    note: str = ""


class ThrottleAdmin:
    """Changes what the throttle allows and what is remembered; `actor` says who does."""

    def __init__(self, *, database: Database, redis: Client, waker: Waker, fleet: FleetConfig) -> None:
        self._database = database
        self._waker = waker
        self._fleet = fleet
        self._desk = ThrottleInspector(redis)
        self._facts = FactInspector(redis)

    async def edit_limits(self, actor: str, provider: str, source: str, limits: ProviderLimits) -> None:
        """Change how a provider is asked from a source, in all processes within seconds.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `bad_limit` above what the table doubled allows.
        """
        edit = await self._edit(actor, self._asked(provider), source, limits.note)
        self._check(edit.provider, limits)
        async with self._database.begin() as connection:
            await throttle_edits.put(connection, replace(edit, rate=limits.rate, sessions=limits.sessions))
            said = {"rate": limits.rate or _OF_TABLE, "sessions": limits.sessions or _OF_TABLE}
            await _record(connection, "throttle.edit", edit, **said)

    async def hold(self, actor: str, provider: str, source: str, *, seconds: float, note: str = "") -> None:
        """Ask a provider nothing more for so many seconds, 0 = until `let_go`; sessions that run may end.

        The provider `*` is every one: that holds a source.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `bad_limit`.
        """
        if not 0 <= seconds <= _LONGEST_HOLD:
            raise MailsiftError("bad_limit", "A hold can last at most 30 days, or until somebody ends it.")
        edit = await self._edit(actor, self._asked(provider), source, note)
        async with self._database.begin() as connection:
            await throttle_edits.hold(connection, edit, seconds=seconds)
            await _record(connection, "throttle.hold", edit, seconds=seconds)

    async def let_go(self, actor: str, provider: str, source: str) -> bool:
        """End a hold; what waits is looked at again once every process knows. False: it was not held.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`.
        """
        edit = await self._edit(actor, provider, source, "")
        async with self._database.begin() as connection:
            done = await throttle_edits.let_go(
                connection, provider=edit.provider, source=edit.source, edited_by=actor
            )
            if done:
                await _record(connection, "throttle.let_go", edit)
        await self._waker.wake(int(done))
        return done

    async def reset(self, actor: str, provider: str, source: str) -> int:
        """Forget what was learned of a provider: rate, penalties, refusals; returns at how many sources.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`, `redis_unavailable`.
        """
        edit = await self._edit(actor, provider, source, "")
        everywhere = {*self._fleet.sources, *await self._database.run(self._fleet.identities)}
        places = everywhere if edit.source == ANY_SOURCE else {edit.source}
        try:
            known = [await self._desk.reset(edit.provider, one) for one in places]
        except ClientError:
            raise redis_unavailable() from None
        async with self._database.begin() as connection:
            await sources.wake(connection, provider=edit.provider, source=edit.source)
            await _record(connection, "throttle.reset", edit)
        return sum(known)

    async def forget(self, actor: str, name: str) -> int:
        """Forget what is remembered of a domain; returns how many facts there were.

        Raises:
            MailsiftError: `bad_domain`, `redis_unavailable`.
        """
        domain = domain_of(name)
        try:
            gone = await self._facts.forget(domain)
        except ClientError:
            raise redis_unavailable() from None
        await self._database.run(people.audit_operation, actor, "facts.forget", domain, facts=gone)
        return gone

    async def opt_outs(self) -> Sequence[OptedOut]:
        """Return the domains that do not want to be asked; those of the file are not among them."""
        return await self._database.run(opt_outs.known)

    async def opt_out(self, actor: str, name: str, *, note: str) -> str:
        """Ask a domain, and what is below it, nothing more; returns it as it is written down.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain, said = domain_of(name), note.strip()[:_LONGEST_NOTE]
        async with self._database.begin() as connection:
            await opt_outs.add(connection, domain, note=said, added_by=actor)
            await people.audit_operation(connection, actor, "opt_out.add", domain, note=said)
        return domain

    async def opt_in(self, actor: str, name: str) -> bool:
        """Let a domain be asked again. False: it had not opted out.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain = domain_of(name)
        async with self._database.begin() as connection:
            gone = await opt_outs.remove(connection, domain)
            if gone:
                await people.audit_operation(connection, actor, "opt_out.remove", domain)
        return gone

    async def _edit(self, actor: str, provider: str, source: str, note: str) -> ThrottleEdit:
        await self._database.run(self._fleet.check_source, source)
        return ThrottleEdit(
            provider_key(provider), source, note=note.strip()[:_LONGEST_NOTE], edited_by=actor
        )

    def _asked(self, provider: str) -> str:
        """Return the key of a provider that may be asked: a change of any other would do nothing."""
        key, table = provider_key(provider), self._fleet.providers
        if key == ANY_PROVIDER or table.knows(key):
            return key
        meant = (provider_by_name(key) or table.key_of([key])) if "." in key else table.nearest(key)
        if meant != key:
            hint = f": do you mean {meant}?" if meant else "; name one of the table, or a mail host’s domain."
            raise MailsiftError("bad_provider", f"No mail server is asked under the name {key}{hint}")
        return key

    def _check(self, provider: str, limits: ProviderLimits) -> None:
        if provider == ANY_PROVIDER:
            raise MailsiftError(
                "bad_provider", "Limits belong to a provider. A source as a whole can only be held."
            )
        row = self._fleet.providers.row(provider)
        highest, most = row.rate * MOST_RAISE, most_sessions(row)
        if limits.rate is not None and not 0 < limits.rate <= highest:
            text = f"The rate is above 0 and at most {highest:g}, twice what the provider table allows."
            raise MailsiftError("bad_limit", text)
        if limits.sessions is not None and not 0 < limits.sessions <= most:
            text = f"There is at least 1 session and at most {most}, twice what the provider table allows."
            raise MailsiftError("bad_limit", text)


async def _record(connection: Connection, action: str, edit: ThrottleEdit, **detail: Any) -> None:
    """Write down what was done about a provider at a source, in the words of a place."""
    source = "every source" if edit.source == ANY_SOURCE else edit.source or "the default route"
    said = detail | ({"note": edit.note} if edit.note else {})
    await people.audit_operation(connection, edit.edited_by, action, f"{edit.provider} at {source}", **said)
