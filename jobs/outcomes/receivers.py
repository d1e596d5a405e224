"""Addresses that mail senders' webhooks are posted to: an account's own, believed by signature.

Whether a webhook is from whom it says goes by one rule a mail sender, as each of them documents it. Amazon
SNS signs with a certificate (its developer guide, "Verifying the signatures of Amazon SNS messages"),
SendGrid with ECDSA ("Signature Verification"), Mailgun with HMAC ("Securing webhooks"). Postmark, Brevo,
SparkPost and listmonk sign nothing; they send a password (RFC 7617) or a bearer token (RFC 6750). What checks
signatures is loaded with the first of them: seven megabytes of no use to most.
"""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import structlog

from mailsift.events import audit
from mailsift.events.signing import Vault
from mailsift.jobs.outcomes.service import ImportCounts, OutcomeService
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SENDER_NAMES, SES_GREETING, SenderKind, read_webhook
from mailsift.pipeline.outcomes.times import epoch
from mailsift.storage.database import Connection, Database
from mailsift.storage.shared_calls import SharedCalls
from mailsift.storage.sql import accounts, outcomes
from mailsift.storage.sql.outcomes import NewReceiver, ReceiverRow

FetchText = Callable[[str], Awaitable[bytes]]
"""Returns what stands at a URL, over a guarded connection."""


@dataclass(frozen=True, slots=True)
class ReceivedPost:
    """A request to a receiver.

    Attributes:
        headers: by name in lower case.
        body: the bytes as they came; the signatures are over them.
    """

    headers: Mapping[str, str]
    body: bytes


_MOST_RECEIVERS = 50
_PASSWORD_BYTES = 24
_MOST_CERTIFICATES = 20
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
            if len(await outcomes.receivers_of_account(connection, account_id)) >= _MOST_RECEIVERS:
                raise MailsiftError(
                    "receiver_limit", f"An account can have at most {_MOST_RECEIVERS} receivers."
                )
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
            return _check_public_key(key), "", ""
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
            if len(self._certificates) >= _MOST_CERTIFICATES:
                self._certificates.clear()
            self._certificates[url] = found
        return found

    async def _use(self, row: ReceiverRow, verified: VerifiedPost, posted: ReceivedPost) -> None:
        """Take what counts once; a sender who has not heard our answer sends the same once more."""
        if verified.once:
            tied = hashlib.sha256(verified.once + posted.body).digest()
            if not await self.database.run(outcomes.use_token_once, row.id, verified.once, tied):
                raise _refused()


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


@dataclass(frozen=True, slots=True)
class SenderTrust:
    """What a receiver knows of its sender.

    Attributes:
        secret: the password, the HMAC key or the public key.
        topic: the ARN that SNS may send for.
        fetch: gets certificates of SNS.
        now: epoch seconds.
    """

    secret: bytes
    topic: str
    fetch: FetchText
    now: float


@dataclass(frozen=True, slots=True)
class VerifiedPost:
    """A webhook that is from its sender.

    Attributes:
        events: what its body tells, in the sender's words; b"" when it tells of no event.
        once: what may be used only once, b"" where the signature covers the body.
        confirm: a URL to fetch, by which a subscription is confirmed, or "".
    """

    events: bytes
    once: bytes = b""
    confirm: str = ""


async def verify_post(sender: SenderKind, posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    """Check who posts.

    Raises:
        MailsiftError: `receiver_refused` where the signature, the password, the time or the topic is wrong.
    """
    try:
        if sender is SenderKind.SES:
            return await _sns(posted, trust)
        if sender is SenderKind.SENDGRID:
            return _sendgrid(posted, trust)
        if sender is SenderKind.MAILGUN:
            return _mailgun(posted, trust)
        return _password(posted, trust)
    except (binascii.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _refused() from error


def _refused() -> MailsiftError:
    """Return what is said to a forgery: nothing of what is wrong with it."""
    return MailsiftError("receiver_refused", "The signature isn’t from the sender this address belongs to.")


_LATEST_RETRY: Final = 86_400.0
"""Seconds for which Mailgun and SNS try again, with the same signature."""


def _check_fresh(at: float, trust: SenderTrust) -> None:
    if not abs(trust.now - at) <= _LATEST_RETRY:
        raise ValueError("stale")


def _check_public_key(key: str) -> bytes:
    """Return SendGrid's verification key (base64 of a P-256 key) as it is stored."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        raw = base64.b64decode(key, validate=True)
        if isinstance(load_der_public_key(raw), ec.EllipticCurvePublicKey):
            return raw
    except (ValueError, TypeError):
        pass
    raise MailsiftError("receiver_key_invalid", "This isn’t a SendGrid verification key.")


def _sendgrid(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    stamp = posted.headers["x-twilio-email-event-webhook-timestamp"]
    signature = base64.b64decode(posted.headers["x-twilio-email-event-webhook-signature"], validate=True)
    key = load_der_public_key(trust.secret)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise TypeError("not an EC key")
    try:
        key.verify(signature, stamp.encode() + posted.body, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise _refused() from None
    _check_fresh(float(stamp), trust)
    return VerifiedPost(posted.body)


def _mailgun(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    """The HMAC covers a time and a token, not the body: a token counts once, for one body.

    Nothing stands between the two: of a token that begins with `e0` a float would take that for its own.
    """
    signed = json.loads(posted.body)["signature"]
    stamp, token, signature = (str(signed[name]) for name in ("timestamp", "token", "signature"))
    expected = hmac.new(trust.secret, (stamp + token).encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise _refused()
    _check_fresh(int(stamp), trust)
    return VerifiedPost(posted.body, once=hashlib.sha256(token.encode()).digest())


def _password(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    scheme, _, sent = posted.headers.get("authorization", "").partition(" ")
    given = sent.strip().encode()
    if scheme.lower() == "basic":
        given = base64.b64decode(given, validate=True).partition(b":")[2]
    elif scheme.lower() != "bearer":
        given = b""
    if not hmac.compare_digest(given, trust.secret):
        raise _refused()
    return VerifiedPost(posted.body)


# Amazon SNS.

_OF_EVENT: Final = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_OF_SUBSCRIPTION: Final = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED_FIELDS: Final = {
    "Notification": _OF_EVENT,
    "SubscriptionConfirmation": _OF_SUBSCRIPTION,
    "UnsubscribeConfirmation": _OF_SUBSCRIPTION,
}


async def _sns(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.x509 import load_pem_x509_certificate

    message: dict[str, Any] = json.loads(posted.body)
    if not trust.topic or message["TopicArn"] != trust.topic:
        raise ValueError("another topic")
    _check_fresh(epoch(message["Timestamp"]), trust)
    names = _SIGNED_FIELDS[message["Type"]]
    signed = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
    certificate = load_pem_x509_certificate(await trust.fetch(_certificate_at(message["SigningCertURL"])))
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        raise TypeError("not an RSA key")
    digest = {"1": hashes.SHA1, "2": hashes.SHA256}[str(message["SignatureVersion"])]()
    try:
        key.verify(base64.b64decode(message["Signature"]), signed.encode(), padding.PKCS1v15(), digest)
    except InvalidSignature:
        raise _refused() from None
    if message["Type"] == "SubscriptionConfirmation":
        return VerifiedPost(b"", confirm=_at_sns(message["SubscribeURL"]))
    event = message["Message"].encode() if message["Type"] == "Notification" else b""
    return VerifiedPost(b"" if event.startswith(SES_GREETING) else event)


_CERTIFICATE_FILE: Final = re.compile(r"/SimpleNotificationService-[0-9A-Za-z]{1,64}\.pem")
"""The file of a certificate there. What else these hosts answer may be what a customer of Amazon had them
keep (`GetEndpointAttributes` gives his own text back): a certificate of his own making."""


def _certificate_at(url: str) -> str:
    parts = urlsplit(_at_sns(url))
    if not _CERTIFICATE_FILE.fullmatch(parts.path) or parts.query:
        raise ValueError("not a certificate of SNS")
    return url


_SNS_HOSTS: Final = re.compile(r"sns\.[a-z0-9-]{3,30}\.amazonaws\.com(?:\.cn)?")
"""The hosts of SNS: certificates and confirmations are fetched from nobody else."""


def _at_sns(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.port not in {None, 443} or parts.username or parts.password:
        raise ValueError("not SNS")
    if not _SNS_HOSTS.fullmatch(parts.hostname or ""):
        raise ValueError("not SNS")
    return url
