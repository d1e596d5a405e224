"""One way of a browser to a sign-in provider and back: without the libraries that read what it says."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """One way to the provider and back; all of it comes from a secret that only this browser holds."""

    secret: bytes = field(repr=False)

    def _derived_secret(self, purpose: str) -> str:
        return base64url(hmac.digest(self.secret, purpose.encode(), "sha256"))

    @property
    def state(self) -> str:
        """What ties the way back to this browser (RFC 6749, section 10.12)."""
        return self._derived_secret("state")

    @property
    def nonce(self) -> str:
        """What ties the ID token to this attempt."""
        return self._derived_secret("nonce")

    @property
    def verifier(self) -> str:
        """What ties the code to this attempt (RFC 7636)."""
        return self._derived_secret("verifier")


def base64url(data: bytes) -> str:
    """Write bytes as JOSE does, without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
