"""A certificate of the sandbox's own for STARTTLS, made at the start and forgotten at the end."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_NAME: Final = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mx.sandbox.test")])
_SINCE, _UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)


def server_context() -> ssl.SSLContext:
    """Return a TLS context with a fresh self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), number, _SINCE, _UNTIL)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as both:  # the ssl module reads files only
        Path(both.name).write_bytes(secret + certificate)
        context.load_cert_chain(both.name)
    return context
