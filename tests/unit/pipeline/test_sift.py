"""A frame goes through every stage, against real sockets: what is finished, what comes back, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import polars as pl
import pytest

from pipeline import syntax
from pipeline.facts import Known, Mode
from pipeline.frames import ADDRESSES, SEGMENT, VERDICTS, WAITING
from pipeline.judge.row import Policy
from pipeline.lists import Lists
from pipeline.probe.reach import Reach
from pipeline.probe.words import Wait, WaitReason
from pipeline.providers import Providers
from pipeline.sift import Request, Sifted, Sifter, delay_of
from tests.unit.pipeline.dns_stub import SERVFAIL, DnsStub, Says, Zone, domain_facts, serving
from tests.unit.pipeline.smtp_stub import DROP, NOT_FOUND, Bench, Mailer, OpenDoors, mailing

HOSTED = ("a.test", "b.test", "gmx.dee", "yaho.com", "mailinator.com", "gmail.com")
ZONE: Zone = {
    **{domain: {"MX": Says(["10 mx.stub.test."])} for domain in HOSTED},
    "mx.stub.test": {"A": Says(["127.0.0.1"])},
    "yahoo.com": {"MX": Says(["1 mta5.am0.yahoodns.net."])},
    "mta5.am0.yahoodns.net": {"A": Says(["127.0.0.1"])},
    "slow.test": {"MX": Says(["10 mx.stub.test."], delay=0.3)},
    "null.test": {"MX": Says(["0 ."])},
    "broken.test": {"MX": SERVFAIL},
}
REPLIES = {
    "ann": "250 2.1.5 Ok",
    "info": "250 2.1.5 Ok",
    "full": "552 5.2.2 Mailbox full",
    "grey": "450 4.2.0 <{address}>: Recipient address rejected: Greylisted, try again in 600 seconds",
    "later": "451 4.3.0 Temporary system problem, try again later",
    "drop": DROP,
}
GIVEN = [
    *(f"{local}@a.test" for local in (*REPLIES, "nobody")),
    *("ann@b.test", "ann@slow.test", "ann@null.test", "ann@broken.test", "ann@gone.test", "ann@yahoo.com"),
    *("ann@mailinator.com", "no address", "", "ann@gmail,com", "info@yaho.com"),
]


@dataclass
class Stage:
    """A sifter and the servers it asks."""

    sifter: Sifter
    dns: DnsStub
    mailer: Mailer

    async def sift(self, request: Request, given: list[str]) -> Sifted:
        return await self.sifter.sift(addresses(given), request)


def addresses(given: list[str]) -> pl.DataFrame:
    parsed = syntax.parse(pl.Series("raw", given, pl.String))
    numbered = parsed.with_columns(
        pl.int_range(len(given), dtype=pl.UInt32).alias("n"), pl.lit(2, pl.UInt32).alias("rows")
    )
    return numbered.select(*ADDRESSES)


@asynccontextmanager
async def stage(throttle: OpenDoors | None = None) -> AsyncIterator[Stage]:
    async def look() -> Known:
        return Known.YES

    providers = Providers.load()
    mailer = Mailer(rcpt=lambda address: REPLIES.get(address.partition("@")[0], NOT_FOUND))
    async with serving(ZONE) as stub, domain_facts(stub) as facts, mailing(mailer) as port:
        sifter = Sifter(
            lists=Lists.load(),
            providers=providers,
            domains=facts,
            prober=Bench(port, throttle=throttle or OpenDoors(), providers=providers).prober,
            reach=Reach(look, monotonic=lambda: 0.0),
            policy=Policy(),
        )
        yield Stage(sifter, stub, mailer)


def by_address(frame: pl.DataFrame, column: str) -> dict[str, object]:
    """Key a column by what was given; the frame's `n` counts GIVEN."""
    return {GIVEN[n]: value for n, value in frame.select("n", column).iter_rows()}


async def test_every_address_is_finished_or_waits_and_says_for_what() -> None:
    request = Request(Mode.DEEP, final=False, delays=(60.0,), dns_s=0.05)
    async with stage() as seen:
        sifted = await seen.sift(request, GIVEN)
    numbers = sifted.finished["n"].to_list() + sifted.waiting["n"].to_list()
    assert sorted(numbers) == list(range(len(GIVEN)))
    assert set(sifted.finished["rows"]) == set(sifted.waiting["rows"]) == {2}
    assert by_address(sifted.waiting, "reason") == {
        "grey@a.test": "greylisted",
        "later@a.test": "deferred",
        "drop@a.test": "deferred",
        "ann@slow.test": "slow",
    }
    assert by_address(sifted.finished, "result") == {
        "ann@a.test": "deliverable",
        "info@a.test": "deliverable",
        "full@a.test": "mailbox_full",
        "nobody@a.test": "mailbox_not_found",
        "ann@b.test": "deliverable",
        "ann@null.test": "null_mx",
        "ann@broken.test": "dns_unavailable",
        "ann@gone.test": "domain_not_found",
        "ann@yahoo.com": "unverifiable",
        "ann@mailinator.com": "disposable",
        "no address": "syntax_error",
        "": "syntax_error",
        "ann@gmail,com": "syntax_error",
        "info@yaho.com": "deliverable",
    }


async def test_what_waits_knows_its_lane_its_delay_and_how_often_a_server_said_later() -> None:
    request = Request(Mode.DEEP, final=False, delays=(60.0, 70.0), dns_s=0.05)
    async with stage() as seen:
        first = (await seen.sift(request, GIVEN)).waiting
        assert first.columns == [*WAITING, "lane", "reason", "delay"]
        told = {GIVEN[row["n"]]: row for row in first.iter_rows(named=True)}
        assert (told["grey@a.test"]["lane"], told["grey@a.test"]["delay"]) == ("stub.test", 600.0)
        assert (told["later@a.test"]["delay"], told["later@a.test"]["tries"]) == (60.0, 1)
        assert told["ann@slow.test"]["tries"] == 0
        second = await seen.sifter.sift(first.select(*WAITING), request)
        assert by_address(second.waiting, "tries")["later@a.test"] == 2
        third = await seen.sifter.sift(second.waiting.select(*WAITING), request)
    assert by_address(third.finished, "result")["later@a.test"] == "deferred"
    assert by_address(third.finished, "result")["grey@a.test"] == "deferred"
    assert by_address(third.finished, "smtp_code")["grey@a.test"] == 450


async def test_when_nobody_will_come_back_everything_is_judged_now() -> None:
    async with stage() as seen:
        sifted = await seen.sift(Request(Mode.DEEP, final=True, delays=(60.0,), dns_s=0.05), GIVEN)
    assert sifted.waiting.is_empty()
    found = by_address(sifted.finished, "result")
    assert len(found) == len(GIVEN)
    assert (found["grey@a.test"], found["later@a.test"], found["ann@slow.test"]) == (
        *("deferred", "deferred", "deliverable"),
    )


async def test_our_own_politeness_is_waited_for_without_losing_a_try() -> None:
    async with stage(OpenDoors(denials=1_000, retry_after=5.0)) as seen:
        request = Request(Mode.DEEP, final=False, delays=())
        waiting = (await seen.sift(request, ["ann@a.test", "ann@gone.test"])).waiting
    assert waiting.select("address", "reason", "tries").rows() == [("ann@a.test", "throttled", 0)]
    assert 0 < waiting["delay"][0] <= 5.0


@pytest.mark.parametrize(
    ("reason", "named", "tries", "delay"),
    [
        (WaitReason.GREYLISTED, 0.0, 0, 300.0),
        (WaitReason.GREYLISTED, 600.0, 0, 600.0),  # the server's word counts when it is longer
        (WaitReason.GREYLISTED, 600.0, 1, 900.0),
        (WaitReason.DEFERRED, 0.0, 1, 900.0),
        (WaitReason.DEFERRED, 0.0, 2, None),  # no try is left
        (WaitReason.GREYLISTED, 60.0, 7, None),
        (WaitReason.THROTTLED, 0.5, 7, 0.5),  # waiting for ourselves is no try
        (WaitReason.BUDGET, 0.0, 7, 0.0),
        (WaitReason.SLOW, 0.0, 7, 0.0),
    ],
)
def test_how_long_an_address_waits(reason: WaitReason, named: float, tries: int, delay: float | None) -> None:
    assert delay_of(Wait(reason, named), tries, (300.0, 900.0)) == delay


async def test_too_many_mailboxes_for_one_sitting_are_handed_back_unasked() -> None:
    async with stage() as seen:
        sifted = await seen.sift(Request(Mode.DEEP, final=False, probe_limit=7), GIVEN)
        assert not seen.mailer.seen
        handed_back = {
            GIVEN[n]: rest
            for n, *rest in sifted.waiting.select("n", "lane", "reason", "delay", "tries").iter_rows()
        }
        asked = [*(f"{local}@a.test" for local in (*REPLIES, "nobody")), "ann@b.test", "ann@slow.test"]
        assert handed_back == {
            address: ["stub.test", "survey", 0.0, 0] for address in [*asked, "info@yaho.com"]
        }
        assert len(sifted.finished) == len(GIVEN) - 10
        few = await seen.sift(Request(Mode.DEEP, final=False, probe_limit=2), ["ann@a.test", "info@a.test"])
    assert few.waiting.is_empty()


async def test_who_would_not_tell_is_not_asked() -> None:
    async with stage() as seen:
        given = ["ann@mailinator.com", "ann@yahoo.com", "ann@null.test", "no address"]
        await seen.sift(Request(Mode.DEEP), given)
        await seen.sift(Request(Mode.MEDIUM), GIVEN)
    assert not seen.mailer.seen


async def test_mode_fast_asks_nobody() -> None:
    async with stage() as seen:
        sifted = await seen.sift(Request(Mode.FAST), GIVEN)
    assert seen.dns.asked.total() == 0
    assert sifted.waiting.is_empty()
    found = by_address(sifted.finished, "result")
    assert [found[address] for address in ("ann@gone.test", "ann@mailinator.com", "")] == [
        *("passed", "disposable", "syntax_error")
    ]


@pytest.mark.parametrize(
    ("address", "suggestion"),
    [
        ("ann@gmail.con", "Did you mean ann@gmail.com?"),
        ("Ann.Lee+x@gmail,com", "Did you mean Ann.Lee+x@gmail.com?"),
        ("ann@gmailcom", "Did you mean ann@gmail.com?"),
        ("ann@yaho.com", "Did you mean ann@yahoo.com?"),  # routed, but squatters live off such slips
        ("ann@gmx.dee", ""),  # routed: it is what was meant
        ("ann@gmail.com", ""),
        ("@gmail,com", ""),
    ],
)
async def test_a_suggestion_names_the_whole_address(address: str, suggestion: str) -> None:
    async with stage() as seen:
        sifted = await seen.sift(Request(Mode.MEDIUM), [address])
    assert sifted.finished["suggestion"].to_list()[0].startswith(suggestion)
    assert bool(suggestion) == ("Did you mean" in sifted.finished["suggestion"][0])


async def test_an_address_alone_gets_the_verdict_it_gets_among_others() -> None:
    async with stage() as seen:
        together = (await seen.sift(Request(Mode.DEEP), GIVEN)).finished.sort("n")
        alone = [(await seen.sift(Request(Mode.DEEP), [address])).finished for address in GIVEN]
    assert pl.concat(alone).select(*VERDICTS).rows() == together.select(*VERDICTS).rows()


@pytest.mark.parametrize("mode", list(Mode))
async def test_nothing_in_gives_nothing_out(mode: Mode) -> None:
    async with stage() as seen:
        sifted = await seen.sift(Request(mode, evidence=True), [])
        given_up = seen.sifter.give_up(addresses([]), mode)
    assert sifted.finished.is_empty()
    assert sifted.waiting.is_empty()
    assert (
        dict(sifted.finished.select(*SEGMENT).schema)
        == SEGMENT
        == dict(given_up.finished.select(*SEGMENT).schema)
    )


async def test_what_is_given_up_asks_nobody_and_is_never_invalid_but_for_its_syntax() -> None:
    async with stage() as seen:
        sifted = await asyncio.to_thread(seen.sifter.give_up, addresses(GIVEN), Mode.DEEP)
    assert (seen.dns.asked.total(), seen.mailer.seen) == (0, [])
    assert sifted.waiting.is_empty()
    invalid = sifted.finished.filter(pl.col("status") == "invalid")["result"]
    assert set(sifted.finished["result"]) == {"dns_unavailable", "disposable", "syntax_error"}
    assert set(invalid) == {"syntax_error"}
