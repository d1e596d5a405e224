"""What the pipeline answers when this machine cannot be trusted, and what the operator's policy changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import polars as pl
import pytest
from typing_extensions import override

from mailsift.pipeline.facts import Known, Mode, Wait, WaitReason
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.throttle import Ask, Grant
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator, delay_of
from mailsift.pipeline.verdict import VerdictPolicy
from tests.unit.pipeline.dns_stub import Says, Zone, domain_facts, serving
from tests.unit.pipeline.smtp_stub import Bench, Mailer, OpenDoors, Script, knows, mailing, providers, turning

ZONE: Zone = {
    "a.test": {"MX": Says(["10 mx.a.test."])},
    "mx.a.test": {"A": Says(["127.0.0.1"])},
    "silent.test": {"MX": Says(["10 mx.silent.test."])},
    "mx.silent.test": {"A": Says(["127.0.0.1"])},
    "mailinator.com": {"MX": Says(["10 mx.a.test."])},
}
GIVEN = ["ann@a.test", "bob@a.test", "ann@gone.test", "ann@mailinator.com", "no address"]


@dataclass
class Stage:
    """A validator and what it is wired to."""

    validator: Validator
    mailer: Mailer
    looks: int = 0

    async def validate(self, request: ValidationRequest, given: list[str] | None = None) -> ValidationResult:
        parsed = parse_column(pl.Series("raw", given or GIVEN, pl.String))
        numbered = parsed.with_row_index("n").with_columns(pl.lit(1, pl.UInt32).alias("rows"))
        return await self.validator.validate(numbered, request)


@asynccontextmanager
async def stage(
    port25: Known = Known.YES,
    *,
    policy: VerdictPolicy | None = None,
    throttle: OpenDoors | None = None,
    rcpt: Script | None = None,
) -> AsyncIterator[Stage]:
    async def look() -> Known:
        seen.looks += 1
        return port25

    mailer = Mailer(rcpt=rcpt or knows("ann"))
    async with serving(ZONE) as stub, domain_facts(stub) as facts, mailing(mailer) as port:
        validator = Validator(
            lists=Lists.load(),
            providers=providers(),
            domains=facts,
            prober=Bench(port, throttle=throttle or OpenDoors()).prober,
            port25=Port25Status(look, monotonic=lambda: 0.0),
            policy=policy or VerdictPolicy(),
        )
        seen = Stage(validator, mailer)
        yield seen


def results(result: ValidationResult) -> list[str]:
    return result.finished.sort("n")["result"].to_list()


async def test_behind_a_closed_port_routed_mailboxes_are_unavailable_at_once_and_nothing_is_asked() -> None:
    async with stage(Known.NO) as seen:
        result = await seen.validate(ValidationRequest(Mode.DEEP, final=False, delays=(1.0,), probe_limit=1))
        again = await seen.validate(ValidationRequest(Mode.DEEP))
    assert results(result) == results(again)
    assert results(result) == ["probe_unavailable"] * 2 + ["domain_not_found", "disposable", "syntax_error"]
    assert result.waiting.is_empty()
    assert not seen.mailer.seen
    assert seen.looks == 1


@pytest.mark.parametrize("port25", [Known.YES, Known.UNKNOWN])
async def test_an_open_port_or_one_nobody_knows_about_is_used(port25: Known) -> None:
    async with stage(port25) as seen:
        assert results(await seen.validate(ValidationRequest(Mode.DEEP)))[:2] == [
            "deliverable",
            "mailbox_not_found",
        ]


@pytest.mark.parametrize(
    ("mode", "given"), [(Mode.MEDIUM, GIVEN), (Mode.FAST, GIVEN), (Mode.DEEP, ["ann@gone.test", "x"])]
)
async def test_where_no_server_would_be_asked_nobody_looks(mode: Mode, given: list[str]) -> None:
    async with stage(Known.NO) as seen:
        await seen.validate(ValidationRequest(mode), given)
    assert seen.looks == 0


@pytest.mark.parametrize(
    ("policy", "status"), [(VerdictPolicy(), "risky"), (VerdictPolicy(disposable_invalid=True), "invalid")]
)
async def test_the_operator_decides_whether_throw_away_domains_are_invalid(
    policy: VerdictPolicy, status: str
) -> None:
    async with stage(policy=policy) as seen:
        given = ["ann@mailinator.com", "ann@a.test"]
        result = await seen.validate(ValidationRequest(Mode.DEEP, evidence=True), given)
        given_up = seen.validator.give_up(
            parse_column(pl.Series("raw", given, pl.String))
            .with_row_index("n")
            .with_columns(pl.lit(1, pl.UInt32).alias("rows")),
            Mode.DEEP,
        )
    row = result.finished.sort("n").row(0, named=True)
    assert (row["result"], row["status"], row["is_valid"]) == ("disposable", status, False)
    assert sum(json.loads(row["evidence"])["score_parts"].values()) == row["score"]
    assert given_up.finished.sort("n")["status"].to_list() == [status, "risky"]
    assert results(result)[1] == "deliverable"


class Shut(OpenDoors):
    """Leaves everybody alone."""

    @override
    def _grant(self, ask: Ask) -> Grant:
        return Grant(0, retry_after=900.0, blocked=True)


async def test_behind_a_provider_that_refuses_us_addresses_wait_and_in_the_end_are_blocked() -> None:
    async with stage(throttle=Shut()) as seen:
        request = ValidationRequest(Mode.DEEP, final=False, delays=(300.0, 3600.0))
        first = (await seen.validate(request, ["ann@a.test"])).waiting
        assert first.select("tries", "reason", "delay").row(0) == (1, "blocked", 900.0)
        frame = first.drop("throttle_key", "reason", "delay")
        second = (await seen.validator.validate(frame, request)).waiting
        assert second.select("tries", "reason", "delay").row(0) == (2, "blocked", 3600.0)
        third = await seen.validator.validate(second.drop("throttle_key", "reason", "delay"), request)
    assert third.waiting.is_empty()
    assert results(third) == ["probe_blocked"]


def test_a_refusing_provider_has_as_many_tries_as_one_that_says_later() -> None:
    delays = (1.0, 2.0)
    for reason in (WaitReason.BLOCKED, WaitReason.DEFERRED, WaitReason.GREYLISTED):
        assert [delay_of(Wait(reason, 0.0), tries, delays) for tries in range(3)] == [1.0, 2.0, None]


async def test_a_jump_in_refusals_is_a_matter_within_one_list() -> None:
    async with stage(rcpt=turning(300)) as seen:
        good, bad = ([f"user{n}@a.test" for n in part] for part in (range(290), range(400, 500)))
        await seen.validate(ValidationRequest(Mode.DEEP, list_id="one"), good)
        doubted = await seen.validate(ValidationRequest(Mode.DEEP, list_id="one", evidence=True), bad)
        believed = await seen.validate(ValidationRequest(Mode.DEEP, list_id="two"), bad)
    assert set(results(doubted)[10:]) == {"deferred"}
    assert "began to refuse" in doubted.finished["reason"][-1]
    assert set(results(believed)[10:]) == {"mailbox_not_found"}
