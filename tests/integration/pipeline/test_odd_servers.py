"""Many mail servers that are odd in several ways at once, held against what may be said of each mailbox.

A mailbox that is there is never invalid, what a server did not say of a mailbox is not taken for it, and an
address gets alone what it gets in a list. One thing nothing can tell from the truth: a server that says
"unknown user" of somebody it knows.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from typing_extensions import override

from mailsift.pipeline.facts import DomainFact, Mode
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.outcomes.outcome import OutcomeFacts
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.prober import Prober
from mailsift.pipeline.single import SingleOptions, SingleValidator
from mailsift.pipeline.syntax.address import canonical_of
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import DomainWitness, NetworkWitness, ValidationRequest, Validator
from mailsift.pipeline.verdict import VerdictPolicy
from tests.integration.pipeline.odd_servers import SetUp, draw
from tests.unit.pipeline.smtp_stub import DictCache, OpenDoors, providers

LISTS = Lists.load()
SETUPS = 60
AT_A_TIME = 60
TRIES = 6
ALONE = 4
"""So many of each list are asked for alone, too."""

SESSION_S = 2.5
Verdicts = dict[str, dict[str, Any]]


class KnownDomains(DomainWitness):
    def __init__(self, facts: Mapping[str, DomainFact]) -> None:
        self._facts = facts

    @property
    @override
    def has_trusted_resolver(self) -> bool:
        return True

    @override
    async def lookup(
        self, domains: Sequence[str], *, patience_s: float | None, final: bool
    ) -> Mapping[str, DomainFact]:
        return {domain: self._facts[domain] for domain in domains}


class OpenNetwork(NetworkWitness):
    @property
    @override
    def has_been_open(self) -> bool:
        return True

    @override
    async def is_open(self) -> bool:
        return True

    @override
    async def is_still_open(self, *, decides: bool = False) -> bool:
        return True


def validator(setup: SetUp, port: int) -> Validator:
    numbers = itertools.count()
    config = ProbeConfig(
        helo_name="probe.test",
        port=port,
        connect_timeout=1.0,
        reply_timeout=0.6,
        session_seconds=SESSION_S,
        settle_seconds=0.01,
        local_wait=0.2,
        mail_from=setup.mail_from,
        sources=setup.sources,
    )
    table = providers(recipients=12, sessions=3)
    prober = Prober(
        config=config,
        throttle=OpenDoors(),
        providers=table,
        guard=AddressGuard(allow_non_public=True),
        cache=DictCache(),
        clock=lambda: 1_000_000.0,
        token=lambda: f"{setup.seed} {next(numbers)}",
    )
    return Validator(
        lists=LISTS,
        providers=table,
        domains=KnownDomains(setup.facts()),
        prober=prober,
        port25=OpenNetwork(),
        policy=VerdictPolicy(),
    )


async def validate_list(setup: SetUp, port: int) -> Verdicts:
    """Validate all that are asked for, as often as they come back."""
    whole, found = validator(setup, port), Verdicts()
    numbers = pl.int_range(len(setup.asked), dtype=pl.UInt32)
    parsed = parse_column(pl.Series("raw", setup.asked, pl.String))
    frame = parsed.with_columns(numbers.alias("n"), pl.lit(1, pl.UInt32).alias("rows")).select(*ADDRESSES)
    for number in range(TRIES):
        request = ValidationRequest(
            Mode.DEEP,
            final=number == TRIES - 1,
            delays=(0.0, 0.0),
            session_s=SESSION_S,
            max_age=86_400.0,
            list_id="list",
            owner="owner",
        )
        result = await whole.validate(frame, request)
        found |= {setup.asked[row["n"]]: row for row in result.finished.iter_rows(named=True)}
        frame = result.waiting
        if frame.is_empty():
            break
    return found


async def validate_alone(setup: SetUp, port: int, address: str) -> dict[str, Any]:
    async def no_outcomes(*_: object) -> OutcomeFacts:
        return OutcomeFacts()

    single = SingleValidator(
        lists=LISTS,
        policy=VerdictPolicy(),
        open_validator=lambda: validator(setup, port),
        count_verdict=lambda *_: None,
        record_usage=lambda *_: None,
        outcome_facts=no_outcomes,
    )
    return await single.validate(address, SingleOptions(Mode.DEEP, 12.0, "owner"))


def check(setup: SetUp, address: str, verdict: Mapping[str, Any]) -> None:
    """Hold a verdict against what the servers meant to say."""
    answers = setup.answers_about(canonical_of(address))
    if verdict["status"] == "invalid":
        assert address not in setup.existing or "lie" in answers, (setup, address, verdict)
        assert answers & {"missing", "lie", "all"}, (setup, address, verdict)
    if verdict["status"] == "valid":
        assert address in setup.existing, (setup, address, verdict)
        assert "accept" in answers, (setup, address, verdict)


async def hold(setup: SetUp, kinds: Counter[str]) -> None:
    async with setup.serving() as port:
        together = await validate_list(setup, port)
        assert set(together) == set(setup.asked)
        assert setup.sessions() <= 30 + 8 * len(setup.asked), setup
        for address, verdict in together.items():
            check(setup, address, verdict)
            kinds[verdict["result"]] += 1
        lies = {address for address in setup.asked if "lie" in setup.answers_about(canonical_of(address))}
        for address in setup.asked[:ALONE]:
            setup.reset()
            verdict = await validate_alone(setup, port, address)
            check(setup, address, verdict)
            assert setup.sessions() <= 12, setup
            both = {verdict["status"], together[address]["status"]}
            is_unsure = "risky" in both and not setup.is_steady()
            assert len(both) == 1 or address in lies or is_unsure, (setup, address, verdict, together)


@pytest.mark.parametrize("held_back", [False, True], ids=["seen", "held back"])
async def test_nothing_is_said_of_a_mailbox_that_no_server_said_of_it(*, held_back: bool) -> None:
    gate, kinds = asyncio.Semaphore(AT_A_TIME), Counter[str]()

    async def one(seed: int) -> None:
        async with gate:
            await hold(draw(seed), kinds)

    await asyncio.gather(*(one(seed) for seed in range(SETUPS) if (seed % 3 == 2) is held_back))
    assert kinds["deliverable"] > 10
    assert kinds["mailbox_not_found"] > 10
