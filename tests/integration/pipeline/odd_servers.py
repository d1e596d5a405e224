"""Mail servers that are odd in several ways at once, and what they say of the mailboxes behind them."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from mailsift.pipeline.facts import DomainFact, DomainState, MxHost
from tests.support.connections import talking

ACCEPTS: Final = (
    "250 2.1.5 Ok",
    "250 ok",
    "250-2.1.5 <{address}>\r\n250 2.1.5 is welcome",
    "251 2.1.5 <{address}> will be forwarded",
    "250 2.0.0 recipient <{address}> ok",
    "250 5.0.0 fine",
)
CONTRADICTIONS: Final = (
    "250-2.1.5 welcome\r\n550 5.1.1 <{address}>: user unknown",
    "550-5.1.1 user unknown\r\n250 2.1.5 Ok",
)
REFUSES: Final = (
    "550 5.1.1 <{address}>: Recipient address rejected: User unknown in virtual mailbox table",
    "550 5.1.1 <{address}>... User unknown",
    "550-5.1.1 The email account that you tried to reach does not exist.\r\n550 5.1.1 Try double-checking",
    "550 No such user here",
    "551 5.1.1 no mailbox by that name here",
    "550 2.1.5 User unknown",
    "553 5.1.3 no such recipient <{address}>",
    "550 4.1.1 <{address}>: user unknown",
)
LATER: Final = (
    "450 4.2.0 <{address}>: Recipient address rejected: Greylisted, try again in 5 minutes",
    "451 4.7.1 Greylisting in action, please come back later",
    "450 4.1.1 <{address}>: Recipient address rejected: unverified address: Address verification in progress",
    "451 4.3.0 Temporary lookup failure",
    "421 4.3.2 come back later",
    "450 5.1.1 user unknown for now",
)
TOO_MANY: Final = (
    "452 4.5.3 Error: too many recipients",
    "452 too many recipients",
    "421 4.7.0 Error: too many errors",
    "452-4.5.3 Your message has too many recipients.\r\n452 4.5.3 Go away",
    "552 5.5.3 Too many recipients",
    "550 5.5.3 Error: too many recipients",
)
ABOUT_US: Final = (
    "550 5.7.1 Service unavailable; client host [127.0.0.1] blocked using zen.example",
    "554 5.7.1 <>: Sender address rejected: the null sender is not accepted here",
    "550 5.1.8 <probe@probe.test>: Sender address rejected: Domain not found",
    "550 5.7.25 The IP address sending this message does not have a PTR record",
    "451 4.7.1 <probe.test>: Helo command rejected: Host not found",
)

LOCALS: Final = (
    "ann", "joann", "bo", "bob", "o'brien", "brien", "x+tag", '"a b"', '"a@b"', "l" * 64, "info", "j.doe",
    "doe", "müller", "李雷", "user_1", "-dash", "kim", "mail", "account",
)  # fmt: skip


@dataclass(frozen=True)
class Traits:
    """How one server behaves; see `OddServer`."""

    accept: str = ACCEPTS[0]
    refuse: str = REFUSES[0]
    pipelining: bool = True
    smtputf8: str = "yes"  # no; refused
    starttls: str = ""
    banner: str = ""
    ehlo: str = ""
    mail: str = ""
    mail_from_nth: int = 0  # the refusal of MAIL begins there
    rset: str = ""
    fault: str = ""  # at the nth RCPT of a session
    nth: int = 0
    later: str = ""  # the first time a recipient is asked for
    later_by: str = "recipient"
    swaps: bool = False
    half: bool = False
    quit: str = "221 2.0.0 Bye"
    everybody: str = ""
    about_us: str = ""
    defence: int = 0
    latency: float = 0.0
    first_only: bool = False  # banner, ehlo, mail and fault: in the first session alone


@dataclass
class OddServer:
    """One exchanger."""

    traits: Traits
    existing: frozenset[str]
    answers: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sessions: int = 0
    known_here: set[str] = field(default_factory=set)
    refused: int = 0

    def reset(self) -> None:
        self.answers.clear()
        self.known_here.clear()
        self.sessions = self.refused = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Conversation(self, reader, writer).hold()


HANG_UP: Final = "hang up"
SILENT: Final = "silent"
CUT: Final = "cut"
DELAY: Final = "delay"
_LAST_WORDS: Final = ("221", "421", "554 no")
_ENDINGS: Final = {HANG_UP: b"", SILENT: b"", CUT: b"550-5.1.1 <"}


class _Conversation:
    def __init__(self, server: OddServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.sessions += 1
        self.server, self.reader, self.writer = server, reader, writer
        self.traits = server.traits
        self.is_odd = not server.traits.first_only or server.sessions == 1
        self.recipients = self.mails = 0
        self.utf8 = False

    async def hold(self) -> None:
        banner = self.traits.banner if self.is_odd else ""
        if banner == DELAY:
            await asyncio.sleep(0.1)
        if not await self.say([banner if banner not in {"", DELAY} else "220 odd.test ESMTP"]):
            return
        rest = b""
        while data := await self.reader.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            commands = [line.rstrip(b"\r").decode("utf-8", "replace") for line in lines]
            if not await self.say(self.answer_all(commands)):
                return

    async def say(self, replies: Sequence[str]) -> bool:
        """Send the replies; False when the connection is to be closed."""
        await asyncio.sleep(self.traits.latency)
        is_over = False
        for reply in replies:
            self.writer.write(_ENDINGS.get(reply, f"{reply}\r\n".encode()))
            is_over = reply in {HANG_UP, CUT} or reply.rpartition("\n")[2].startswith(_LAST_WORDS)
            if is_over:
                break
        await self.writer.drain()
        return not is_over

    def answer_all(self, lines: Sequence[str]) -> list[str]:
        answered = lines[: (len(lines) + 1) // 2] if self.traits.half else lines
        replies = [(line, self.answer(line)) for line in answered]
        return [reply for _, reply in (_swapped(replies) if self.traits.swaps else replies)]

    def answer(self, line: str) -> str:
        match line.split(" ", 1)[0].upper():
            case "EHLO":
                return self.answer_ehlo()
            case "MAIL":
                return self.answer_mail(line)
            case "RCPT":
                return self.answer_rcpt(line[9:-1])
            case verb:
                replies = {
                    "RSET": self.traits.rset,
                    "QUIT": self.traits.quit,
                    "STARTTLS": self.traits.starttls,
                }
                return replies.get(verb) or {"RSET": "250 2.0.0 Ok", "HELO": "250 odd"}.get(verb, "500 What?")

    def answer_ehlo(self) -> str:
        if self.traits.ehlo and self.is_odd:
            return self.traits.ehlo
        words = ["odd.test"]
        words += ["PIPELINING"] * self.traits.pipelining + ["SMTPUTF8"] * (self.traits.smtputf8 != "no")
        words += ["STARTTLS"] * bool(self.traits.starttls)
        return "\r\n".join(f"250-{word}" for word in words) + "\r\n250 HELP"

    def answer_mail(self, line: str) -> str:
        self.mails += 1
        self.utf8 = line.endswith("SMTPUTF8")
        if self.utf8 and self.traits.smtputf8 == "refused":
            return "555 5.5.4 Unsupported option: SMTPUTF8"
        is_refused = self.traits.mail and self.is_odd and self.mails >= self.traits.mail_from_nth
        return self.traits.mail if is_refused else "250 2.1.0 Ok"

    def answer_rcpt(self, address: str) -> str:
        self.recipients += 1
        kind, reply = self.oddity(address) or self.truth(address)
        self.server.answers[address].append(kind)
        return reply.replace("{address}", address)

    def oddity(self, address: str) -> tuple[str, str] | None:
        """What is said without a look at the address, and in which words; None for nothing."""
        traits = self.traits
        grey = address if traits.later_by == "recipient" else "session"
        is_faulty = traits.fault and self.is_odd and self.recipients >= traits.nth
        possible = (
            (not address.isascii() and not self.utf8, "syntax", "501 5.1.3 Bad recipient address syntax"),
            (traits.about_us, "us", traits.about_us),
            (is_faulty and traits.fault in TOO_MANY, "limit", traits.fault),
            (is_faulty and self.recipients == traits.nth, "fault", traits.fault),
            (traits.later and grey not in self.server.known_here, "later", traits.later),
            (traits.everybody.startswith("2"), "accept", traits.everybody),
            (traits.everybody, "all", traits.everybody),
        )
        found = next(((kind, words) for holds, kind, words in possible if holds), None)
        if found is not None and found[0] == "later":
            self.server.known_here.add(grey)
        return found

    def truth(self, address: str) -> tuple[str, str]:
        """What is said of the address, which a defence against harvesting makes a lie."""
        server, exists = self.server, address in self.server.existing
        if self.traits.defence and server.refused >= self.traits.defence:
            return ("lie" if exists else "missing"), self.traits.refuse
        server.refused += not exists
        return ("accept", self.traits.accept) if exists else ("missing", self.traits.refuse)


def _swapped(replies: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Two replies to RCPT change places, as of a server that looks recipients up side by side."""
    numbers = [n for n, (line, _) in enumerate(replies) if line.startswith("RCPT")]
    for one, other in zip(numbers[::2], numbers[1::2], strict=False):
        replies[one], replies[other] = replies[other], replies[one]
    return replies


@dataclass
class SetUp:
    """Exchangers of some domains, who lives there, and who is asked for."""

    seed: int
    traits: list[Traits]
    preferences: list[int]
    places: list[str]  # addresses by exchanger
    domains: list[str]
    existing: frozenset[str]
    asked: list[str]
    mail_from: str
    sources: tuple[str, ...]
    servers: list[OddServer] = field(default_factory=list)

    def facts(self) -> dict[str, DomainFact]:
        hosts = tuple(
            MxHost(f"mx{n}.s{self.seed}.test", preference, (place,))
            for n, (preference, place) in enumerate(zip(self.preferences, self.places, strict=True))
        )
        key = f"s{self.seed}.test"
        return {name: DomainFact(name, DomainState.ROUTED, hosts, key) for name in self.domains}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        async with AsyncExitStack() as stack:
            port = 0
            self.servers = [OddServer(traits, self.existing) for traits in self.traits]
            listening: set[str] = set()
            for place, server in zip(self.places, self.servers, strict=True):
                if is_away(place) or place in listening:
                    continue
                listening.add(place)
                port = await stack.enter_async_context(talking(server.talk, place, port))
            yield port

    def answers_about(self, address: str) -> set[str]:
        """What the servers meant to say of an address since they were reset."""
        return {kind for server in self.servers for kind in server.answers[address]}

    def sessions(self) -> int:
        """How many sessions the servers had since they were reset."""
        return sum(server.sessions for server in self.servers)

    def reset(self) -> None:
        """Let the servers forget everything."""
        for server in self.servers:
            server.reset()

    def is_steady(self) -> bool:
        """Whether a server says the same of a mailbox whenever, beside whomever and however it is asked."""
        return not any(
            one.first_only
            or one.later
            or one.defence
            or one.swaps
            or one.half
            or one.fault
            or one.mail
            or one.rset
            or one.accept in CONTRADICTIONS
            for one in self.traits
        )


ODDITIES: Final[tuple[Callable[[random.Random], dict[str, object]], ...]] = (
    lambda rng: {"accept": rng.choice(ACCEPTS)},
    lambda rng: {"refuse": rng.choice(REFUSES)},
    lambda rng: {"accept": rng.choice(CONTRADICTIONS)},
    lambda _: {"pipelining": False},
    lambda _: {"pipelining": False},
    lambda rng: {"smtputf8": rng.choice(("no", "refused"))},
    lambda rng: {
        "starttls": rng.choice(
            (
                "454 4.7.0 TLS not available",
                "421 4.7.0 TLS not available",
                "500 5.5.1 what?",
                HANG_UP,
                "220 go ahead\r\n250 odd",
                "220 go ahead",
                "250 fine",
            )
        )
    },
    lambda rng: {
        "banner": rng.choice(
            (DELAY, "220-odd\r\n220 test", "421 busy", "554 no service for you", "450 later", HANG_UP)
        ),
        "first_only": rng.random() < 0.6,
    },
    lambda rng: {
        "ehlo": rng.choice(("502 5.5.1 what?", "421 4.3.0 busy", "451 4.3.0 later", HANG_UP)),
        "first_only": rng.random() < 0.6,
    },
    lambda rng: {
        "mail": rng.choice(
            (
                "550 5.7.1 <>: Sender address rejected",
                "451 4.7.1 try later",
                "421 4.7.0 too many messages in this session",
                "452 4.5.3 too many messages",
                "503 5.5.1 Sender already given",
            )
        ),
        "mail_from_nth": rng.choice((0, 2, 2, 3)),
        "first_only": rng.random() < 0.3,
    },
    lambda rng: {"rset": rng.choice(("502 5.5.1 not implemented", "421 4.0.0 bye", "451 later", HANG_UP))},
    lambda rng: {
        "fault": rng.choice((*TOO_MANY, *TOO_MANY, HANG_UP, SILENT, CUT, "421 4.4.2 timeout")),
        "nth": rng.randrange(1, 7),
        "first_only": rng.random() < 0.3,
    },
    lambda rng: {"later": rng.choice(LATER), "later_by": rng.choice(("recipient", "recipient", "session"))},
    lambda _: {"swaps": True, "refuse": REFUSES[0], "accept": "250 2.1.5 Ok"},
    lambda _: {"half": True},
    lambda rng: {
        "quit": rng.choice((HANG_UP, "250 2.0.0 Ok", "421 4.4.2 bye", "221 bye\r\n221 bye", "500 what?"))
    },
    lambda rng: {
        "everybody": rng.choice(
            (
                "250 2.1.5 Ok",
                "252 2.1.5 cannot verify",
                "550 5.7.1 Access denied",
                "450 4.2.1 mailbox busy",
                "550 5.4.1 Recipient address rejected: Access denied",
                "554 5.0.0 rejected",
            )
        )
    },
    lambda rng: {"about_us": rng.choice(ABOUT_US)},
    lambda rng: {"defence": rng.randrange(3, 7)},
    lambda rng: {"latency": rng.choice((0.005, 0.03))},
)


def _draw_places(rng: random.Random, seed: int, count: int) -> list[str]:
    """Draw where the exchangers are: at an address each, at one together, nowhere, at an IPv6 address."""
    if count == 1 and rng.random() < 0.1:
        return ["::1"]
    high, low = divmod(seed % 60_000, 250)
    places: list[str] = []
    for number in range(count):
        shared, away = places[:1] or [""], f"127.9.{high}.{low + 1}"
        own = f"127.{20 + number}.{high}.{low + 1}"
        places.append(rng.choice((*shared, away, own, own, own)) or own)
    if all(map(is_away, places)):
        places[-1] = f"127.30.{high}.{low + 1}"
    return places


def is_away(place: str) -> bool:
    """Whether nobody listens there."""
    return place.startswith("127.9.")


def draw(seed: int) -> SetUp:
    """Draw a set-up."""
    rng = random.Random(seed)

    def traits() -> Traits:
        chosen: dict[str, object] = {}
        for oddity in rng.sample(ODDITIES, rng.choice((0, 1, 2, 2, 3, 4))):
            chosen |= oddity(rng)
        return replace(Traits(), **chosen)  # type: ignore[arg-type]

    count = rng.choice((1, 1, 1, 2, 2, 3))
    places = _draw_places(rng, seed, count)
    preferences = sorted(rng.choice((10, 10, 20, 30)) for _ in range(count))
    domains = [f"d{n}.s{seed}.test" for n in range(rng.choice((1, 1, 2, 3)))]
    asked = [
        f"{local}@{domain}"
        for domain in domains
        for local in rng.sample(LOCALS, rng.choice((1, 2, 4, 7, 12)))
    ]
    rng.shuffle(asked)
    existing = {address for address in asked if rng.random() < 0.6}
    mail_from = rng.choice(("", "", "probe@probe.test"))
    sources = ("127.0.0.1", "::1") if rng.random() < 0.3 else ("",)
    drawn = [traits() for _ in range(count)]
    return SetUp(seed, drawn, preferences, places, domains, frozenset(existing), asked, mail_from, sources)
