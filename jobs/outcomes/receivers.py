"""Addresses that mail senders' webhooks are posted to: an account's own, believed by signature."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import structlog

from mailsift.events import audit
from mailsift.events.signing import Vault
from mailsift.jobs.outcomes.service import ImportCounts, OutcomeService
from mailsift.jobs.outcomes.signatures import (
    FetchText,
    ReceivedPost,
    SenderTrust,
    VerifiedPost,
    check_public_key,
    refused,
    verify_post,
)
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SENDER_NAMES, SenderKind, read_webhook
from mailsift.storage.database import Connection, Database
from mailsift.storage.shared_calls import SharedCalls
from mailsift.storage.sql import accounts, outcomes
from mailsift.storage.sql.outcomes import NewReceiver, ReceiverRow

_MOST = 50
_PASSWORD_BYTES = 24
_CERTIFICATES = 20
"""So many certificates are remembered: SNS signs with few, and with a new one under a new URL."""
_LOOKED_UP = 1_000
"""Receivers that are looked up with one question."""
_log = structlog.get_logger()


@dataclass(kw_only=True, repr=False)
class ReceiverService:
    """The receivers of one installation.

    Attributes:
        fetch: gets certificates of SNS and confirms its subscriptions, over a guarded connection.
    """

    database: Database
    outcomes: OutcomeService
    vault: Vault
    fetch: FetchText
    clock: Clock
    token: Callable[[int], bytes]
    _certificates: dict[str, bytes] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Let those who ask at the same time ask together."""
        self._lookups = SharedCalls(self._look_up, most=_LOOKED_UP)

    async def create(
        self, account_id: UUID, sender: SenderKind, *, name: str = "", key: str = "", topic: str = ""
    ) -> tuple[ReceiverRow, str]:
        """Make a receiver.

        Args:
            account_id: whose.
            sender: who will post there.
            name: what people call it.
            key: of SendGrid its verification key, of Mailgun its webhook signing key.
            topic: of SES the ARN of the SNS topic.

        Returns:
            The receiver, and the password of a sender that signs nothing; it is shown this once.

        Raises:
            MailsiftError: `receiver_key_invalid`, `receiver_limit`.
        """
        secret, topic, password = self._credentials(sender, key, topic)
        receiver_id = uuid4()
        sealed = self.vault.seal(receiver_id, secret)
        async with self.database.begin() as connection:
            await accounts.get(connection, account_id, lock=True)
            if len(await outcomes.receivers_of_account(connection, account_id)) >= _MOST:
                raise MailsiftError("receiver_limit", f"An account can have at most {_MOST} receivers.")
            row = await outcomes.add_receiver(
                connection, NewReceiver(receiver_id, account_id, sender.value, name, sealed, topic)
            )
            await _record(connection, row, "receiver.create")
        return row, password

    async def get(self, account_id: UUID, receiver_id: UUID) -> ReceiverRow:
        """Return a receiver.

        Raises:
            MailsiftError: `receiver_not_found`.
        """
        return await self.database.run(_owned, account_id, receiver_id)

    async def rotate(
        self, account_id: UUID, receiver_id: UUID, *, key: str = "", topic: str = ""
    ) -> tuple[ReceiverRow, str]:
        """Change what a receiver believes: a new key or topic, or a new password; the old one ends now.

        Its address and its counts stay. Arguments and result are those of `create`.

        Raises:
            MailsiftError: `receiver_not_found`, `receiver_key_invalid`.
        """
        async with self.database.begin() as connection:
            row = await _owned(connection, account_id, receiver_id)
            secret, topic, password = self._credentials(SenderKind(row.sender), key, topic)
            sealed = self.vault.seal(receiver_id, secret)
            changed = await outcomes.change_receiver(connection, receiver_id, sealed, topic)
            await _record(connection, changed, "receiver.rotate")
        return changed, password

    def _credentials(self, sender: SenderKind, key: str, topic: str) -> tuple[bytes, str, str]:
        """Return the secret, the topic and the password of a receiver, of which most senders need one."""
        if sender is SenderKind.SENDGRID:
            return check_public_key(key), "", ""
        if sender is SenderKind.MAILGUN:
            return _needed(key, "Mailgun's webhook signing key is needed.").encode(), "", ""
        if sender is SenderKind.SES:
            arn = topic if topic.startswith("arn:") and topic.isprintable() else ""
            return b"", _needed(arn, "The ARN of the SNS topic is needed."), ""
        password = base64.urlsafe_b64encode(self.token(_PASSWORD_BYTES)).decode()
        return password.encode(), "", password

    async def list(self, account_id: UUID) -> Sequence[ReceiverRow]:
        """Return the account's receivers, oldest first."""
        return await self.database.run(outcomes.receivers_of_account, account_id)

    async def delete(self, account_id: UUID, receiver_id: UUID) -> None:
        """Delete a receiver; what it brought stays.

        Raises:
            MailsiftError: `receiver_not_found`.
        """
        async with self.database.begin() as connection:
            row = await _owned(connection, account_id, receiver_id)
            if not await outcomes.remove_receiver(connection, account_id, receiver_id):
                raise _not_found()
            await _record(connection, row, "receiver.delete")

    async def receive(self, receiver_id: UUID, posted: ReceivedPost) -> ImportCounts:
        """Take what was posted.

        Raises:
            MailsiftError: `receiver_not_found`, `receiver_refused` for forgeries and replays,
                `malformed_outcome` for what is no webhook of this sender.
        """
        row = await self._lookups.ask(receiver_id)
        if row is None:
            raise _not_found()
        try:
            taken = await self._take(row, posted)
        except MailsiftError as error:
            if error.code in {"receiver_refused", "malformed_outcome"}:
                forged = error.code == "receiver_refused"
                await self.database.run(
                    outcomes.count_received, row.id, refused=int(forged), malformed=int(not forged)
                )
            raise
        await self.database.run(outcomes.count_received, row.id, taken=taken.taken, malformed=taken.malformed)
        return taken

    async def _look_up(self, asked: Sequence[UUID]) -> Sequence[ReceiverRow | None]:
        """Return these receivers; a flood of posts costs one question at a time, whatever it names."""
        found = await self.database.run(outcomes.receivers_by_id, set(asked))
        return [found.get(receiver_id) for receiver_id in asked]

    async def _take(self, row: ReceiverRow, posted: ReceivedPost) -> ImportCounts:
        sender = SenderKind(row.sender)
        trust = SenderTrust(self.vault.open(row.id, row.secret), row.topic, self._certificate, self.clock())
        verified = await verify_post(sender, posted, trust)
        if verified.confirm:
            await self.fetch(verified.confirm)
            _log.info("receiver.confirmed", receiver_id=str(row.id))
        if not verified.events:
            return ImportCounts()
        # four megabytes of words take ten seconds to read
        found = await asyncio.to_thread(read_webhook, sender, verified.events)
        await self._use(row, verified, posted)
        return await self.outcomes.record(row.account_id, found)

    async def _certificate(self, url: str) -> bytes:
        """Return a certificate of SNS, which is fetched once and not for each of its messages."""
        found = self._certificates.get(url)
        if found is None:
            found = await self.fetch(url)
            if len(self._certificates) >= _CERTIFICATES:
                self._certificates.clear()
            self._certificates[url] = found
        return found

    async def _use(self, row: ReceiverRow, verified: VerifiedPost, posted: ReceivedPost) -> None:
        """Take what counts once; a sender who has not heard our answer sends the same once more."""
        if verified.once:
            tied = hashlib.sha256(verified.once + posted.body).digest()
            if not await self.database.run(outcomes.use_token_once, row.id, verified.once, tied):
                raise refused()


async def _record(connection: Connection, row: ReceiverRow, action: str) -> None:
    called = f"{SENDER_NAMES[SenderKind(row.sender)]} {row.name}".strip()
    await audit.record_change(connection, row.account_id, action, called)


async def _owned(connection: Connection, account_id: UUID, receiver_id: UUID) -> ReceiverRow:
    row = (await outcomes.receivers_by_id(connection, [receiver_id])).get(receiver_id)
    if row is None or row.account_id != account_id:
        raise _not_found()
    return row


def _needed(value: str, text: str) -> str:
    if not value.strip():
        raise MailsiftError("receiver_key_invalid", text)
    return value.strip()


def _not_found() -> MailsiftError:
    return MailsiftError("receiver_not_found", "There is no such receiver.")
