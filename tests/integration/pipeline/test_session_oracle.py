"""Many sessions with servers that say too much, too little or the wrong thing: whose answer was it?

Every reply to RCPT holds a token of its own, so the oracle knows which mailbox an answer that was kept
belongs to. A server that answers one command twice, another one not at all, and says a proper goodbye is
left out: nothing tells it from an honest one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mailsift.pipeline.probe.session import DomainRecipients, SessionLog
from tests.support.connections import talking
from tests.unit.pipeline.smtp_talk import talk

SESSIONS = 700
AT_A_TIME = 120
PEOPLE = tuple(f"{name}@a.test" for name in ("ann", "bob", "eve", "joe", "kim"))
PROBE = "random@a.test"

Fault = Callable[[bytes, int], bytes | None]
"""From a reply and how far it is behind the place of the fault to what is sent; None hangs up."""


def _twice_and_hung_up(reply: bytes, behind: int) -> bytes | None:
    return None if behind >= 0 else reply * 2 if behind == -1 else reply


def _shut_down(reply: bytes, behind: int) -> bytes | None:
    return None if behind > 0 else b"421 4.3.2 shutting down\r\n" if behind == 0 else reply


def _hung_up(reply: bytes, behind: int) -> bytes | None:
    return None if behind >= 0 else reply


def _here(change: Callable[[bytes], bytes]) -> Fault:
    return lambda reply, behind: change(reply) if behind == 0 else reply


FAULTS: dict[str, Fault] = {
    "honest": lambda reply, _: reply,
    "twice": _here(lambda reply: reply * 2),
    "missing": _here(lambda _: b""),
    "hung up": _hung_up,
    "twice and hung up": _twice_and_hung_up,
    "unasked 250": _here(lambda reply: reply + b"250 2.1.5 Ok\r\n"),
    "unasked 550": _here(lambda reply: b"550 5.1.1 User unknown\r\n" + reply),
    "a line of a reply": _here(lambda reply: reply + b"550-5.1.1 and\r\n"),
    "a part of a line": _here(lambda reply: reply + b"55"),
    "rubbish": _here(lambda reply: reply + b"hello there\r\n"),
    "354": _here(lambda _: b"354 go ahead\r\n"),
    "220": _here(lambda _: b"220 hello\r\n"),
    "221": _here(lambda _: b"221 bye\r\n"),
    "421": _shut_down,
}
"""What the rules were built with."""

HELD_BACK: dict[str, Fault] = {
    "twice at two places": lambda reply, behind: reply * 2 if behind in {0, 2} else reply,
    "missing at two places": lambda reply, behind: b"" if behind in {0, 2} else reply,
    "thrice": _here(lambda reply: reply * 3),
    "twice from here on": lambda reply, behind: reply * 2 if behind >= 0 else reply,
    "line feeds only": _here(lambda reply: reply.replace(b"\r\n", b"\n")),
    "no line end": _here(lambda reply: reply[:-2]),
    "two codes in one reply": _here(lambda reply: b"250-2.0.0 first\r\n" + reply),
    "a hyphen that never ends": _here(lambda reply: reply[:3] + b"-" + reply[4:]),
    "an empty line": _here(lambda reply: b"\r\n" + reply),
    "zeros": _here(lambda reply: reply[:8] + b"\0\0" + reply[8:]),
    "half a reply and hung up": lambda reply, behind: (
        None if behind > 0 else reply[:6] if not behind else reply
    ),
    "a code nobody knows": _here(lambda reply: b"999" + reply[3:]),
    "an unasked goodbye": _here(lambda reply: reply + b"221 2.0.0 Bye\r\n"),
    "another's address": _here(lambda reply: reply[:-2] + b" <kim@a.test>\r\n"),
}
"""What nobody looked at while they were."""


@dataclass(slots=True)
class Oracle:
    """A server with one fault; knows which token stood in the reply to whom."""

    fault: Fault
    at: int
    pieces: int
    pipelining: bool
    tokens: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(6, 1, 1)  # TCP_NODELAY
        if not await self._say(writer, b"220 stub\r\n"):
            return
        while line := await reader.readline():
            if not await self._say(writer, self._reply(line.decode().strip())):
                return

    def _reply(self, line: str) -> bytes:
        verb = line[:4].upper()
        if verb == "RCPT":
            address = line[9:-1]
            token = self.tokens[address] = f"token{len(self.tokens)}"
            good = address.startswith(("ann", "joe"))
            return f"{'250 2.1.5' if good else '550 5.1.1'} {token} said\r\n".encode()
        if verb == "EHLO":
            return b"250-stub\r\n250 PIPELINING\r\n" if self.pipelining else b"250 stub\r\n"
        return b"221 bye\r\n" if verb == "QUIT" else b"250 2.0.0 Ok\r\n"

    async def _say(self, writer: asyncio.StreamWriter, reply: bytes) -> bool:
        """Send what the fault makes of the reply, in pieces; False to hang up."""
        text = self.fault(reply, self._count - self.at)
        self._count += 1
        if text is None:
            return False
        size = max(1, len(text) // self.pieces)
        for start in range(0, len(text), size):
            writer.write(text[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)
        return True


async def hold(oracle: Oracle, group: DomainRecipients, *, singly: bool) -> SessionLog:
    async with talking(oracle.serve) as port:
        return await talk(port, group, singly=singly, within=3.0, reply_timeout=0.3, settle_seconds=0.02)


def plan(
    rng: random.Random, faults: dict[str, Fault], *, singly: bool
) -> tuple[str, Oracle, DomainRecipients]:
    """Draw a server and what it is asked."""
    name = rng.choice(list(faults))
    oracle = Oracle(faults[name], rng.randrange(10), rng.choice([1, 2, 5, 40]), rng.random() < 0.7)
    people = rng.sample(PEOPLE, 1 if singly else rng.randrange(1, len(PEOPLE) + 1))
    return name, oracle, DomainRecipients("a.test", "" if singly else PROBE, tuple(people))


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("faults", [FAULTS, HELD_BACK], ids=["seen", "held back"])
async def test_every_answer_that_is_kept_is_the_reply_to_its_own_rcpt(
    faults: dict[str, Fault], *, singly: bool
) -> None:
    rng, kept = random.Random(12), Counter[str]()
    gate = asyncio.Semaphore(AT_A_TIME)

    async def one() -> None:
        name, oracle, group = plan(rng, faults, singly=singly)
        async with gate:
            log = await hold(oracle, group, singly=singly)
        for address, answer in log.answers.items():
            own = answer.reply.code == 421 or oracle.tokens[address] in answer.reply.text.split()
            assert own, (name, oracle, log)
        kept[name] += bool(log.answers)

    await asyncio.gather(*(one() for _ in range(SESSIONS if not singly else SESSIONS // 2)))
    assert kept["honest" if faults is FAULTS else "line feeds only"] > 10
