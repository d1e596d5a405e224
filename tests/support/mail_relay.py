"""An SMTP relay for tests: a real server on loopback that takes mail, or refuses it the way the test says."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from tests.support.connections import talking


@dataclass
class MailRelay:
    """Takes mail over SMTP.

    Attributes:
        replies: what it says to a verb instead of what it would say, e.g. {"MAIL": "451 later"}.
        refused: recipients it does not take.
        starttls: with this certificate; None = it is not offered.
        silent: it never says a word.
        mail: recipients and message of all that it took.
        verbs: what was said to it, in order, without arguments.
        logins: user and password of every AUTH.
    """

    replies: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    starttls: ssl.SSLContext | None = None
    silent: bool = False
    port: int = 0
    mail: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    verbs: list[str] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recipients: list[str] = []
        if self.silent:
            await asyncio.Event().wait()
        await self._say(writer, self.replies.get("CONNECT", "220 relay"))
        while line := (await reader.readline()).decode().strip():
            verb, _, rest = line.partition(" ")
            verb = verb.upper()
            self.verbs.append(verb)
            if verb == "RCPT":
                recipients.append(rest[len("TO:<") :].partition(">")[0])
                await self._say(writer, "550 no" if recipients[-1] in self.refused else "250 ok")
            elif verb == "STARTTLS" and self.starttls:
                await self._say(writer, "220 go")
                await writer.start_tls(self.starttls)
            elif verb == "AUTH":
                _, user, password = base64.b64decode(rest.split(" ")[1]).decode().split("\0")
                self.logins.append((user, password))
                await self._say(writer, self.replies.get("AUTH", "235 ok"))
            elif verb == "DATA" and verb not in self.replies:
                await self._say(writer, "354 go")
                body = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n")
                taken = [one for one in recipients if one not in self.refused]
                self.mail.append((taken, message_from_bytes(body, policy=policy.default)))
                await self._say(writer, "250 taken")
            else:
                await self._say(writer, self.replies.get(verb, self._usual(verb)))
            if verb == "QUIT":
                break

    def _usual(self, verb: str) -> str:
        if verb != "EHLO":
            return "221 bye" if verb == "QUIT" else "250 ok"
        offered = ["250-relay", *(["250-STARTTLS"] if self.starttls else []), "250 AUTH PLAIN"]
        return "\r\n".join(offered)

    @staticmethod
    async def _say(writer: asyncio.StreamWriter, text: str) -> None:
        writer.write(text.encode() + b"\r\n")
        await writer.drain()


@asynccontextmanager
async def relaying(
    *, tls: ssl.SSLContext | None = None, starttls: ssl.SSLContext | None = None
) -> AsyncIterator[MailRelay]:
    """Run a relay on a free port of 127.0.0.1; `tls` encrypts from the first byte."""
    relay = MailRelay(starttls=starttls)
    async with talking(relay.serve, tls=tls) as relay.port:
        yield relay
