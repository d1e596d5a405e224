"""What to do with a judged address: send, review or remove, by a policy and by nothing else.

A verdict says what is known; a tier says what somebody wants to do about it. So a tier is never stored with a
verdict: it is read off the fields of the result, and another policy needs nobody to be asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import polars as pl

from mailsift.pipeline.verdict import DID_YOU_MEAN, Result, Status


class Tier(StrEnum):
    """What to do with an address."""

    SEND = "send"
    REVIEW = "review"
    REMOVE = "remove"


class Unwanted(StrEnum):
    """Why an account may not send to an address."""

    COMPLAINED = "complained"  # its reader called a message spam
    UNSUBSCRIBED = "unsubscribed"
    SUPPRESSED = "suppressed"  # it stands on the account's list for another reason


def unwanted_by(reason: str) -> Unwanted:
    """Return what the reason of a suppression comes to; every other one is SUPPRESSED."""
    return Unwanted(reason) if reason in set(Unwanted) else Unwanted.SUPPRESSED


_SEND, _REVIEW, _REMOVE = Tier.SEND, Tier.REVIEW, Tier.REMOVE
_NO_SCORE: Final = "a score is a whole number from 0 to 100"


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """What an account wants done; each field but `minimum_score` names a rule of RULES.

    What is invalid is removed whatever the policy says, and who complained, unsubscribed or is suppressed is
    never sent to.

    Raises:
        ValueError: `send` for one of the last three, or a score that is none.
    """

    complained: Tier = _REMOVE
    unsubscribed: Tier = _REMOVE
    suppressed: Tier = _REMOVE
    disposable: Tier = _REMOVE
    mailbox_full: Tier = _REVIEW
    catch_all: Tier = _REVIEW
    unverifiable: Tier = _REVIEW
    unknown: Tier = _REVIEW
    passed: Tier = _SEND
    suggestion: Tier = _REVIEW
    role: Tier = _SEND
    free: Tier = _SEND
    low_score: Tier = _REVIEW
    minimum_score: int = 0

    def __post_init__(self) -> None:
        """Refuse what no policy may say."""
        if any(getattr(self, name) is _SEND for name in Unwanted):
            raise ValueError("who complained, unsubscribed or is suppressed is never sent to")
        if not 0 <= self.minimum_score <= 100:
            raise ValueError(_NO_SCORE)

    def as_json(self) -> dict[str, Any]:
        """Return it for `read`."""
        return asdict(self)

    @classmethod
    def parse(cls, written: Mapping[str, Any]) -> TierPolicy:
        """Return what somebody has written; what it does not say is the default.

        Raises:
            ValueError: a member or value is none.
        """
        unknown_names = set(written) - {field.name for field in fields(cls)}
        if unknown_names:
            raise ValueError(f"there is no `{min(unknown_names)}`")
        return cls.read(written)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> TierPolicy:
        """Return what was stored; what it does not say, or says for a later release, is the default.

        Raises:
            ValueError: a value is none.
        """
        names = {field.name for field in fields(cls)}
        known = {name: value for name, value in stored.items() if name in names}
        score = _whole(known.pop("minimum_score", 0))
        return cls(**{name: Tier(value) for name, value in known.items()}, minimum_score=score)


def _whole(written: Any) -> int:
    """Return a whole number, however JSON or a form writes it.

    Raises:
        ValueError: it is none.
    """
    try:
        number = int(written)
    except (ValueError, TypeError, OverflowError):  # no number, NaN, infinite
        raise ValueError(_NO_SCORE) from None
    if isinstance(written, bool) or (isinstance(written, float) and number != written):
        raise ValueError(_NO_SCORE)
    return number


@dataclass(frozen=True, slots=True)
class TierRule:
    """One ground for a tier: its name, and the field that has one of these values."""

    name: str
    field: str
    values: frozenset[Any]


def _rule(name: str, field: str, *values: Any) -> TierRule:
    return TierRule(name, field, frozenset(values))


_R, _YES = Result, True
# fmt: off
RULES: Final = (
    #     rule            field of the result   holds one of
    _rule("complained",   "unwanted",           Unwanted.COMPLAINED),
    _rule("unsubscribed", "unwanted",           Unwanted.UNSUBSCRIBED),
    _rule("suppressed",   "unwanted",           Unwanted.SUPPRESSED),
    _rule("invalid",      "status",             Status.INVALID),
    _rule("disposable",   "is_disposable",      _YES),
    _rule("mailbox_full", "result",             _R.MAILBOX_FULL),
    _rule("catch_all",    "result",             _R.CATCH_ALL),
    _rule("unverifiable", "result",             _R.UNVERIFIABLE),
    _rule("unknown",      "result",             _R.DEFERRED, _R.NOT_ASKED, _R.PROBE_BLOCKED, _R.UNREACHABLE,
                                                _R.DNS_UNAVAILABLE, _R.PROBE_UNAVAILABLE, _R.UNKNOWN_SUFFIX),
    _rule("passed",       "result",             _R.PASSED),
    _rule("suggestion",   "meant",              _YES),   # another address was probably meant
    _rule("role",         "is_role_based",      _YES),
    _rule("free",         "is_free",            _YES),
    _rule("low_score",    "low_score",          _YES),   # below the policy's minimum
)
# fmt: on
"""All grounds there are; where several hold, the strictest tier counts, and of equal ones the first."""

TIER_FIELDS: Final = (
    "unwanted",
    "status",
    "is_disposable",
    "result",
    "suggestion",
    "is_role_based",
    "is_free",
    "score",
)
"""What a tier is read off."""

_SUGGESTION_START: Final = DID_YOU_MEAN.partition("{")[0]
_STRICTEST_FIRST: Final = (_REMOVE, _REVIEW)


def reason_of(row: Mapping[str, Any], policy: TierPolicy) -> str:
    """Return the rule that decides about a result, "" where nothing speaks against sending.

    The row has the TIER_FIELDS; `unwanted` may be missing.
    """
    values = {
        "unwanted": "",
        **row,
        "meant": _SUGGESTION_START in row["suggestion"],
        "low_score": row["score"] < policy.minimum_score,
    }
    return next(
        (rule.name for rule, _ in _rules_by_strictness(policy) if values[rule.field] in rule.values), ""
    )


def tier_of(row: Mapping[str, Any], policy: TierPolicy) -> Tier:
    """Return the tier of a result; arguments as for `reason_of`."""
    reason = reason_of(row, policy)
    return _tier_for_rule(policy, reason) if reason else _SEND


def reason_expression(policy: TierPolicy, prefix: str) -> pl.Expr:
    """Return `reason_of` for a frame whose columns are TIER_FIELDS behind a prefix."""
    return _first_match(
        [(_condition(rule, policy, prefix), rule.name) for rule, _ in _rules_by_strictness(policy)], ""
    )


@lru_cache(maxsize=256)  # to make it takes longer than to read a small list by it
def tier_expression(policy: TierPolicy, prefix: str = "") -> pl.Expr:
    """Return `tier_of` for a frame whose columns are TIER_FIELDS behind a prefix."""
    rules = [(_condition(rule, policy, prefix), tier.value) for rule, tier in _rules_by_strictness(policy)]
    return _first_match(rules, _SEND.value)


def _rules_by_strictness(policy: TierPolicy) -> Iterator[tuple[TierRule, Tier]]:
    """Yield the rules that speak against sending, the strictest first."""
    for tier in _STRICTEST_FIRST:
        yield from ((rule, tier) for rule in RULES if _tier_for_rule(policy, rule.name) is tier)


def _tier_for_rule(policy: TierPolicy, name: str) -> Tier:
    tier: Tier = _REMOVE if name == "invalid" else getattr(policy, name)
    return tier


def _condition(rule: TierRule, policy: TierPolicy, prefix: str) -> pl.Expr:
    if rule.field == "meant":
        return pl.col(f"{prefix}suggestion").str.contains(_SUGGESTION_START, literal=True)
    if rule.field == "low_score":
        return pl.col(f"{prefix}score") < policy.minimum_score
    column = pl.col(prefix + rule.field)
    return column if rule.values == {_YES} else column.is_in(sorted(map(str, rule.values)))


def _first_match(rules: Collection[tuple[pl.Expr, str]], otherwise: str) -> pl.Expr:
    """Return the value of the first condition that holds."""
    expression = pl.lit(otherwise)
    for condition, value in reversed([*rules]):
        expression = pl.when(condition).then(pl.lit(value)).otherwise(expression)
    return expression
