"""Tell the owners of an account by mail what has become of a webhook, after the fact is committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.message import EmailMessage

import structlog

from events.moments import moment
from events.notices import Notice, NoticeKind, NoticeState, compose, retry_at
from events.retry import Disabled
from pipeline.clock import Clock
from pipeline.errors import MailsiftError
from storage import notice_rows, people_rows
from storage.database import Database
from storage.notice_rows import ClaimedNotice

LEASE_S = 600.0
"""A notice whose sender died is sent by another after so long; sending takes less."""

_BATCH = 10

_log = structlog.get_logger()


class Notifier:
    """Sends the notices that are due; any number of them may run in any number of processes.

    Args:
        database: the outbox.
        send: hands a mail over, or raises `mail_failed`; None = there is no relay: notices are logged only.
        sender: our address.
        public_url: where people reach the pages, "" when nobody knows.
        clock: the time.
    """

    def __init__(
        self,
        *,
        database: Database,
        send: Callable[[EmailMessage], Awaitable[None]] | None,
        sender: str,
        public_url: str,
        clock: Clock,
    ) -> None:
        self._database = database
        self._send = send
        self._sender = sender
        self._public_url = public_url
        self._clock = clock

    async def send_due(self) -> int:
        """Send what is due, some at a time; returns how many notices were looked at."""
        for count in range(_BATCH):
            now = self._clock()
            async with self._database.begin() as connection:
                claimed = await notice_rows.claim(connection, now=moment(now), again=moment(now + LEASE_S))
            if claimed is None:
                return count
            await self._tell(claimed)
        return _BATCH

    async def _tell(self, claimed: ClaimedNotice) -> None:
        state, at = await self._try(claimed)
        again = None if at is None else moment(at)
        async with self._database.begin() as connection:
            await notice_rows.settle(connection, claimed, state=state.value, again=again)
        _log.info("notice.settled", notice=str(claimed.id), kind=claimed.kind, state=state.value)

    async def _try(self, claimed: ClaimedNotice) -> tuple[NoticeState, float | None]:
        """Return what becomes of the notice, and when it is tried again if it is pending."""
        async with self._database.begin() as connection:
            owners = await people_rows.owners(connection, claimed.account_id)
        if self._send is None or not owners or not _is_still_so(claimed):
            return NoticeState.SKIPPED, None
        try:
            message = compose(
                self._notice(claimed), sender=self._sender, recipients=owners, now=self._clock()
            )
            await self._send(message)
        except (MailsiftError, ValueError) as error:
            told = error.message if isinstance(error, MailsiftError) else type(error).__name__
            _log.warning("notice.error", notice=str(claimed.id), error=told)
            again = retry_at(claimed.tries, self._clock())
            return (NoticeState.GIVEN_UP, None) if again is None else (NoticeState.PENDING, again)
        return NoticeState.SENT, None

    def _notice(self, claimed: ClaimedNotice) -> Notice:
        return Notice(
            id=claimed.id,
            kind=NoticeKind(claimed.kind),
            account=claimed.account,
            url=claimed.url or "",
            since=claimed.since,
            reason=Disabled(claimed.reason),
            at=claimed.created_at,
            link=f"{self._public_url}/webhooks/{claimed.subject_id}" if self._public_url else "",
        )


def _is_still_so(claimed: ClaimedNotice) -> bool:
    """Say whether the notice is news: nobody wants to hear of a webhook that is well again, or gone."""
    if claimed.enabled is None:
        return False
    if claimed.kind == NoticeKind.DISABLED:
        return not claimed.enabled
    return claimed.enabled and claimed.failing
