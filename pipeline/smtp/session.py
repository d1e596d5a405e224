"""One SMTP conversation up to RCPT, never further: whatever ends it, the replies heard before stand."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pipeline.replies.classifier import Reply
from pipeline.replies.row import Stage
from pipeline.smtp import wire
from pipeline.smtp.config import ProbeConfig, Source
from pipeline.smtp.limits import is_session_limit
from pipeline.smtp.link import Ending, Link, SessionError, dial

TOGETHER: Final = 3
"""Up to so many real recipients go out beside their domain's random one; more wait for its answer first."""

_QUIT_WAIT: Final = 1.0
_CIVIL: Final = frozenset({Ending.DONE, Ending.REFUSED, Ending.LIMIT})
"""The endings after which the server still listens to a QUIT."""

_ACCEPTED: Final = frozenset({250, 251, 252})  # RFC 5321 section 4.3.2
_FAREWELLS: Final = frozenset({221, 421})
_HELO_ONLY: Final = frozenset({500, 502})  # RFC 5321 section 3.2: EHLO is not known here


@dataclass(frozen=True, slots=True)
class Peer:
    """Where to dial: the exchanger's name and one of its addresses."""

    host: str
    address: str


@dataclass(frozen=True, slots=True)
class Group:
    """What to ask about one domain in one session.

    Attributes:
        domain: the domain.
        probe: the random recipient to ask first, "" when it is known what becomes of those.
        addresses: the real recipients.
    """

    domain: str
    probe: str
    addresses: tuple[str, ...]

    @property
    def size(self) -> int:
        """RCPT commands at most."""
        return len(self.addresses) + bool(self.probe)


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply to RCPT and how long it took."""

    reply: Reply
    took_ms: int


@dataclass(slots=True)
class SessionLog:
    """What a session learned; filled as it goes.

    Attributes:
        answers: replies to RCPT by address, in the order asked.
        sent: RCPT commands on the wire.
        not_askable: addresses that need SMTPUTF8 at a server without it.
        stage: how far it came.
        refusal: the reply that ended it: before the first RCPT, or about the session's size.
        ending: why it ended.
    """

    answers: dict[str, Heard] = field(default_factory=dict)
    sent: int = 0
    not_askable: list[str] = field(default_factory=list)
    stage: Stage = Stage.CONNECT
    refusal: Reply | None = None
    ending: Ending = Ending.DONE


@dataclass(frozen=True, slots=True)
class _Step:
    stage: Stage
    command: bytes
    address: str = ""


class Session:
    """Asks one server about some recipients.

    Args:
        config: how to introduce ourselves and how long to wait.
        peer: where to dial; the caller has checked the address.
        source: which of our addresses to ask from.
        tls: context for STARTTLS, None to stay in the clear.
        goes_on: decides by the reply to the random recipient whether the real ones are asked.
    """

    def __init__(
        self,
        config: ProbeConfig,
        peer: Peer,
        source: Source,
        *,
        tls: ssl.SSLContext | None,
        goes_on: Callable[[str, Reply], bool],
    ) -> None:
        self.log = SessionLog()
        self._config = config
        self._peer = peer
        self._source = source
        self._tls = tls
        self._goes_on = goes_on
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._offers: frozenset[str] = frozenset()
        self._pipelining = False
        self._quit_sent = False
        self._sent_at = 0.0

    async def run(self, transactions: Sequence[Sequence[Group]], *, within: float) -> SessionLog:
        """Hold the conversation and return its log; trouble with the server is in the log, not raised.

        Args:
            transactions: what to ask, one MAIL FROM for each item, with RSET between them.
            within: seconds for everything, connecting included; saying goodbye may take one more.
        """
        try:
            self.log.ending = await self._converse(transactions, within)
            if self.log.ending in _CIVIL:
                await self._leave()
        finally:
            if self._link is not None:
                self._link.close()
        return self.log

    async def _converse(self, transactions: Sequence[Sequence[Group]], within: float) -> Ending:
        try:
            async with asyncio.timeout(within):
                await self._open()
                await self._ask(transactions)
        except TimeoutError:
            return Ending.SLOW
        except SessionError as end:
            return end.ending
        return Ending.DONE

    async def _open(self) -> None:
        await self._greet()
        if self._tls is None or "STARTTLS" not in self._offers:
            return
        try:
            await self._encrypt(self._tls)
        except SessionError as end:
            if end.ending is not Ending.DROPPED:
                raise
            self._tls = None  # a server that cannot shake hands still takes mail in the clear
            await self._greet()

    async def _greet(self) -> None:
        if self._link is not None:
            self._link.close()
        self.log.stage, config = Stage.CONNECT, self._config
        self._link = await dial(self._peer.address, config.port, self._source, within=config.connect_timeout)
        self._require(await self._hear(Stage.BANNER), Stage.BANNER)
        await self._introduce()

    async def _introduce(self) -> None:
        self._send(wire.hello("EHLO", self._source.helo_name))
        reply = await self._hear(Stage.EHLO)
        self._offers = frozenset(line.split(" ")[0].upper() for line in reply.lines[1:])
        if reply.code in _HELO_ONLY:
            self._offers = frozenset()
            self._send(wire.hello("HELO", self._source.helo_name))
            reply = await self._hear(Stage.EHLO)
        self._require(reply, Stage.EHLO)
        self._pipelining = "PIPELINING" in self._offers

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        self._send(wire.STARTTLS)
        reply = await self._hear(Stage.STARTTLS)
        if reply.code != 220 or self._link is None:
            return
        await self._link.secure(context, self._config.reply_timeout)
        await self._introduce()  # what was offered before the handshake does not count, RFC 3207 section 4.2

    async def _ask(self, transactions: Sequence[Sequence[Group]]) -> None:
        """Ask what waits for no answer, then what does: two pipelined groups (RFC 2920 section 3.1)."""
        rounds = [found for found in map(self._rounds, transactions) if found[0]]
        steps: list[_Step] = []
        for first, later in rounds:
            recipients = (*first, *(address for _, asked in later for address in asked))
            steps += [*self._begin(recipients, again=bool(steps)), *map(_rcpt, first)]
        await self._play(steps, final=not any(later for _, later in rounds))
        steps = []  # the last transaction is still open
        for place, (_, later) in enumerate(reversed(rounds)):
            wanted = [address for probe, asked in later if self._admits(probe) for address in asked]
            if wanted:
                steps += [*(self._begin(wanted, again=True) if place else ()), *map(_rcpt, wanted)]
        await self._play(steps, final=True)

    def _begin(self, recipients: Sequence[str], *, again: bool) -> list[_Step]:
        """Return the commands before the recipients of a transaction."""
        mail = wire.mail_from(self._config.mail_from, utf8=not all(map(str.isascii, recipients)))
        return [_Step(Stage.MAIL, command) for command in ((wire.RSET, mail) if again else (mail,))]

    def _rounds(self, groups: Sequence[Group]) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Return what to ask at once, and what only after its random recipient has been answered."""
        first: list[str] = []
        later: list[tuple[str, list[str]]] = []
        for group in groups:
            asked = self._askable(group.addresses)
            if group.probe and (asked or not group.addresses):
                first.append(group.probe)
            if group.probe and (len(asked) > TOGETHER or not self._pipelining):
                later.append((group.probe, asked))
            else:
                first += asked
        return first, later

    def _askable(self, addresses: Sequence[str]) -> list[str]:
        if "SMTPUTF8" in self._offers:
            return list(addresses)
        self.log.not_askable += [address for address in addresses if not address.isascii()]
        return [address for address in addresses if address.isascii()]

    def _admits(self, probe: str) -> bool:
        heard = self.log.answers.get(probe)
        return heard is not None and self._goes_on(probe, heard.reply)

    async def _play(self, steps: Sequence[_Step], *, final: bool) -> None:
        """Send commands and note their replies; RFC 2920 lets QUIT end the last pipelined group."""
        if not steps:
            return
        if not self._pipelining:
            for step in steps:
                self._send(step.command, recipients=bool(step.address))
                self._note(step, await self._hear(step.stage))
            return
        self._quit_sent = final
        commands = b"".join(step.command for step in steps) + (wire.QUIT if final else b"")
        self._send(commands, recipients=sum(1 for step in steps if step.address))
        for step in steps:
            self._note(step, await self._hear(step.stage))

    def _note(self, step: _Step, heard: wire.WireReply) -> None:
        if not step.address:
            self._require(heard, step.stage)
            return
        if heard.code < 400 and heard.code not in _ACCEPTED:
            self.log.answers.clear()  # a reply is missing: whose was which?
            raise SessionError(Ending.DROPPED)
        reply = Reply(Stage.RCPT, heard.code, heard.enhanced, heard.text)
        limit = heard.code >= 400 and is_session_limit(reply)
        if heard.code != 421 or not limit:
            self.log.answers[step.address] = Heard(reply, int((self._loop.time() - self._sent_at) * 1000))
        if limit and (heard.code == 421 or not self._pipelining):
            self.log.refusal = reply
            raise SessionError(Ending.LIMIT)
        if heard.code == 421:  # RFC 5321 section 4.2.2: the server is about to hang up
            raise SessionError(Ending.DROPPED)

    def _require(self, reply: wire.WireReply, stage: Stage) -> None:
        if not 200 <= reply.code <= 299:
            self.log.refusal = Reply(stage, reply.code, reply.enhanced, reply.text)
            raise SessionError(Ending.REFUSED)

    def _send(self, data: bytes, *, recipients: int = 0) -> None:
        if self._link is not None:
            if self._link.unread:  # replies to nothing would pass for replies to this
                raise SessionError(Ending.DROPPED)
            self._link.send(data)
        self.log.sent += recipients
        self._sent_at = self._loop.time()

    async def _hear(self, stage: Stage) -> wire.WireReply:
        self.log.stage = stage
        if self._link is None:
            raise SessionError(Ending.UNREACHED)
        return await self._link.reply(self._config.reply_timeout)

    async def _leave(self) -> None:
        """Say QUIT and let the server hang up first, so that it never counts us twice; not for long."""
        with suppress(SessionError, TimeoutError):
            if not self._quit_sent:
                self._send(wire.QUIT)
            async with asyncio.timeout(_QUIT_WAIT):
                while self._link and (await self._link.reply(_QUIT_WAIT)).code not in _FAREWELLS:
                    pass


def _rcpt(address: str) -> _Step:
    return _Step(Stage.RCPT, wire.rcpt_to(address), address)
