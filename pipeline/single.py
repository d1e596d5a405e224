"""One address for those who wait for it: by syntax and lists in microseconds, or through the whole pipeline.

What goes through every stage as a frame costs some five milliseconds, were it one row, and what makes frames
is a fifth of a second and of the memory of a process. So mode fast does without; property tests hold both
ways together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.judge_one import VERDICT_FIELDS, judge_one
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.syntax.address import canonical_of, parse_cell
from mailsift.pipeline.verdict import VerdictPolicy, with_repair

if TYPE_CHECKING:
    from mailsift.pipeline.outcomes.outcome import OutcomeFacts
    from mailsift.pipeline.validator import Validator

_MAX_AGE: Final = 86_400.0
"""Seconds a mail server's answer is used again, unless the caller says; as for lists."""


@dataclass(frozen=True, slots=True)
class SingleOptions:
    """How to look at one address.

    Attributes:
        mode: how far to look.
        deadline: seconds; what is not known by then makes the verdict risky.
        owner: who asks; answers about mailboxes are used again for the same owner only.
        evidence: give the facts behind the verdict too.
        repair: where the text is no address and clearly means one, validate that one and say so.
        max_age: seconds that a mail server's answer, and what the owner's own messages showed, may be old;
            None: a day, and as long as the owner's policy says.
        outcomes: let count what messages to the address came to; not where a stranger reads the verdict.
        tiered: what to do with the address is read from the evidence: where nobody can say whom the owner may
            not send to, there is no verdict.
    """

    mode: Mode
    deadline: float
    owner: str
    evidence: bool = False
    repair: bool = False
    max_age: float | None = None
    outcomes: bool = True
    tiered: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class SingleValidator:
    """Validates single addresses.

    Attributes:
        lists, policy: all that mode fast needs.
        open_validator: opens the whole pipeline; called when the first address asks for more than the lists.
        count_verdict: counts every verdict by its status and result.
        record_usage: records after every call how it was to look, and how many addresses were given, how many
            of them are distinct, and about how many a mail server was asked and answered.
        outcome_facts: returns what an owner knows of addresses from messages of its own, no older than so
            many seconds where the caller says so.
    """

    lists: Lists
    policy: VerdictPolicy
    open_validator: Callable[[], Validator]
    count_verdict: Callable[[str, str], None]
    record_usage: Callable[[SingleOptions, int, int, int], None]
    outcome_facts: Callable[[str, Sequence[str], float | None], Awaitable[OutcomeFacts]]
    _opening: asyncio.Lock = field(init=False)
    _validator: Validator | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # As the default of a field it would load the event loop for every command.
        self._opening = asyncio.Lock()

    async def validate(self, email: str, options: SingleOptions) -> dict[str, Any]:
        """Return the 13 fields, and with `options.evidence` the facts as JSON in `evidence`.

        When time runs out the verdict is the honest risky one, never an error.

        Raises:
            MailsiftError: `database_unavailable`, with `options.tiered`.
        """
        return (await self.validate_many([email], options))[0]

    async def validate_many(self, emails: Sequence[str], options: SingleOptions) -> list[dict[str, Any]]:
        """Do what `validate` does for some addresses at once, in their order; each is asked about once."""
        repaired = {email: self.lists.repaired(email) if options.repair else "" for email in emails}
        meant = {email: other or email for email, other in repaired.items()}
        parsed = {text: parse_cell(text) for text in dict.fromkeys(meant.values())}
        addresses = [one.address for one in parsed.values() if not one.rule]
        began = monotonic()
        known = await self._look_up_outcomes(addresses, options)
        if options.mode is Mode.FAST and not options.evidence and not known.sent:
            fast = {
                text: judge_one(one, self.lists.describe_one(one), self.policy)
                for text, one in parsed.items()
            }
            found = _BatchVerdicts(fast, len(parsed), 0)
        else:
            left = replace(options, deadline=options.deadline - (monotonic() - began))
            found = await _validate_texts(list(parsed), left, known, await self._open_once())
        self.record_usage(options, len(emails), found.distinct, found.probes)
        verdicts = [found.verdicts[meant[email]] for email in emails]
        for verdict in verdicts:
            self.count_verdict(verdict["status"], verdict["result"])
        return [with_repair(one, repaired[email]) for one, email in zip(verdicts, emails, strict=True)]

    def judged_address(self, email: str, *, repair: bool) -> str:
        """Return the canonical address that a verdict on this text is about, "" where it holds none."""
        return canonical_of((self.lists.repaired(email) if repair else "") or email)

    async def _look_up_outcomes(self, addresses: Sequence[str], options: SingleOptions) -> OutcomeFacts:
        """Return what the owner knows of addresses.

        A database that says nothing may take half the time: the other half is the mail server's.
        """
        if options.outcomes:
            with suppress(TimeoutError):
                async with asyncio.timeout(options.deadline / 2):
                    known = await self.outcome_facts(options.owner, addresses, options.max_age)
                if known.looked_up:
                    return known
            if options.tiered:
                text = "Whom the account may not send to can’t be looked up."
                raise MailsiftError("database_unavailable", text, retryable=True)
        # Here, for a lone check needs no outcomes, and to find them loaded takes 1.6 us.
        from mailsift.pipeline.outcomes.outcome import NO_OUTCOMES, NOT_LOOKED_UP  # noqa: PLC0415

        return NOT_LOOKED_UP if options.outcomes else NO_OUTCOMES

    async def _open_once(self) -> Validator:
        async with self._opening:
            if self._validator is None:
                self._validator = await asyncio.to_thread(self.open_validator)
            return self._validator


def validate_fast(text: str, lists: Lists, policy: VerdictPolicy) -> dict[str, Any]:
    """Validate one address, as it came but without lone surrogates, by syntax and lists; without a frame.

    Returns:
        The 13 fields.
    """
    parsed = parse_cell(text)
    return judge_one(parsed, lists.describe_one(parsed), policy)


@dataclass(frozen=True, slots=True)
class _BatchVerdicts:
    """Verdicts by text, how many distinct addresses they are about, and how many mail servers answered."""

    verdicts: Mapping[str, dict[str, Any]]
    distinct: int
    probes: int


async def _validate_texts(
    texts: list[str], options: SingleOptions, known: OutcomeFacts, validator: Validator
) -> _BatchVerdicts:
    """Take some distinct texts through the pipeline as a small list."""
    import polars as pl  # noqa: PLC0415 - frames are for those who look further than the lists

    from mailsift.pipeline.syntax.column import parse_cells  # noqa: PLC0415 - see above
    from mailsift.pipeline.validator import ValidationRequest  # noqa: PLC0415 - see above

    parsed = parse_cells(pl.Series("raw", texts, pl.String))
    # texts of one canonical address are one; those that are none stand for themselves
    pairs = parsed.select("address", "rule").iter_rows()
    keys = [f" {text}" if rule else address for (address, rule), text in zip(pairs, texts, strict=True)]
    places: dict[str, int] = {}
    numbers = [places.setdefault(key, len(places)) for key in keys]
    frame = parsed.with_columns(
        pl.Series("n", numbers, pl.UInt32), pl.lit(1, pl.UInt32).alias("rows")
    ).unique("n", keep="first", maintain_order=True)
    request = ValidationRequest(
        options.mode,
        evidence=options.evidence,
        max_age=_MAX_AGE if options.max_age is None else options.max_age,
        session_s=inf,
        owner=options.owner,
        outcomes=known,
    )
    ends_at = asyncio.get_running_loop().time() + options.deadline
    result = await validator.validate_until(frame, request, ends_at)
    wanted = [*VERDICT_FIELDS, "evidence"] if options.evidence else list(VERDICT_FIELDS)
    by_number = {row.pop("n"): row for row in result.finished.select("n", *wanted).iter_rows(named=True)}
    verdicts = {text: by_number[number] for text, number in zip(texts, numbers, strict=True)}
    return _BatchVerdicts(verdicts, len(places), result.probes)
