"""A frame goes through every stage, against real sockets: what is finished, what comes back, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import polars as pl
import pytest
from typing_extensions import override

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import Known, Mode, Wait, WaitReason
from mailsift.pipeline.frames import ADDRESSES, SEGMENT, VERDICTS, WAITING
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.outcomes.outcome import OutcomeFacts
from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.single import SingleOptions, SingleValidator
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.throttle import Ask, Grant
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator, delay_of
from mailsift.pipeline.verdict import VerdictPolicy
from tests.unit.pipeline.dns_stub import SERVFAIL, DnsStub, Says, Zone, domain_facts, serving
from tests.unit.pipeline.dns_stub import SILENCE as NO_ANSWER
from tests.unit.pipeline.smtp_stub import DROP, NOT_FOUND, SILENCE, Bench, Mailer, OpenDoors, mailing

HOSTED = ("a.test", "b.test", "gmx.dee", "yaho.com", "mailinator.com", "gmail.com")
ZONE: Zone = {
    **{domain: {"MX": Says(["10 mx.stub.test."])} for domain in HOSTED},
    "mx.stub.test": {"A": Says(["127.0.0.1"])},
    "yahoo.com": {"MX": Says(["1 mta5.am0.yahoodns.net."])},
    "mta5.am0.yahoodns.net": {"A": Says(["127.0.0.1"])},
    "slow.test": {"MX": Says(["10 mx.stub.test."], delay=0.3)},
    "null.test": {"MX": Says(["0 ."])},
    **{f"m{n}.test": {"MX": Says([f"10 mx.m{n}.test."])} for n in range(3)},
    **{f"mx.m{n}.test": {"A": Says(["127.0.0.1"])} for n in range(3)},
    "broken.test": {"MX": SERVFAIL},
}
SILENT: Zone = {**ZONE, "slow.test": {"MX": NO_ANSWER}}
PATIENCE = 0.5  # seconds in which all other names are looked up, on whatever machine
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
    """A validator and the servers it asks."""

    validator: Validator
    dns: DnsStub
    mailer: Mailer

    async def validate(self, request: ValidationRequest, given: list[str]) -> ValidationResult:
        return await self.validator.validate(addresses(given), request)


def addresses(given: list[str]) -> pl.DataFrame:
    parsed = parse_column(pl.Series("raw", given, pl.String))
    numbered = parsed.with_columns(
        pl.int_range(len(given), dtype=pl.UInt32).alias("n"), pl.lit(2, pl.UInt32).alias("rows")
    )
    return numbered.select(*ADDRESSES)


@asynccontextmanager
async def stage(
    throttle: OpenDoors | None = None,
    *,
    config: DnsConfig | None = None,
    port: int = 0,
    reached: Callable[[], Known] = lambda: Known.YES,
    monotonic: Callable[[], float] = lambda: 0.0,
    zone: Zone = ZONE,
) -> AsyncIterator[Stage]:
    async def look() -> Known:
        return reached()

    providers = Providers.load()
    mailer = Mailer(rcpt=lambda address: REPLIES.get(address.partition("@")[0], NOT_FOUND))
    async with (
        serving(zone) as stub,
        domain_facts(stub, config=config) as facts,
        mailing(mailer) as listening,
    ):
        validator = Validator(
            lists=Lists.load(),
            providers=providers,
            domains=facts,
            prober=Bench(port or listening, throttle=throttle or OpenDoors(), providers=providers).prober,
            port25=Port25Status(look, monotonic=monotonic),
            policy=VerdictPolicy(),
            monotonic=monotonic,
        )
        yield Stage(validator, stub, mailer)


def by_address(frame: pl.DataFrame, column: str) -> dict[str, object]:
    """Key a column by what was given; the frame's `n` counts GIVEN."""
    return {GIVEN[n]: value for n, value in frame.select("n", column).iter_rows()}


async def test_every_address_is_finished_or_waits_and_says_for_what() -> None:
    request = ValidationRequest(Mode.DEEP, final=False, delays=(60.0,), dns_s=PATIENCE)
    async with stage(zone=SILENT) as seen:
        result = await seen.validate(request, GIVEN)
    numbers = result.finished["n"].to_list() + result.waiting["n"].to_list()
    assert sorted(numbers) == list(range(len(GIVEN)))
    assert set(result.finished["rows"]) == set(result.waiting["rows"]) == {2}
    assert by_address(result.waiting, "reason") == {
        "grey@a.test": "greylisted",
        "later@a.test": "deferred",
        "drop@a.test": "deferred",
        "ann@broken.test": "deferred",
        "ann@slow.test": "slow",
    }
    assert by_address(result.finished, "result") == {
        "ann@a.test": "deliverable",
        "info@a.test": "deliverable",
        "full@a.test": "mailbox_full",
        "nobody@a.test": "mailbox_not_found",
        "ann@b.test": "deliverable",
        "ann@null.test": "null_mx",
        "ann@gone.test": "domain_not_found",
        "ann@yahoo.com": "unverifiable",
        "ann@mailinator.com": "disposable",
        "no address": "syntax_error",
        "": "syntax_error",
        "ann@gmail,com": "syntax_error",
        "info@yaho.com": "deliverable",
    }


async def test_what_waits_knows_its_lane_its_delay_and_how_often_a_server_said_later() -> None:
    request = ValidationRequest(Mode.DEEP, final=False, delays=(60.0, 70.0), dns_s=PATIENCE)
    async with stage(zone=SILENT) as seen:
        first = (await seen.validate(request, GIVEN)).waiting
        assert first.columns == [*WAITING, "throttle_key", "reason", "delay"]
        rows = {GIVEN[row["n"]]: row for row in first.iter_rows(named=True)}
        assert (rows["grey@a.test"]["throttle_key"], rows["grey@a.test"]["delay"]) == ("stub.test", 600.0)
        assert (rows["later@a.test"]["delay"], rows["later@a.test"]["tries"]) == (60.0, 1)
        assert rows["ann@slow.test"]["tries"] == 0
        second = await seen.validator.validate(first.select(*WAITING), request)
        assert by_address(second.waiting, "tries")["later@a.test"] == 2
        third = await seen.validator.validate(second.waiting.select(*WAITING), request)
    assert by_address(third.finished, "result")["later@a.test"] == "deferred"
    assert by_address(third.finished, "result")["grey@a.test"] == "deferred"
    assert by_address(third.finished, "smtp_code")["grey@a.test"] == 450


async def test_when_nobody_will_come_back_everything_is_judged_now() -> None:
    async with stage() as seen:
        result = await seen.validate(
            ValidationRequest(Mode.DEEP, final=True, delays=(60.0,), dns_s=0.05), GIVEN
        )
    assert result.waiting.is_empty()
    found = by_address(result.finished, "result")
    assert len(found) == len(GIVEN)
    assert (found["grey@a.test"], found["later@a.test"], found["ann@slow.test"]) == (
        *("deferred", "deferred", "deliverable"),
    )


async def test_our_own_politeness_is_waited_for_without_losing_a_try() -> None:
    async with stage(OpenDoors(denials=1_000, retry_after=5.0)) as seen:
        request = ValidationRequest(Mode.DEEP, final=False, delays=())
        waiting = (await seen.validate(request, ["ann@a.test", "ann@gone.test"])).waiting
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


@pytest.mark.parametrize("mode", [Mode.MEDIUM, Mode.DEEP])
async def test_while_no_resolver_can_be_trusted_what_needs_one_waits_or_is_unknown(mode: Mode) -> None:
    """The zone knows nothing of the canary, so that its resolver is taken for a liar."""
    given = ["ann@a.test", "ann@null.test", "ann@gone.test", "no address"]
    async with stage(config=DnsConfig(canaries=("outlook.com",))) as seen:
        waits = await seen.validate(ValidationRequest(mode, final=False, dns_s=None), given)
        final = await seen.validate(ValidationRequest(mode, final=True), given)
    assert waits.waiting["reason"].to_list() == ["resolver"] * 3
    assert set(waits.waiting["delay"]) == {15.0}
    assert waits.finished["result"].to_list() == ["syntax_error"]
    assert sorted(final.finished["result"]) == ["dns_unavailable"] * 3 + ["syntax_error"]
    assert not seen.mailer.seen


async def test_too_many_mailboxes_for_one_sitting_are_handed_back_unasked() -> None:
    async with stage() as seen:
        result = await seen.validate(ValidationRequest(Mode.DEEP, final=False, probe_limit=7), GIVEN)
        assert not seen.mailer.seen
        handed_back = {
            GIVEN[n]: rest
            for n, *rest in result.waiting.select("n", "throttle_key", "reason", "delay", "tries").iter_rows()
        }
        asked = [*(f"{local}@a.test" for local in (*REPLIES, "nobody")), "ann@b.test", "ann@slow.test"]
        assert handed_back == {
            address: ["stub.test", "survey", 0.0, 0] for address in [*asked, "info@yaho.com"]
        }
        assert len(result.finished) == len(GIVEN) - 10
        few = await seen.validate(
            ValidationRequest(Mode.DEEP, final=False, probe_limit=2), ["ann@a.test", "info@a.test"]
        )
    assert few.waiting.is_empty()


async def test_who_would_not_tell_is_not_asked() -> None:
    async with stage() as seen:
        given = ["ann@mailinator.com", "ann@yahoo.com", "ann@null.test", "no address"]
        await seen.validate(ValidationRequest(Mode.DEEP), given)
        await seen.validate(ValidationRequest(Mode.MEDIUM), GIVEN)
    assert not seen.mailer.seen


async def test_mode_fast_asks_nobody() -> None:
    async with stage() as seen:
        result = await seen.validate(ValidationRequest(Mode.FAST), GIVEN)
    assert seen.dns.asked.total() == 0
    assert result.waiting.is_empty()
    found = by_address(result.finished, "result")
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
        ("ann@gmail.org", "Did you mean ann@gmail.com?"),  # somebody's in mode fast; here DNS denies it
        ("ann@gm\u0430il.com", "Did you mean ann@gmail.com?"),  # a Cyrillic letter
        ("Ann Lee <ann@a.test>", "Did you mean ann@a.test?"),
        ("ann@a.test; bob@b.test", "Did you mean ann@a.test or bob@b.test?"),
        ("ann@gmail.com", ""),
        ("@gmail,com", ""),
    ],
)
async def test_a_suggestion_names_the_whole_address(address: str, suggestion: str) -> None:
    async with stage() as seen:
        result = await seen.validate(ValidationRequest(Mode.MEDIUM), [address])
    assert result.finished["suggestion"].to_list()[0].startswith(suggestion)
    assert bool(suggestion) == ("Did you mean" in result.finished["suggestion"][0])


async def test_an_address_alone_gets_the_verdict_it_gets_among_others() -> None:
    async with stage() as seen:
        together = (await seen.validate(ValidationRequest(Mode.DEEP), GIVEN)).finished.sort("n")
        alone = [(await seen.validate(ValidationRequest(Mode.DEEP), [address])).finished for address in GIVEN]
    assert pl.concat(alone).select(*VERDICTS).rows() == together.select(*VERDICTS).rows()


@pytest.mark.parametrize("mode", list(Mode))
async def test_nothing_in_gives_nothing_out(mode: Mode) -> None:
    async with stage() as seen:
        result = await seen.validate(ValidationRequest(mode, evidence=True), [])
        given_up = seen.validator.give_up(addresses([]), mode)
    assert result.finished.is_empty()
    assert result.waiting.is_empty()
    assert (
        dict(result.finished.select(*SEGMENT).schema)
        == SEGMENT
        == dict(given_up.finished.select(*SEGMENT).schema)
    )


async def test_what_is_given_up_asks_nobody_and_is_never_invalid_but_for_its_syntax() -> None:
    async with stage() as seen:
        result = await asyncio.to_thread(seen.validator.give_up, addresses(GIVEN), Mode.DEEP)
    assert (seen.dns.asked.total(), seen.mailer.seen) == (0, [])
    assert result.waiting.is_empty()
    invalid = result.finished.filter(pl.col("status") == "invalid")["result"]
    assert set(result.finished["result"]) == {"not_asked", "disposable", "syntax_error"}
    assert set(invalid) == {"syntax_error"}


async def _nothing_sent(_owner: str, _addresses: Sequence[str], _max_age: float | None) -> OutcomeFacts:
    return OutcomeFacts()


async def test_at_the_deadline_of_a_single_validation_the_facts_that_are_there_decide() -> None:
    async with stage() as seen:
        seen.mailer.banner = SILENCE  # the mail server takes longer than anybody waits
        single = SingleValidator(
            lists=Lists.load(),
            policy=VerdictPolicy(),
            open_validator=lambda: seen.validator,
            count_verdict=lambda _status, _result: None,
            record_usage=lambda _options, _rows, _addresses, _probes: None,
            outcome_facts=_nothing_sent,
        )
        options = SingleOptions(Mode.DEEP, deadline=0.6, owner="")
        routed = await single.validate("ann@a.test", options)
        missing = await single.validate("ann@gone.test", options)
        frame = addresses(["ann@a.test"])
        request = ValidationRequest(Mode.MEDIUM)
        await seen.validator.validate(frame, request)
        given_up = seen.validator.give_up(frame, Mode.DEEP, request.domains_found)
    assert routed["result"] in {"not_asked", "unreachable"}
    assert routed["mx_valid"]
    assert missing["result"] == "domain_not_found"
    assert given_up.finished["result"].to_list() == ["not_asked"]


async def test_sessions_end_with_the_time_that_is_left_and_not_with_their_own() -> None:
    async with stage() as seen, asyncio.timeout(60):
        seen.mailer.banner = SILENCE
        ends_at = asyncio.get_running_loop().time() + 0.3  # of which DNS may have taken the most
        request = ValidationRequest(Mode.DEEP, session_s=600, budget_s=600, ends_at=ends_at)
        result = await seen.validator.validate(addresses(["ann@a.test"]), request)
    assert set(result.finished["result"]) <= {"not_asked", "unreachable"}


LATER = ValidationRequest(Mode.DEEP, final=False, delays=(60.0, 120.0))


@pytest.mark.parametrize("known_before", [True, False])
async def test_while_a_port_that_was_open_is_closed_mailboxes_wait_for_our_network(
    *, known_before: bool
) -> None:
    now, reached = 0.0, Known.YES if known_before else Known.NO
    async with stage(reached=lambda: reached, monotonic=lambda: now) as seen:
        before = await seen.validate(LATER, ["ann@a.test"])
        now, reached = 400.0, Known.NO
        closed = await seen.validate(LATER, ["ann@a.test"])
        now, reached = 800.0, Known.YES
        again = await seen.validate(LATER, ["ann@a.test"])
    assert before.finished["result"].to_list() == ["deliverable" if known_before else "probe_unavailable"]
    assert again.finished["result"].to_list() == ["deliverable"]
    if known_before:
        assert closed.waiting.select("reason", "delay", "tries").rows() == [("our_network", 15.0, 0)]
    else:
        assert closed.finished["result"].to_list() == ["probe_unavailable"]


async def test_a_silent_server_is_unreachable_only_after_a_second_try() -> None:
    async with stage(port=1) as seen:  # nobody listens there
        first = await seen.validate(LATER, ["ann@a.test"])
        back = first.waiting.drop("throttle_key", "reason", "delay")
        second = await seen.validator.validate(back, LATER)
        alone = await seen.validate(ValidationRequest(Mode.DEEP), ["ann@a.test"])
    assert first.waiting.select("reason", "delay", "tries").rows() == [("deferred", 60.0, 1)]
    assert second.finished["result"].to_list() == alone.finished["result"].to_list() == ["unreachable"]


async def test_a_domain_that_dns_fails_for_is_asked_about_again_before_that_is_final() -> None:
    async with stage() as seen:
        first = await seen.validate(LATER, ["ann@broken.test"])
        back = first.waiting.drop("throttle_key", "reason", "delay")
        second = await seen.validator.validate(back, LATER)
        shallow = await seen.validate(replace(LATER, mode=Mode.MEDIUM), ["ann@broken.test"])
    assert first.waiting.select("reason", "delay", "tries").rows() == [("deferred", 6.0, 1)]
    assert second.finished["result"].to_list() == shallow.finished["result"].to_list() == ["dns_unavailable"]


async def test_what_mail_servers_take_is_not_waited_for_once_more_where_dns_fails() -> None:
    now = 0.0

    class Long(OpenDoors):
        """Lets everybody in after four seconds."""

        @override
        async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
            nonlocal now
            now += 4.0
            return await super().grant(asks)

    async with stage(Long(), monotonic=lambda: now) as seen:
        alone = await seen.validate(LATER, ["ann@broken.test"])
        beside = await seen.validate(LATER, ["ann@broken.test", "ann@a.test"])
    assert alone.waiting["delay"].to_list() == [6.0]
    assert beside.waiting["delay"].to_list() == [max(0.0, 6.0 - now)]
    assert now >= 4.0
    assert beside.finished["result"].to_list() == ["deliverable"]


async def test_where_servers_are_silent_the_network_is_looked_at_afresh_and_they_wait_for_it() -> None:
    looks, reached, now = 0, Known.YES, 0.0

    def look() -> Known:
        nonlocal looks
        looks += 1
        return reached

    people = [f"ann@m{n}.test" for n in range(3)]
    async with stage(port=1, reached=look, monotonic=lambda: now) as seen:
        await seen.validate(LATER, people[:1])
        now, reached = 20.0, Known.NO  # what is remembered says that all is well
        lost = await seen.validate(LATER, people)
        now, reached = 400.0, Known.YES
        back = await seen.validate(LATER, people)
    assert set(lost.waiting["reason"]) == {"our_network"}
    assert set(lost.waiting["tries"]) == {0}
    assert len(lost.waiting) == len(people)
    assert set(back.waiting["reason"]) == {"deferred"}
    assert looks == 3
