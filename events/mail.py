"""Hand a mail to the relay: in a thread, and never as clear text with a password."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage

from events.relay import Relay
from pipeline.errors import MailsiftError


class Mailer:
    """Sends our own mail.

    Args:
        relay: where it goes.
        helo_name: the name we greet it with.
        timeout_s: for every step of the dialogue.
        ssl_context: whom to trust; by default whom the system trusts.
    """

    def __init__(
        self,
        relay: Relay,
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
            told = f"{type(error).__name__} {getattr(error, 'smtp_code', '')}".strip()
            raise MailsiftError("mail_failed", told, retryable=True) from None

    def _send(self, message: EmailMessage) -> None:
        with self._connected() as smtp:
            if self._relay.user:
                smtp.login(self._relay.user, self._relay.password)
            smtp.send_message(message)

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
