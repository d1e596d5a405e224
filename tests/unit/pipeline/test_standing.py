"""What a source's name is worth: earned slowly, lost at once, forgotten after silence."""

from __future__ import annotations

import pytest

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.providers import PROVIDERS, Provider, Providers
from mailsift.pipeline.replies.table import RULES
from mailsift.pipeline.throttle import (
    FEWEST_REFUSED,
    GROW_PROBES,
    GROW_SECONDS,
    HIGHEST_STEP,
    LEDGER_KIND_OF_RULE,
    LOWEST_STEP,
    MEND_PROBES,
    MEND_SECONDS,
    SILENCE_SECONDS,
    LedgerCounts,
    LedgerKind,
    Standing,
    decay_after_silence,
    highest_step,
    provider_at_step,
    update_standing,
)

NOW = 1_800_000_000.0
GOOGLE = Providers().row("google")


def clean(count: int) -> LedgerCounts:
    return LedgerCounts({LedgerKind.PROBES: count})


def refused(count: int, kind: LedgerKind = LedgerKind.REPUTATION, *, among: int = 0) -> LedgerCounts:
    return LedgerCounts({kind: count, LedgerKind.PROBES: among})


def test_a_newcomer_begins_at_the_table() -> None:
    new = update_standing(None, clean(10), NOW)
    assert (new.step, new.clean) == (0, 10)
    assert provider_at_step(GOOGLE, new.step) is GOOGLE


@pytest.mark.parametrize(
    ("probes", "seconds", "step"),
    [
        (GROW_PROBES, GROW_SECONDS, 1),
        (GROW_PROBES - 1, GROW_SECONDS, 0),
        (GROW_PROBES * 100, GROW_SECONDS - 1, 0),  # a name is not earned in a day
    ],
)
def test_it_doubles_after_recipients_and_days(probes: int, seconds: float, step: int) -> None:
    assert update_standing(Standing(stepped_at=NOW, asked_at=NOW), clean(probes), NOW + seconds).step == step


def test_each_step_takes_twice_as_many() -> None:
    known = Standing(step=2, stepped_at=NOW, asked_at=NOW)
    assert update_standing(known, clean(4 * GROW_PROBES - 1), NOW + GROW_SECONDS).step == 2
    assert update_standing(known, clean(4 * GROW_PROBES), NOW + GROW_SECONDS).step == 3


def test_a_name_is_never_worth_more_than_the_ceiling() -> None:
    for row in PROVIDERS:
        for step in range(LOWEST_STEP, HIGHEST_STEP + 1):
            assert provider_at_step(row, step).rate <= max(row.rate, row.ceiling)
            assert provider_at_step(row, step).burst >= 1
    assert provider_at_step(GOOGLE, HIGHEST_STEP).rate == GOOGLE.ceiling == 16.0


@pytest.mark.parametrize("kind", [LedgerKind.RATE, LedgerKind.REPUTATION])
def test_refusals_of_us_halve_the_pace_and_begin_anew(kind: LedgerKind) -> None:
    known = Standing(step=2, clean=10, stepped_at=NOW, asked_at=NOW)
    found = update_standing(known, refused(FEWEST_REFUSED, kind), NOW + 1)
    assert (found.step, found.clean, found.refused) == (1, 0, 0)


@pytest.mark.parametrize(
    "counts",
    [
        refused(FEWEST_REFUSED - 1),
        refused(FEWEST_REFUSED, among=1_000),
        refused(100, LedgerKind.POLICY),
        refused(100, LedgerKind.IDENTITY),
    ],
)
def test_few_refusals_and_those_for_other_reasons_change_nothing(counts: LedgerCounts) -> None:
    assert update_standing(Standing(step=2, stepped_at=NOW, asked_at=NOW), counts, NOW + 1).step == 2


def test_it_is_halved_three_times_at_most_and_mends_sooner_than_it_was_earned() -> None:
    known: Standing | None = None
    for _ in range(10):
        known = update_standing(known, refused(FEWEST_REFUSED), NOW)
    assert known is not None
    assert known.step == LOWEST_STEP
    assert provider_at_step(GOOGLE, LOWEST_STEP).rate == GOOGLE.rate / 8
    assert update_standing(known, clean(MEND_PROBES), NOW + MEND_SECONDS).step == LOWEST_STEP + 1


@pytest.mark.parametrize(
    ("silent", "step"), [(SILENCE_SECONDS - 1, 3), (SILENCE_SECONDS, 2), (10 * SILENCE_SECONDS, 0)]
)
def test_silence_takes_steps_away_down_to_the_table(silent: float, step: int) -> None:
    assert decay_after_silence(Standing(step=3, stepped_at=NOW, asked_at=NOW), NOW + silent).step == step
    assert decay_after_silence(Standing(step=-2, stepped_at=NOW, asked_at=NOW), NOW + silent).step == -2


def test_nothing_is_earned_beyond_the_ceiling_so_that_what_is_lost_is_felt_at_once() -> None:
    row = Providers().row("outlook")
    highest = highest_step(row)
    assert provider_at_step(row, highest).rate == row.ceiling > provider_at_step(row, highest - 1).rate
    known = Standing(stepped_at=NOW, asked_at=NOW)
    for days in range(100):
        known = update_standing(known, clean(100 * GROW_PROBES), NOW + days * GROW_SECONDS, highest)
    assert known.step == highest
    told_off = update_standing(known, refused(FEWEST_REFUSED), known.asked_at + 1, highest)
    assert provider_at_step(row, told_off.step).rate == row.ceiling / 2
    silent = decay_after_silence(known, known.asked_at + SILENCE_SECONDS)
    assert provider_at_step(row, silent.step).rate == row.ceiling / 2
    beyond = Standing(step=9, stepped_at=NOW, asked_at=NOW)  # of an earlier release
    assert update_standing(beyond, refused(FEWEST_REFUSED), NOW + 1, highest).step == highest - 1
    assert highest_step(Provider("own-host.test")) == HIGHEST_STEP  # its rate does not follow


def test_after_silence_nothing_counts_towards_the_next_doubling() -> None:
    nearly = Standing(clean=GROW_PROBES - 1, refused=FEWEST_REFUSED - 1, stepped_at=NOW, asked_at=NOW)
    begins = NOW + SILENCE_SECONDS
    again = update_standing(nearly, clean(1), begins)
    assert (again.step, again.clean, again.refused) == (0, 1, 0)
    assert update_standing(again, clean(GROW_PROBES), begins + GROW_SECONDS - 1).step == 0
    assert update_standing(again, clean(GROW_PROBES), begins + GROW_SECONDS).step == 1


def test_a_row_without_a_ceiling_is_asked_at_its_rate() -> None:
    row = Provider("own-host.test")
    assert provider_at_step(row, 5) is row
    assert Providers.load(ramp=False).row("google").ceiling == 0.0


def test_every_kind_of_refusal_is_a_rule_of_the_reply_table() -> None:
    ours = {rule.id for rule in RULES if rule.answer in {Answer.REFUSED_US, Answer.RATE_LIMITED}}
    assert set(LEDGER_KIND_OF_RULE) <= ours
