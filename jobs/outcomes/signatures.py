"""Is a webhook from whom it says? One rule a mail sender, as each of them documents it.

Amazon SNS signs with a certificate (its developer guide, "Verifying the signatures of Amazon SNS messages"),
SendGrid with ECDSA ("Signature Verification"), Mailgun with HMAC ("Securing webhooks"). Postmark, Brevo,
SparkPost and listmonk sign nothing; they send a password (RFC 7617) or a bearer token (RFC 6750). What checks
signatures is loaded with the first of them: seven megabytes of no use to most.
"""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SES_GREETING, SenderKind
from mailsift.pipeline.outcomes.times import epoch

CERTIFICATES: Final = re.compile(r"sns\.[a-z0-9-]{3,30}\.amazonaws\.com(?:\.cn)?")
"""The hosts of SNS: certificates and confirmations are fetched from nobody else."""

_CERTIFICATE_FILE: Final = re.compile(r"/SimpleNotificationService-[0-9A-Za-z]{1,64}\.pem")
"""The file of a certificate there. What else these hosts answer may be what a customer of Amazon had them
keep (`GetEndpointAttributes` gives his own text back): a certificate of his own making."""

_LATEST_RETRY: Final = 86_400.0
"""Seconds for which Mailgun and SNS try again, with the same signature."""

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
        raise refused() from error


def refused() -> MailsiftError:
    """Return what is said to a forgery: nothing of what is wrong with it."""
    return MailsiftError("receiver_refused", "The signature isn’t from the sender this address belongs to.")


def _fresh(at: float, trust: SenderTrust) -> None:
    if not abs(trust.now - at) <= _LATEST_RETRY:
        raise ValueError("stale")


def check_public_key(key: str) -> bytes:
    """Return SendGrid's verification key (base64 of a P-256 key) as it is stored.

    Raises:
        MailsiftError: `receiver_key_invalid`.
    """
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
        raise refused() from None
    _fresh(float(stamp), trust)
    return VerifiedPost(posted.body)


def _mailgun(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    """The HMAC covers a time and a token, not the body: a token counts once, for one body.

    Nothing stands between the two: of a token that begins with `e0` a float would take that for its own.
    """
    signed = json.loads(posted.body)["signature"]
    stamp, token, signature = (str(signed[name]) for name in ("timestamp", "token", "signature"))
    expected = hmac.new(trust.secret, (stamp + token).encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise refused()
    _fresh(int(stamp), trust)
    return VerifiedPost(posted.body, once=hashlib.sha256(token.encode()).digest())


def _password(posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
    scheme, _, sent = posted.headers.get("authorization", "").partition(" ")
    given = sent.strip().encode()
    if scheme.lower() == "basic":
        given = base64.b64decode(given, validate=True).partition(b":")[2]
    elif scheme.lower() != "bearer":
        given = b""
    if not hmac.compare_digest(given, trust.secret):
        raise refused()
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
    _fresh(epoch(message["Timestamp"]), trust)
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
        raise refused() from None
    if message["Type"] == "SubscriptionConfirmation":
        return VerifiedPost(b"", confirm=_at_sns(message["SubscribeURL"]))
    event = message["Message"].encode() if message["Type"] == "Notification" else b""
    return VerifiedPost(b"" if event.startswith(SES_GREETING) else event)


def _certificate_at(url: str) -> str:
    parts = urlsplit(_at_sns(url))
    if not _CERTIFICATE_FILE.fullmatch(parts.path) or parts.query:
        raise ValueError("not a certificate of SNS")
    return url


def _at_sns(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.port not in {None, 443} or parts.username or parts.password:
        raise ValueError("not SNS")
    if not CERTIFICATES.fullmatch(parts.hostname or ""):
        raise ValueError("not SNS")
    return url
