"""The network is lost for a while, in several ways: the true verdicts in the end, nothing final before."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import polars as pl
import pytest

from mailsift.pipeline.dns import trust
from mailsift.pipeline.dns.domains import DomainFacts
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.probe.config import parse_source
from mailsift.pipeline.probe.port25 import Port25Probe, Port25Status
from mailsift.pipeline.probe.prober import Prober
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator
from mailsift.pipeline.verdict import VerdictPolicy
from mailsift.sandbox.server import Sandbox
from tests.integration.pipeline.test_prober_sandbox import asking
from tests.unit.pipeline.smtp_stub import OpenDoors

HOSTS = (
    "ordinary",
    "exim",
    "exchange",
    "sendmail",
    "qmail",
    "opensmtpd",
    "catch-all",
    "google-like",
    "gateway-later",
)
PEOPLE = [f"{local}@{host}.sandbox.test" for host in HOSTS for local in ("known", "nobody", "disabled")]
REQUEST = ValidationRequest(Mode.DEEP, final=False, delays=(60.0, 120.0))
WAIT = ("throttle_key", "reason", "delay")


def frame(addresses: list[str]) -> pl.DataFrame:
    numbered = parse_column(pl.Series("raw", addresses, pl.String)).with_columns(
        pl.int_range(len(addresses), dtype=pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows")
    )
    return numbered.select(*ADDRESSES)


def statuses(result: ValidationResult) -> dict[str, str]:
    return {PEOPLE[n]: status for n, status in result.finished.select("n", "status").iter_rows()}


CANARIES = ("gmail.com", "outlook.com", "icloud.com", "gmx.net", "web.de")


class Ahead:
    """A clock that tests put forward."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.seconds


def pipeline(
    sandbox: Sandbox, facts: DomainFacts, prober: Prober, clock: Ahead, *, port: int = 0
) -> Validator:
    probe = Port25Probe(
        domains=facts,
        throttle=OpenDoors(),
        guard=AddressGuard(allow_non_public=True),
        names=("gmail.com", "outlook.com", "gmx.net"),
        sources=[parse_source("", helo_name="probe.test")],
        port=port or sandbox.smtp_port,
        interception=prober.interception,
    )
    return Validator(
        lists=Lists.load(),
        providers=Providers.load(),
        domains=facts,
        prober=prober,
        port25=Port25Status(probe.probe, monotonic=clock),
        policy=VerdictPolicy(),
    )


def truths(sandbox: Sandbox) -> dict[str, str]:
    return {address: sandbox.world.truth(address).deep.status for address in PEOPLE}


async def wait_through(validator: Validator, clock: Ahead, *, reasons: set[str]) -> pl.DataFrame:
    """Ask again and again for five minutes and more: everybody waits, and no try is used up."""
    waiting = frame(PEOPLE)
    for seconds in (20.0, 40.0, 320.0):
        clock.seconds = seconds
        lost = await validator.validate(waiting, REQUEST)
        assert lost.finished.is_empty()
        assert set(lost.waiting["reason"]) <= reasons
        assert set(lost.waiting["tries"]) == {0}
        waiting = lost.waiting.drop(WAIT)
    clock.seconds = 640.0
    return waiting


async def test_while_the_mail_servers_are_gone_nothing_becomes_final_and_then_all_is_true() -> None:
    clock = Ahead()
    async with asking() as (sandbox, facts, prober):
        validator = pipeline(sandbox, facts, prober, clock)
        assert len((await validator.validate(frame(PEOPLE[:1]), REQUEST)).finished) == 1
        await sandbox.hide()
        waiting = await wait_through(validator, clock, reasons={"our_network"})
        await sandbox.show()
        back = await validator.validate(waiting, REQUEST)
        assert back.waiting.is_empty()
        assert statuses(back) == truths(sandbox)


async def test_one_silent_server_is_tried_twice_and_the_second_time_by_a_machine_that_reaches_others() -> (
    None
):
    clock, silent = Ahead(), [f"known@{host}.sandbox.test" for host in ("ordinary", "refused")]
    async with asking() as (sandbox, facts, prober):
        validator = pipeline(sandbox, facts, prober, clock)
        first = await validator.validate(frame(silent), REQUEST)
        assert first.finished["n"].to_list() == [0]
        assert (first.waiting["reason"].to_list(), first.waiting["tries"].to_list()) == (["deferred"], [1])
        await sandbox.hide()
        clock.seconds = 60.0
        lost = await validator.validate(first.waiting.drop(WAIT), REQUEST)
        assert (lost.waiting["reason"].to_list(), lost.waiting["tries"].to_list()) == (["our_network"], [1])
        await sandbox.show()
        clock.seconds = 400.0
        back = await validator.validate(lost.waiting.drop(WAIT), REQUEST)
    assert back.finished["result"].to_list() == ["unreachable"]


async def test_without_descriptors_everybody_waits_and_then_all_is_true() -> None:
    clock = Ahead()
    async with asking() as (sandbox, facts, prober):
        validator = pipeline(sandbox, facts, prober, clock)
        assert len((await validator.validate(frame(PEOPLE[:1]), REQUEST)).finished) == 1
        await facts.lookup([f"{host}.sandbox.test" for host in HOSTS])
        with no_descriptors_left():
            waiting = await wait_through(validator, clock, reasons={"our_network"})
        back = await validator.validate(waiting, REQUEST)
        assert back.waiting.is_empty()
        assert statuses(back) == truths(sandbox)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let this process open nothing more (EMFILE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # else what others have left closes meanwhile, and one is free
    with tempfile.TemporaryFile() as last:
        lowest_free = last.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def lose_the_route() -> None:
    """Ask in a network of this thread's own, whose only device goes down (ENETUNREACH) and comes back."""
    clock = Ahead()
    async with asking(CANARIES, dns_timeout=0.4) as (sandbox, facts, prober):
        validator = pipeline(sandbox, facts, prober, clock)
        assert len((await validator.validate(frame(PEOPLE[:1]), REQUEST)).finished) == 1
        _loopback("down")
        waiting = await wait_through(validator, clock, reasons={"our_network", "resolver"})
        _loopback("up")
        async with asyncio.timeout(30):
            while not facts.has_trusted_resolver:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.05)
        back = await validator.validate(waiting, REQUEST)
        assert back.waiting.is_empty()
        assert statuses(back) == truths(sandbox)


def _loopback(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


@pytest.mark.needs("root", "ip")
def test_without_a_route_everybody_waits_and_then_all_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "RECHECK_S", 0.05)

    def alone() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "unshare")
        _loopback("up")
        asyncio.run(lose_the_route())

    with ThreadPoolExecutor(1) as thread:  # the thread takes its network along when it ends
        thread.submit(alone).result()


_NEW_NETWORK = 0x40000000
