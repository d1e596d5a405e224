"""A certificate of the sandbox's own for STARTTLS, made at the start and forgotten at the end."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path

_NAME = "mx.sandbox.test"


def server_context() -> ssl.SSLContext | None:
    """Return a TLS context with a fresh self-signed certificate; None when there is no `openssl` command."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder, "key.pem"), Path(folder, "certificate.pem")
        subprocess.run(  # noqa: S603 - fixed arguments
            [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "30", "-subj", f"/CN={_NAME}", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    return context
