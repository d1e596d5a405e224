"""Amazon SNS as far as its receivers see it: messages, signed as its developer guide says."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

NOW: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)
TOPIC: Final = "arn:aws:sns:eu-west-1:123456789012:bounces"
CERTIFICATE: Final = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-abc.pem"
CONFIRM: Final = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"
EVENT: Final = '{"notificationType": "Delivery"}'


@cache
def signer() -> tuple[rsa.RSAPrivateKey, bytes]:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return key, certificate.public_bytes(Encoding.PEM)


def signed(version: str = "2", at: datetime = NOW, /, **changes: str) -> dict[str, Any]:
    """Make a message as SNS documents it, signed over its fields in the order of their names."""
    message = {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": TOPIC,
        "Message": EVENT,
        "Timestamp": at.replace(microsecond=0).isoformat().replace("+00:00", ".000Z"),
        "SignatureVersion": version,
        "SigningCertURL": CERTIFICATE,
        **changes,
    }
    names = {
        "Notification": ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
        "SubscriptionConfirmation": [
            "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
        ],
    }[message["Type"]]  # fmt: skip
    text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
    digest = hashes.SHA1() if version == "1" else hashes.SHA256()  # noqa: S303 - as SNS does
    signature = signer()[0].sign(text.encode(), padding.PKCS1v15(), digest)
    return {**message, "Signature": base64.b64encode(signature).decode()}
