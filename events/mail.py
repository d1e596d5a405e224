"""Hand a mail to an SMTP relay, written as a URL: in a thread, and never as clear text with a password."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Final
from urllib.parse import unquote, urlsplit

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import read_address

_PORTS: Final = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True)
class SmtpRelay:
    """An SMTP relay.

    Attributes:
        tls: encrypted from the first byte; else by STARTTLS where it is offered.
        user, password: "" = it asks for none.
    """

    host: str
    port: int
    tls: bool
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_this_machine(self) -> bool:
        """Whether nobody can listen on the way."""
        address = read_address(self.host)
        return address.is_loopback if address else self.host == "localhost"


def parse_relay(url: str) -> SmtpRelay:
    """Read smtp://[user:password@]host[:port] or smtps://...; signs of the user and password may be escaped.

    Raises:
        ValueError: it is something else; the words do not repeat it.
    """
    wrong = ValueError("expected smtp://[user:password@]host:port or smtps://...")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    known = parts.scheme in _PORTS and bool(parts.hostname) and port != 0
    if not known or parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong
    if bool(parts.username) != bool(parts.password):
        raise wrong
    return SmtpRelay(
        host=parts.hostname or "",
        port=port or _PORTS[parts.scheme],
        tls=parts.scheme == "smtps",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


class Mailer:
    """Sends our own mail.

    Args:
        timeout_s: for every step of the dialogue.
        ssl_context: whom to trust; by default whom the system trusts.
    """

    def __init__(
        self,
        relay: SmtpRelay,
        *,
        helo_name: str,
        timeout_s: float = 15.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._relay = relay
        self._helo_name = helo_name
        self._timeout_s = timeout_s
        self._ssl = ssl_context or ssl.create_default_context()

    async def send(self, message: EmailMessage) -> None:
        """Send a mail to whom it names; done when the relay has taken it for one of them at least.

        Raises:
            MailsiftError: `mail_failed`; its words hold no address.
        """
        try:
            await asyncio.to_thread(self._send, message)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            reason = f"{type(error).__name__} {getattr(error, 'smtp_code', '')}".strip()
            raise MailsiftError("mail_failed", reason, retryable=True) from None

    def _send(self, message: EmailMessage) -> None:
        smtp = self._connected()
        try:
            if self._relay.user:
                smtp.login(self._relay.user, self._relay.password)
            smtp.ehlo_or_helo_if_needed()
            encoded = message if smtp.has_extn("smtputf8") else _to_ascii_alone(message)
            smtp.send_message(encoded, to_addrs=[_in_envelope(one) for one in encoded["To"].addresses])
        finally:
            _leave(smtp)

    def _connected(self) -> smtplib.SMTP:
        relay = self._relay
        if relay.tls:
            return smtplib.SMTP_SSL(
                relay.host, relay.port, self._helo_name, timeout=self._timeout_s, context=self._ssl
            )
        smtp = smtplib.SMTP(relay.host, relay.port, self._helo_name, timeout=self._timeout_s)
        try:
            if not relay.is_this_machine:
                self._encrypt(smtp)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _encrypt(self, smtp: smtplib.SMTP) -> None:
        """Encrypt where that is offered; without it a password is not said."""
        smtp.ehlo()
        if smtp.has_extn("starttls"):
            smtp.starttls(context=self._ssl)
        elif self._relay.user:
            raise smtplib.SMTPNotSupportedError


def _leave(smtp: smtplib.SMTP) -> None:
    """End a session; whatever the relay says to that, it keeps what it has taken."""
    with suppress(OSError):  # smtplib.SMTPException is one
        smtp.quit()
    smtp.close()


def _to_ascii_alone(message: EmailMessage) -> EmailMessage:
    """Return the mail for whom a relay without SMTPUTF8 (RFC 6531) can take: else nobody got it."""
    reached = [one for one in message["To"].addresses if one.addr_spec.isascii()]
    if not reached:
        return message
    own = deepcopy(message)
    del own["To"]
    own["To"] = ", ".join(in_header(_in_envelope(one)) for one in reached)
    return own


def in_header(address: str) -> str:
    """Return an address as a header has it, and nothing in it that is taken for an encoded word.

    None stands in an address (RFC 2047, section 5). The library reads one there all the same, in quotes too,
    and takes what it decodes to for the address; in quotes a backslash before any sign is that sign.
    """
    local, _, domain = address.rpartition("@")
    if "=?" not in local:
        return address
    quoted = local if local.startswith('"') else f'"{local}"'
    return quoted.replace("=?", r"=\?") + f"@{domain}"


def _in_envelope(recipient: Address) -> str:
    """Return an address as RCPT has it; the library leaves out quotes that are there for dots alone."""
    local = recipient.username
    dots = local.startswith(".") or local.endswith(".") or ".." in local  # RFC 5321 section 4.1.2, Dot-string
    plain = recipient.addr_spec
    return f'"{local}"@{recipient.domain}' if dots and not plain.startswith('"') else plain
