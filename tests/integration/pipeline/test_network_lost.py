"""The sandbox's mail servers vanish for a while: the true verdicts in the end, nothing final before."""

from __future__ import annotations

import time

import polars as pl

from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.judge.table import VerdictPolicy
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.probe.port25 import Port25Probe, Port25Status
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.smtp.config import parse_source
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator
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


async def test_while_the_mail_servers_are_gone_nothing_becomes_final_and_then_all_is_true() -> None:
    ahead = 0.0
    async with asking() as (sandbox, facts, prober):
        probe = Port25Probe(
            domains=facts,
            throttle=OpenDoors(),
            guard=AddressGuard(allow_non_public=True),
            names=("gmail.com", "outlook.com", "gmx.net"),
            sources=[parse_source("", helo_name="probe.test")],
            port=sandbox.smtp_port,
        )
        validator = Validator(
            lists=Lists.load(),
            providers=Providers.load(),
            domains=facts,
            prober=prober,
            port25=Port25Status(probe.probe, monotonic=lambda: time.monotonic() + ahead),
            policy=VerdictPolicy(),
        )
        assert len((await validator.validate(frame(PEOPLE[:1]), REQUEST)).finished) == 1
        await sandbox.hide()
        waiting = frame(PEOPLE)
        for seconds in (20.0, 40.0, 320.0):  # for five minutes and more
            ahead = seconds
            lost = await validator.validate(waiting, REQUEST)
            assert lost.finished.is_empty()
            assert set(lost.waiting["reason"]) == {"our_network"}
            assert set(lost.waiting["tries"]) == {0}
            waiting = lost.waiting.drop(WAIT)
        await sandbox.show()
        ahead = 640.0
        back = await validator.validate(waiting, REQUEST)
        truth = {address: sandbox.world.truth(address).deep.status for address in PEOPLE}
    assert back.waiting.is_empty()
    assert statuses(back) == truth
