"""Whether mail servers can be reached: remembered, looked at once at a time, and doubt means yes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import Known
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import parse_source
from mailsift.pipeline.probe.port25 import InterceptionDetector, Port25Probe, Port25Status
from mailsift.pipeline.providers import Providers
from tests.unit.pipeline.dns_stub import SERVFAIL, SILENCE, Says, Zone, domain_facts, serving
from tests.unit.pipeline.smtp_stub import Mailer, OpenDoors, mailing


@dataclass
class Looks:
    """Answers in turn, the last one for ever; counts."""

    answers: list[Known]
    now: float = 0.0
    times: int = 0
    pending: asyncio.Event = field(default_factory=asyncio.Event)

    async def probe(self) -> Known:
        self.times += 1
        await asyncio.sleep(0)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def status(self) -> Port25Status:
        return Port25Status(self.probe, monotonic=lambda: self.now)


async def test_the_answer_is_kept_for_five_minutes() -> None:
    looks = Looks([Known.NO, Known.YES])
    status = looks.status
    assert [await status.is_open() for _ in range(3)] == [False] * 3
    looks.now = 299.9
    assert not await status.is_open()
    assert looks.times == 1
    looks.now = 300.0
    assert await status.is_open()
    assert looks.times == 2


async def test_many_who_ask_share_one_look() -> None:
    looks = Looks([Known.NO])
    status = looks.status
    assert await asyncio.gather(*(status.is_open() for _ in range(20))) == [False] * 20
    assert looks.times == 1


async def test_who_is_cancelled_while_looking_leaves_the_others_alone() -> None:
    looks = Looks([Known.NO])
    status = looks.status
    first, second = asyncio.create_task(status.is_open()), asyncio.create_task(status.is_open())
    await asyncio.sleep(0)
    first.cancel()
    assert not await second
    assert looks.times == 2


async def test_a_verdict_depends_on_a_look_after_the_silence_alone_that_many_share() -> None:
    looks = Looks([Known.YES, Known.NO, Known.YES])
    status = looks.status
    assert await status.is_open()
    looks.now = 1.0
    assert await status.is_still_open()
    assert looks.times == 1
    assert await asyncio.gather(*(status.is_still_open(decides=True) for _ in range(5))) == [False] * 5
    assert looks.times == 2


async def test_what_could_not_be_learned_changes_nothing_and_is_soon_looked_at_again() -> None:
    looks = Looks([Known.UNKNOWN, Known.NO, Known.UNKNOWN, Known.YES])
    status, seen = looks.status, []
    for looks.now in (0.0, 30.0, 330.0, 360.0):
        seen.append(await status.is_open())
    assert seen == [True, False, False, True]
    assert looks.times == 4


async def test_every_change_is_told_once_and_loudly() -> None:
    looks = Looks([Known.YES, Known.NO, Known.NO, Known.YES, Known.YES])
    status = looks.status
    with capture_logs() as logs:
        for looks.now in (0.0, 300.0, 600.0, 900.0, 1200.0):
            await status.is_open()
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("port_25.closed", "error"),
        ("port_25.open", "warning"),
    ]


WORLD: Zone = {
    "near.test": {"MX": Says(["10 mx.near.test."])},
    "mx.near.test": {"A": Says(["127.0.0.9"])},
    "far.test": {"MX": Says(["10 mx.far.test.", "20 mx2.far.test."])},
    "mx.far.test": {"A": Says(["127.0.0.8"])},
    "mx2.far.test": {"A": Says(["127.0.0.7"])},
    "private.test": {"MX": Says(["10 mx.private.test."])},
    "mx.private.test": {"A": Says(["10.0.0.1"])},
    "servfail.test": {"MX": SERVFAIL},
    "silent.test": {"MX": SILENCE},
}


@dataclass
class Scene:
    """A port25_probe and what it met."""

    port25_probe: Port25Probe
    throttle: OpenDoors
    servers: list[Mailer]


@asynccontextmanager
async def scene(
    *names: str, listening: bool = True, throttle: OpenDoors | None = None, public_only: bool = False
) -> AsyncIterator[Scene]:
    """Names to ask; mail servers listen at 127.0.0.9, or nowhere."""
    doors, mailer = throttle or OpenDoors(), Mailer()
    async with AsyncExitStack() as stack:
        stub = await stack.enter_async_context(serving(WORLD))
        facts = await stack.enter_async_context(domain_facts(stub, config=DnsConfig(timeout=0.2, tries=2)))
        if listening:
            port = await stack.enter_async_context(mailing(mailer, host="127.0.0.9"))
        else:
            async with mailing(mailer, host="127.0.0.9") as port:
                pass
        port25_probe = Port25Probe(
            domains=facts,
            throttle=doors,
            guard=AddressGuard(allow_non_public=not public_only),
            names=names,
            sources=[parse_source("", helo_name="probe.test")],
            port=port,
            interception=InterceptionDetector(Providers()),
        )
        yield Scene(port25_probe, doors, [mailer])
        assert not doors.open


async def test_one_server_that_accepts_is_enough() -> None:
    async with scene("servfail.test", "far.test", "near.test") as seen:
        assert await seen.port25_probe.probe() is Known.YES
    assert [ask.address for asks in seen.throttle.grants for ask in asks] == [
        "127.0.0.8",
        "127.0.0.7",
        "127.0.0.9",
    ]


async def test_when_the_first_accepts_no_other_is_bothered() -> None:
    async with scene("near.test", "far.test") as seen:
        assert await seen.port25_probe.probe() is Known.YES
    assert len(seen.throttle.grants) == 1


async def test_closed_means_that_some_were_dialled_and_none_accepted() -> None:
    async with scene("near.test", "far.test", "servfail.test", listening=False) as seen:
        assert await seen.port25_probe.probe() is Known.NO


@pytest.mark.parametrize("names", [("servfail.test", "silent.test"), ("nxdomain.test",), ("private.test",)])
async def test_trouble_with_dns_says_nothing_about_the_port(names: tuple[str, ...]) -> None:
    async with scene(*names, listening=False) as seen:
        assert await seen.port25_probe.probe() is Known.UNKNOWN
    assert not seen.throttle.grants


async def test_a_busy_throttle_says_nothing_about_the_port() -> None:
    async with scene("near.test", throttle=OpenDoors(denials=9)) as seen:
        assert await seen.port25_probe.probe() is Known.UNKNOWN
    assert not seen.servers[0].seen


async def test_addresses_that_may_not_be_dialled_are_not() -> None:
    async with scene("near.test", public_only=True) as seen:
        assert await seen.port25_probe.probe() is Known.UNKNOWN
    assert not seen.servers[0].seen
