"""One SMTP conversation up to RCPT, never further; its answers count where each is certainly its own.

A connection brings bytes out and whole replies in, everything bounded; the session on it asks.

SMTP replies carry nothing that says which command they answer: they are counted. One too many or one too few
gives every later answer to the wrong mailbox. So all answers of a session are dropped unless QUIT, the last
command, got 221 as the last reply, every stage got a code it can have, and no reply names another mailbox
of the session. Where that fails the mailboxes are asked again singly: one in a session, every command after
a moment of silence.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from math import inf
from typing import Final, TypeAlias, cast

from python_socks import ProxyError
from python_socks.async_.asyncio import Proxy
from typing_extensions import override

from mailsift.pipeline.clock import FairTimeout
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.probe import wire
from mailsift.pipeline.probe.config import ProbeConfig, Source
from mailsift.pipeline.replies.classifier import SmtpReply, classify
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.throttle import Allowance


class Ending(StrEnum):
    """Why a session ended."""

    DONE = "done"
    UNREACHED = "unreached"  # no connection
    REFUSED = "refused"  # a refusal before the first RCPT
    LIMIT = "limit"  # the server takes no more recipients in this session
    DROPPED = "dropped"  # the server hung up, said 421 or talked nonsense
    SLOW = "slow"  # a deadline passed
    UNTIED = "untied"  # which reply belongs to which command is not certain


class SessionError(MailsiftError):
    """The session cannot go on."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(f"session_{ending}", "the SMTP session ended early", retryable=True)
        self.ending = ending


# The connection: bytes out, whole replies in.

TlsContext: TypeAlias = ssl.SSLContext
"""What encrypts connections."""

_MAX_UNREAD: Final = 1024
"""Unrequested replies that are kept; more is a flood."""

_LONGEST_HANDSHAKE: Final = 300.0
"""Seconds by the plain clock; the fair one ends a handshake long before that."""


class SmtpConnection(asyncio.Protocol):
    """The connection; open one with `dial`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = wire.ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: SessionError | None = None
        self._spoke_no_smtp = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except MailsiftError:
            self._spoke_no_smtp = True
        if self._spoke_no_smtp or len(self._parser.replies) > _MAX_UNREAD:
            self._fail(Ending.DROPPED)
            self.close()
        if self._parser.replies:
            self._wake()

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        self._fail(Ending.DROPPED)

    @property
    def is_quiet(self) -> bool:
        """Whether the server has sent nothing but the replies that were read."""
        return self._parser.is_idle and not self._spoke_no_smtp

    def send(self, data: bytes) -> None:
        """Queue bytes for the server; a lost connection shows at the next reply."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def reply(self, within: float) -> wire.WireReply:
        """Return the next reply.

        Args:
            within: seconds for the whole reply, however its bytes trickle in.

        Raises:
            SessionError: DROPPED, or SLOW when the time is over.
        """
        replies = self._parser.replies
        if not replies:
            await self._wait_for_reply(within)
        return replies.popleft()

    async def start_tls(self, context: TlsContext, within: float) -> None:
        """Encrypt the connection (RFC 3207).

        Raises:
            SessionError: UNTIED when something was slipped in behind the server's last reply (section 6 of
                the RFC), DROPPED when the handshake fails.
        """
        if not self.is_quiet:
            raise SessionError(Ending.UNTIED)
        self._parser = wire.ReplyParser()
        transport = self._transport
        if transport is None or self._error is not None:
            raise SessionError(Ending.DROPPED)
        try:
            async with FairTimeout(within):
                self._transport = await self._loop.start_tls(
                    transport,
                    self,
                    context,
                    ssl_handshake_timeout=_LONGEST_HANDSHAKE,
                    ssl_shutdown_timeout=within,
                )
        except OSError:  # ssl.SSLError and timeouts are among them
            raise SessionError(Ending.DROPPED) from None

    def close(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _wait_for_reply(self, within: float) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            async with FairTimeout(within):
                await self._waiter
        except TimeoutError:
            raise SessionError(Ending.SLOW) from None
        finally:
            self._waiter = None

    def _fail(self, ending: Ending) -> None:
        if self._error is None:
            self._error = SessionError(ending)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._parser.replies:
            waiter.set_result(None)
        elif self._error is not None:
            waiter.set_exception(self._error)


async def dial(address: str, port: int, source: Source, *, within: float) -> SmtpConnection:
    """Open a connection to an IP address that has already been checked.

    Args:
        address: the destination; never a name, so nobody resolves it a second time.
        port: TCP port.
        source: our own address or proxy.
        within: seconds for everything.

    Raises:
        SessionError: UNREACHED.
    """
    loop = asyncio.get_running_loop()
    try:
        async with FairTimeout(within):
            if source.proxy:
                sock = await Proxy.from_url(source.proxy).connect(dest_host=address, dest_port=port)
                _, connection = await loop.create_connection(SmtpConnection, sock=sock)
            else:
                local = (source.bind, 0) if source.bind else None
                _, connection = await loop.create_connection(SmtpConnection, address, port, local_addr=local)
    except (OSError, ProxyError):  # a passed deadline is an OSError too
        raise SessionError(Ending.UNREACHED) from None
    return connection


# What is asked in a conversation, and what came of it.


@dataclass(frozen=True, slots=True)
class Peer:
    """Where to dial: the exchanger's name, one of its addresses, and its preference."""

    host: str
    address: str
    preference: int = 0


@dataclass(frozen=True, slots=True)
class DomainRecipients:
    """What to ask about one domain in one session.

    Attributes:
        random: the random recipient to ask first, "" when it is known what becomes of those.
        confirm: a random recipient to ask at the end if all real ones were accepted, "" for none: has what is
            known of those changed?
    """

    domain: str
    random: str
    addresses: tuple[str, ...]
    confirm: str = ""

    @property
    def randoms(self) -> tuple[str, ...]:
        """The random recipients that are there."""
        return tuple(filter(None, (self.random, self.confirm)))

    @property
    def size(self) -> int:
        """RCPT commands at most."""
        return len(self.addresses) + bool(self.random or self.confirm)


@dataclass(frozen=True, slots=True)
class TimedReply:
    """A reply to RCPT and how long it took."""

    reply: SmtpReply
    took_ms: int


@dataclass(slots=True)
class SessionLog:
    """What a session learned; filled as it goes.

    Attributes:
        answers: replies to RCPT by address, in the order asked.
        sent: RCPT commands on the wire.
        not_askable: addresses that need SMTPUTF8 at a server without it.
        stage: how far it came.
        refusal: the reply that ended it: before the first RCPT, about the session's size, or a 421.
        answered: RCPT commands that something came back for, whether or not it could be believed.
        taken: those of them whose reply was not about the session's size.
        disbelieved: the replies by address of a session whose answers do not count.
        witness, witness_reply: the mailbox that was asked again at the end, and what came this time.
        banner: code and text of the server's greeting, "" when none came.
        is_half_answered: of commands that were sent together only the first ones had a reply in time.
    """

    answers: dict[str, TimedReply] = field(default_factory=dict)
    sent: int = 0
    not_askable: list[str] = field(default_factory=list)
    stage: Stage = Stage.CONNECT
    refusal: SmtpReply | None = None
    ending: Ending = Ending.DONE
    answered: int = 0
    taken: int = 0
    disbelieved: dict[str, TimedReply] = field(default_factory=dict)
    witness: str = ""
    witness_reply: SmtpReply | None = None
    banner: str = ""
    is_half_answered: bool = False


PickWitness = Callable[[Mapping[str, TimedReply]], str]

# The conversation.

MAX_BESIDE_RANDOM: Final = 3
"""Up to so many real recipients go out beside their domain's random one; more wait for its answer first."""

_ACCEPTED: Final = frozenset({250, 251})
_MIN_TURNED: Final = 4  # refused before, and accepted at the end, that look like a server taking anybody
_QUIT_WAIT: Final = 1.75
_QUIT_PATIENCE: Final = 3.0
"""The reply to QUIT is waited for these seconds, or so many times the slowest reply of the session.

A second is too short: Postfix holds it back for one where there were errors (smtpd_error_sleep_time), and a
session without it counts for nothing.
"""

_STILL_LISTENS: Final = frozenset({Ending.DONE, Ending.REFUSED, Ending.LIMIT})
"""The endings after which the server still listens to a QUIT."""

_POSITIVE: Final = {
    Stage.BANNER: frozenset({220}),
    Stage.EHLO: frozenset({250}),
    Stage.STARTTLS: frozenset({220}),
    Stage.MAIL: frozenset({250}),
    Stage.RCPT: frozenset({250, 251, 252}),
}
"""The codes below 400 that a stage can be answered with (RFC 5321 section 4.3.2, RFC 3207)."""

_GOODBYE: Final = 221
_NO_GOODBYE: Final = frozenset({0, 421})
"""Instead of 221 to QUIT: hung up or silent, and shutting down."""

_ALLOWANCE_SECONDS: Final = 25.0
"""For so long what was known when a session began counts; who asks it slowly asks the rest in another one."""

_ADDRESS: Final = re.compile(
    r"(?<![^\s<>()\[\],;:\"'])(?<!\w')"  # whole words, so that a long one is read once
    r"(?:[^\s<>()\[\],;:\"']|(?<=\w)'(?=\w))+@[\w.-]*\w"
)
_BAD_PARAMETER: Final = frozenset({501, 504, 555})  # RFC 5321 section 4.2.2: of MAIL
_NO_UTF8: Final = frozenset({"5.5.4", "5.6.7"})  # RFC 3463: invalid arguments; RFC 6531: no such addresses
_HELO_ONLY: Final = frozenset({500, 502})  # RFC 5321 section 3.2: EHLO is not known here


@dataclass(frozen=True, slots=True)
class _Command:
    stage: Stage
    line: bytes
    address: str = ""
    is_witness: bool = False
    only_if_accepted: bool = False  # anything else is no news
    utf8: bool = False  # a MAIL that asks for SMTPUTF8


class ProbeSession:
    """Asks one server about some recipients.

    Args:
        config: how to introduce ourselves and how long to wait.
        peer: where to dial; the caller has checked the address.
        source: which of our addresses to ask from.
        tls: context for STARTTLS, None to stay in the clear.
        is_worth_asking: decides by the reply to the random recipient whether the real ones are asked.
        singly: the session has one recipient, and is held with a silence before every command.
        pick_witness: names the mailbox to ask again at the end, "" for none, by the answers to all others;
            None where there will be none.
        allowance: how many recipients may be sent at a time; None: all. The rest is left unasked.
        has_witness: a recipient was accepted in an earlier session, which `pick_witness` may name.
        until: time of the event loop from which on no recipient is asked for any more, whatever held us up.
        one_transaction: the server takes no second MAIL: who is asked last is asked in the open transaction.
    """

    def __init__(  # noqa: PLR0913 - whom to ask, from where, and what decides on the way
        self,
        config: ProbeConfig,
        peer: Peer,
        source: Source,
        *,
        tls: TlsContext | None,
        is_worth_asking: Callable[[str, SmtpReply], bool],
        singly: bool,
        pick_witness: PickWitness | None = None,
        allowance: Allowance | None = None,
        has_witness: bool = False,
        until: float = inf,
        one_transaction: bool = False,
    ) -> None:
        self.log = SessionLog()
        self._config = config
        self._peer = peer
        self._source = source
        self._tls = tls
        self._is_worth_asking = is_worth_asking
        self._singly = singly
        self._pick_witness = pick_witness
        self._loop = asyncio.get_running_loop()
        self._connection: SmtpConnection | None = None
        self._extensions: frozenset[str] = frozenset()
        self._pipelining = False
        self._quit_sent = False
        self._sent_at = 0.0
        self._outstanding = 0  # commands without a reply
        self._slowest_reply = 0.0
        self._asked: frozenset[str] = frozenset()
        self._randoms: frozenset[str] = frozenset()
        self._allowance = allowance
        self._has_witness = has_witness
        self._until = until
        self._one_transaction = one_transaction
        self._plain_is_open = False
        self._utf8_refused = False
        self._allowance_until = self._loop.time() + _ALLOWANCE_SECONDS

    async def run(self, transactions: Sequence[Sequence[DomainRecipients]], *, within: float) -> SessionLog:
        """Hold the conversation and return its log; trouble with the server is in the log, not raised.

        Args:
            transactions: the domains of one MAIL FROM for each item, with RSET between them.
            within: seconds for everything, connecting included; saying goodbye may take a little more.
        """
        groups = list(chain.from_iterable(transactions))
        self._randoms = frozenset(random for group in groups for random in group.randoms)
        real = frozenset(address for group in groups for address in group.addresses)
        self._asked = frozenset(map(str.lower, self._randoms | real))
        try:
            self.log.ending = await self._converse(transactions, within)
            if not await self._is_tied():
                self._discard_answers()
        finally:
            if self._connection is not None:
                self._connection.close()
        return self.log

    def _discard_answers(self) -> None:
        """Believe none of the answers; a session that seemed to end well did not."""
        if self.log.answers and self.log.ending in {Ending.DONE, Ending.REFUSED}:
            self.log.ending = Ending.UNTIED
        self.log.disbelieved, self.log.answers = self.log.answers, {}

    async def _is_tied(self) -> bool:
        """Send QUIT; returns whether every reply was certainly the one to its command."""
        if self.log.ending is Ending.UNTIED:
            return False
        code = await self._quit() if self.log.ending in _STILL_LISTENS else 0
        quiet = self._connection is not None and self._connection.is_quiet
        return quiet and (code == _GOODBYE or (self._singly and code in _NO_GOODBYE))

    async def _converse(self, transactions: Sequence[Sequence[DomainRecipients]], within: float) -> Ending:
        try:
            async with FairTimeout(within):
                await self._connect_and_encrypt()
                await self._send_recipients(transactions)
        except TimeoutError:
            self.log.is_half_answered = False  # the time of the session is over, not that of a reply
            return Ending.SLOW
        except SessionError as end:
            self.log.is_half_answered &= end.ending is Ending.SLOW
            return end.ending
        return Ending.DONE

    async def _connect_and_encrypt(self) -> None:
        await self._connect()
        if self._tls is None or "STARTTLS" not in self._extensions:
            return
        try:
            await self._encrypt(self._tls)
        except SessionError as end:
            if end.ending not in {Ending.DROPPED, Ending.UNTIED}:
                raise
            self._tls = None  # who cannot shake hands still takes mail in the clear: a new connection
            await self._connect()

    async def _connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._outstanding = 1  # the banner
        self.log.stage, config = Stage.CONNECT, self._config
        self._connection = await dial(
            self._peer.address, config.port, self._source, within=config.connect_timeout
        )
        banner = await self._read_reply(Stage.BANNER)
        self.log.banner = f"{banner.code} {banner.text}"
        self._require_success(banner, Stage.BANNER)
        await self._say_hello()

    async def _say_hello(self) -> None:
        await self._send(wire.hello("EHLO", self._source.helo_name))
        reply = await self._read_reply(Stage.EHLO)
        self._extensions = frozenset(line.split(" ")[0].upper() for line in reply.lines[1:])
        if reply.code in _HELO_ONLY:
            self._extensions = frozenset()
            await self._send(wire.hello("HELO", self._source.helo_name))
            reply = await self._read_reply(Stage.EHLO)
        self._require_success(reply, Stage.EHLO)
        self._pipelining = "PIPELINING" in self._extensions and not self._singly

    async def _encrypt(self, context: TlsContext) -> None:
        await self._send(wire.STARTTLS)
        reply = await self._read_reply(Stage.STARTTLS)
        if reply.code == 421:  # RFC 5321 section 4.2.2: the server is about to hang up
            raise SessionError(Ending.DROPPED)
        if reply.code != 220 or self._connection is None:
            return
        await self._connection.start_tls(context, self._config.reply_timeout)
        await self._say_hello()  # what was offered before the handshake does not count, RFC 3207 section 4.2

    async def _send_recipients(self, transactions: Sequence[Sequence[DomainRecipients]]) -> None:
        """Ask what waits for no answer, then what does: two pipelined groups (RFC 2920 section 3.1)."""
        parts = [part for part in map(self._split_by_random, transactions) if part[0]]
        commands: list[_Command] = []
        for first, _ in parts:
            commands += self._transaction([*map(_rcpt, first)], reset=bool(commands))
        groups = list(chain.from_iterable(transactions))
        final = self._pick_witness is None and not any(group.confirm for group in groups)
        await self._exchange(commands, final=final and not any(later for _, later in parts))
        is_open, commands = self._plain_is_open, []
        for _, later in reversed(parts):
            allowed = [_rcpt(one) for random, asked in later if self._random_allows(random) for one in asked]
            commands += self._transaction(allowed, reset=True, is_open=is_open)
            is_open = False
        await self._exchange(commands, final=final)
        await self._send_last_recipients(groups)

    async def _send_last_recipients(self, groups: Sequence[DomainRecipients]) -> None:
        """Ask a random recipient where all were accepted, and again a recipient who had been accepted.

        Is the domain still no catch-all, and does the server still know its own after so many others? One
        that was refused is asked again where nobody was refused any more after many had been.
        """
        turned = [group for group in groups if self._may_accept_all_now(group)]
        confirmed = [group for group in groups if group in turned or self._accepted_all(group)]
        recipients = [_rcpt(group.confirm) for group in confirmed if group.confirm]
        recipients += [
            replace(_rcpt(group.random), only_if_accepted=True) for group in turned if group.random
        ]
        witness = self._pick_witness(self.log.answers) if self._pick_witness else ""
        self._pick_witness = None  # nobody is kept back for one any more
        if witness:
            self.log.witness = witness
            recipients.append(_Command(Stage.RCPT, wire.rcpt_to(witness), witness, is_witness=True))
        is_open = self._one_transaction and self._plain_is_open
        commands: list[_Command] = []
        for recipient in recipients:
            commands += self._transaction([recipient], reset=True, is_open=is_open)
        await self._exchange(commands, final=True)

    def _accepted_all(self, group: DomainRecipients) -> bool:
        """Tell whether of those that were asked some were accepted and the others only put off."""
        asked = [address for address in group.addresses if address not in self.log.not_askable]
        replies = [self.log.answers[address].reply for address in asked if address in self.log.answers]
        accepted = [reply.code in _ACCEPTED for reply in replies]
        put_off = [400 <= reply.code < 500 and not is_session_limit(reply) for reply in replies]
        return any(accepted) and sum(accepted) + sum(put_off) == len(asked)

    def _may_accept_all_now(self, group: DomainRecipients) -> bool:
        """Tell whether the last ones were all accepted after many had been refused."""
        answers = [self.log.answers.get(address) for address in group.addresses]
        codes = [answer.reply.code for answer in answers if answer is not None]
        accepted = [code in _ACCEPTED for code in codes]
        refused = sum(1 for code in codes if code >= 500)
        return refused >= _MIN_TURNED and all(accepted[-_MIN_TURNED:])

    def _transaction(
        self, recipients: Sequence[_Command], *, reset: bool, is_open: bool = False
    ) -> list[_Command]:
        """Return the commands that ask for recipients; those beyond ASCII have a transaction of their own.

        One that needs SMTPUTF8 may be refused as a whole, which says nothing of the others.

        Args:
            recipients: the RCPT commands.
            reset: another transaction has gone before.
            is_open: that one is for plain recipients and takes more of them.
        """
        commands: list[_Command] = []
        for utf8 in (False, True):
            asked = [recipient for recipient in recipients if recipient.address.isascii() is not utf8]
            if asked and not (is_open and not utf8):
                mail = _Command(Stage.MAIL, wire.mail_from(self._config.mail_from, utf8=utf8), utf8=utf8)
                commands += [_Command(Stage.MAIL, wire.RSET), mail] if reset or commands else [mail]
            commands += asked
        return commands

    def _split_by_random(
        self, groups: Sequence[DomainRecipients]
    ) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Return what to ask at once, and what only after its random recipient has been answered."""
        first: list[str] = []
        later: list[tuple[str, list[str]]] = []
        for group in groups:
            askable = self._askable(group.addresses)
            if group.random and (askable or not group.addresses):
                first.append(group.random)
            if group.random and (len(askable) > MAX_BESIDE_RANDOM or not self._pipelining):
                later.append((group.random, askable))
            else:
                first += askable
        return first, later

    def _askable(self, addresses: Sequence[str]) -> list[str]:
        if "SMTPUTF8" in self._extensions:
            return list(addresses)
        self.log.not_askable += [address for address in addresses if not address.isascii()]
        return [address for address in addresses if address.isascii()]

    def _random_allows(self, random: str) -> bool:
        answer = self.log.answers.get(random)
        return answer is not None and self._is_worth_asking(random, answer.reply)

    async def _exchange(self, commands: Sequence[_Command], *, final: bool) -> None:
        """Send commands and record their replies, as many at a time as are allowed; the rest is not sent.

        One recipient is kept back for a witness that is still to be picked.
        """
        while self._allowance is not None and commands:
            batch = _prefix(commands, self._may_send(self._allowance))
            if not any(command.address for command in batch):
                return
            await self._exchange_all(batch, final=final and len(batch) == len(commands))
            commands = commands[len(batch) :]
        await self._exchange_all(commands, final=final)

    def _may_send(self, allowance: Allowance) -> int:
        """Return how many recipients may be sent now; the first one of a session always."""
        if not self.log.sent:
            return max(1, *allowance)
        if self._loop.time() >= self._allowance_until:
            return 0
        accepted = any(answer.reply.code in _ACCEPTED for answer in self.log.answers.values())
        reserved = self._pick_witness is not None and (self._has_witness or accepted)
        return max(allowance) - reserved

    async def _exchange_all(self, commands: Sequence[_Command], *, final: bool) -> None:
        """Do so at once; RFC 2920 lets QUIT end the last pipelined group."""
        if not commands:
            return
        if not self._pipelining:
            for command in commands:
                await self._send(command.line, recipients=bool(command.address))
                self._record(command, await self._read_reply(command.stage))
            return
        self._quit_sent = final
        lines = b"".join(command.line for command in commands) + (wire.QUIT if final else b"")
        recipients = sum(1 for command in commands if command.address)
        await self._send(lines, commands=len(commands) + final, recipients=recipients)
        for number, command in enumerate(commands):
            self.log.is_half_answered = number > 0
            self._record(command, await self._read_reply(command.stage))
        self.log.is_half_answered = False

    def _record(self, command: _Command, answer: wire.WireReply) -> None:
        if not command.address:
            self._plain_is_open = not command.utf8
            self._utf8_refused = command.utf8 and self._refuses_utf8(answer)
            if not self._utf8_refused:
                self._require_success(answer, command.stage)
        elif self._quotes_another(command.address, answer.text):
            raise SessionError(Ending.UNTIED)
        elif self._utf8_refused:  # this is the reply to a RCPT without MAIL
            self.log.not_askable.append(command.address)
        else:
            self._record_recipient(command, answer)

    def _record_recipient(self, command: _Command, answer: wire.WireReply) -> None:
        reply = SmtpReply(Stage.RCPT, answer.code, answer.enhanced, answer.text)
        self._update_allowance(command.address, answer.code)
        if command.only_if_accepted and answer.code not in _ACCEPTED:
            return
        if command.is_witness:
            self.log.witness_reply = reply
            return
        limit = is_session_limit(reply)
        if answer.code != 421 or not limit:
            took_ms = int((self._loop.time() - self._sent_at) * 1000)
            self.log.answers[command.address] = TimedReply(reply, took_ms)
            self.log.answered += 1
            self.log.taken += not limit
        if limit and (answer.code == 421 or not self._pipelining):
            self.log.refusal = reply
            raise SessionError(Ending.LIMIT)
        if answer.code == 421:  # RFC 5321 section 4.2.2: the server is about to hang up
            self.log.refusal = reply
            raise SessionError(Ending.DROPPED)

    def _refuses_utf8(self, answer: wire.WireReply) -> bool:
        """Tell whether a refusal of MAIL with SMTPUTF8 is of that alone: it says so, or took a plain one."""
        took_plain = any(map(str.isascii, self.log.answers))
        return answer.code >= 500 and (
            took_plain or answer.code in _BAD_PARAMETER or answer.enhanced in _NO_UTF8
        )

    def _update_allowance(self, address: str, code: int) -> None:
        """Remember what may be sent now, where unknown recipients are counted; a random one always is."""
        if self._allowance is not None:
            unknown, surplus = self._allowance
            is_unknown = code >= 500 or address in self._randoms
            self._allowance = (
                Allowance(unknown - 1, surplus - 1) if is_unknown else Allowance(unknown, surplus + 1)
            )

    def _quotes_another(self, address: str, text: str) -> bool:
        """Tell whether a reply quotes another recipient of the session instead of its own."""
        if "@" not in text:
            return False
        own, quoted = address.lower(), {found.lower() for found in _ADDRESS.findall(text)}
        is_own = own in quoted or (_ADDRESS.fullmatch(own) is None and own in text.lower())
        return not is_own and not self._asked.isdisjoint(quoted)

    def _require_success(self, reply: wire.WireReply, stage: Stage) -> None:
        if not 200 <= reply.code <= 299:
            self.log.refusal = SmtpReply(stage, reply.code, reply.enhanced, reply.text)
            raise SessionError(Ending.REFUSED)

    async def _send(self, data: bytes, *, commands: int = 1, recipients: int = 0) -> None:
        if self._connection is not None:
            if self._singly:
                await asyncio.sleep(self._config.settle_seconds)
            if not self._connection.is_quiet:  # a reply to nothing would pass for the reply to this
                raise SessionError(Ending.UNTIED)
            if recipients and self._loop.time() >= self._until:  # held up, or a process that got no turn
                raise SessionError(Ending.SLOW)
            self._connection.send(data)
        self._outstanding += commands
        self.log.sent += recipients
        self._sent_at = self._loop.time()

    async def _read_reply(self, stage: Stage) -> wire.WireReply:
        self.log.stage = stage
        reply = await self._next_reply(self._config.reply_timeout)
        if reply.code < 400 and reply.code not in _POSITIVE[stage]:
            raise SessionError(Ending.UNTIED)
        return reply

    async def _next_reply(self, within: float) -> wire.WireReply:
        if self._connection is None:
            raise SessionError(Ending.UNREACHED)
        asked_at = self._loop.time()
        reply = await self._connection.reply(within)
        self._slowest_reply = max(self._slowest_reply, self._loop.time() - asked_at)
        self._outstanding -= 1
        return reply

    async def _quit(self) -> int:
        """Say QUIT and let the server hang up first, so that it never counts us twice; not for long.

        Returns:
            The code of the reply to QUIT, 0 when there was none, -1 when a reply came before QUIT was sent.
        """
        timeout = max(_QUIT_WAIT, _QUIT_PATIENCE * self._slowest_reply)
        try:
            async with FairTimeout(min(timeout, max(_QUIT_WAIT, self._config.reply_timeout))):
                # A refusal ends the session with other commands still on the way.
                while self._outstanding > self._quit_sent:
                    await self._next_reply(timeout)
                if not self._quit_sent:
                    await self._send(wire.QUIT)
                return (await self._next_reply(timeout)).code
        except TimeoutError:
            return 0
        except SessionError as end:
            return -1 if end.ending is Ending.UNTIED else 0


def _prefix(commands: Sequence[_Command], recipients: int) -> Sequence[_Command]:
    """Return the first steps, up to the last one before there are more than so many recipients."""
    for index, command in enumerate(commands):
        if command.address:
            recipients -= 1
        if recipients < 0:
            return commands[:index]
    return commands


def _rcpt(address: str) -> _Command:
    return _Command(Stage.RCPT, wire.rcpt_to(address), address)


# What a reply says of the session.


def wants_one_domain(reply: SmtpReply) -> bool:
    """Tell whether the reply asks for a transaction of its own for every domain."""
    return 400 <= reply.code <= 499 and _ONE_DOMAIN.search(reply.text) is not None


# "451 4.3.0 Multiple destination domains per transaction is unsupported."
_ONE_DOMAIN: Final = re.compile(r"\bmultiple (?:\w+ )?domains\b", re.IGNORECASE)


def is_session_limit(reply: SmtpReply) -> bool:
    """Tell whether the reply to RCPT is about this session's size, not about the recipient.

    RFC 5321 section 4.5.3.1.10 and RFC 3463 (x.5.3) for the number of recipients: 452, and 552 as RFC 821 had
    it. "Too many messages" may be those in the mailbox. That only one recipient is taken, as of the null
    sender, is said with any code: a bounce has one (RFC 5321 section 6.1).
    """
    if reply.code >= 400 and _ONLY_ONE.search(reply.text):
        return True
    if not 400 <= reply.code <= 499 and reply.code != _TOO_MANY_IN_RFC_821:
        return False
    if reply.enhanced in _TOO_MANY or wants_one_domain(reply):
        return True
    return _LIMIT.search(reply.text) is not None and classify(reply).answer is not Answer.FULL


# "452 4.5.3 Too many recipients", "421 4.7.0 too many errors", "421 Too many messages in this session"
_LIMIT: Final = re.compile(
    r"\btoo many (?:\w+ )?"
    r"(?:recipients?|rcpts?|addresses|messages|mails?|errors|invalid|unknown|bad|commands)\b"
    r"|\b(?:recipients?|rcpts?|messages?) (?:limit|per (?:session|connection|message|transaction))"
    r"|\bmax(?:imum)?\.? (?:number of )?(?:recipients?|rcpts?)",
    re.IGNORECASE,
)
_ONLY_ONE: Final = re.compile(
    r"\b(?:only|exactly|just|than|at most)(?: \w+)?(?: a)? (?:one|single|1) (?:recipient|rcpt)\b"
    r"|\b(?:one|single|1) (?:recipient|rcpt) (?:only|at a time|per|(?:is )?allowed)\b"
    r"|\b(?:bounces?|null senders?)\b.{0,40}\b(?:too many|several|multiple) (?:recipient|rcpt)s\b",
    re.IGNORECASE,
)
_TOO_MANY: Final = frozenset({"4.5.3", "5.5.3"})
_TOO_MANY_IN_RFC_821: Final = 552
