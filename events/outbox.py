"""Mail of our own about what is committed: claimed, tried for about a day, and sent once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from mailsift.events.mail import in_header
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import outbox
from mailsift.storage.sql.outbox import MAIL_LEASE_S, MAIL_RETRY_S, ClaimedMail, MailTable

_BATCH: Final = 20
_log = structlog.get_logger()


class MailState(StrEnum):
    """Where a mail stands; the last three are its ends."""

    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"  # there is nobody to tell, nothing to tell of, or no way to
    GIVEN_UP = "given_up"


_Claimed = TypeVar("_Claimed", bound=ClaimedMail)


@dataclass(frozen=True, slots=True)
class MailRoute:
    """How our own mail goes out.

    Attributes:
        send: hands a mail over, or raises `mail_failed`; None = there is no relay: nothing is sent.
        sender: our address, bare.
        public_url: where people reach the pages, "" when nobody knows.
    """

    send: Callable[[EmailMessage], Awaitable[None]] | None
    sender: str
    public_url: str = ""


class OutboxMailer(ABC, Generic[_Claimed]):
    """Sends what is due from one outbox; any number of them may run in any number of processes."""

    table: ClassVar[MailTable]

    def __init__(self, *, database: Database, route: MailRoute, clock: Clock) -> None:
        self._database = database
        self._route = route
        self._clock = clock

    @abstractmethod
    async def claim(self, connection: Connection, *, now: datetime, again: datetime) -> _Claimed | None:
        """Take a mail that is due; `again` is when another may take it if nothing is heard of it."""

    @abstractmethod
    def compose(self, claimed: _Claimed, *, now: float) -> EmailMessage | None:
        """Write it; None: there is nobody to tell, or nothing to tell of any more.

        Raises:
            ValueError: something cannot stand in a header.
        """

    async def send_due(self) -> int:
        """Send what is due, some at a time; returns how many mails were looked at."""
        for count in range(_BATCH):
            now = utc_datetime(self._clock())
            claimed = await self._database.run(
                self.claim, now=now, again=now + timedelta(seconds=MAIL_LEASE_S)
            )
            if claimed is None:
                return count
            await self._record_try(claimed, *await self._try(claimed))
        return _BATCH

    async def _try(self, claimed: _Claimed) -> tuple[MailState, datetime | None]:
        """Send a mail; returns what becomes of it, and when it is tried again if it is pending."""
        try:
            message = self.compose(claimed, now=self._clock()) if self._route.send else None
            if message is None or self._route.send is None:
                return MailState.SKIPPED, None
            await self._route.send(message)
        except Exception as error:  # noqa: BLE001 - whatever it was, the mail has an end
            reason = error.message if isinstance(error, MailsiftError) else type(error).__name__
            _log.warning(f"{self.table}.error", mail=str(claimed.id), error=reason)
            again = mail_retry_at(claimed.tries, self._clock())
            return (MailState.PENDING, utc_datetime(again)) if again else (MailState.GIVEN_UP, None)
        return MailState.SENT, None

    async def _record_try(self, claimed: _Claimed, state: MailState, again: datetime | None) -> None:
        await self._database.run(outbox.record_try, self.table, claimed, state=state.value, again=again)
        _log.info(f"{self.table}.settled", mail=str(claimed.id), kind=claimed.kind, state=state.value)


def mail_retry_at(tries: int, now: float) -> float | None:
    """Return when a mail is tried again of which `tries` have failed; None: it is given up."""
    return now + MAIL_RETRY_S[tries - 1] if tries <= len(MAIL_RETRY_S) else None


def new_mail(*, subject: str, sender: str, recipients: Sequence[str], name: str, now: float) -> EmailMessage:
    """Return a mail without a text; `name` is its own, for the Message-ID.

    Raises:
        ValueError: an address cannot stand in a header.
    """
    message = EmailMessage()
    message["Subject"] = _in_one_line(subject)
    message["From"] = sender
    message["To"] = ", ".join(map(in_header, recipients))
    message["Date"] = format_datetime(utc_datetime(now))
    message["Message-ID"] = f"<{name}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer
    return message


def _in_one_line(text: str) -> str:
    """Return what customers have named as it may stand in a header: one line, and no encoded word (RFC 2047).

    Python before 3.11.10 takes "=?utf-8?q?=0aBcc:...?=" for one, and writes what it decodes to, line ends
    included (CVE-2024-6923).
    """
    letters = (letter if letter.isprintable() else " " for letter in text.replace("=?", "= ?"))
    return " ".join("".join(letters).split())
