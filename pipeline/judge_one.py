"""The verdict on one address by syntax, lists and DNS, without a frame; judge_frame says the same of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mailsift.pipeline.facts import DomainState, Mode
from mailsift.pipeline.lists import AddressKnowledge
from mailsift.pipeline.syntax.address import ParsedAddress
from mailsift.pipeline.verdict import DID_YOU_MEAN, Evidence, Verdict, VerdictPolicy, judge

VERDICT_FIELDS: Final = tuple(one.name for one in fields(Verdict))
"""The 13 of the contract, in its order."""


class FurtherFacts(NamedTuple):
    """What is known beyond syntax and lists.

    Attributes:
        mode: how far was looked: fast, or medium where DNS was asked.
        domain: what DNS said.
        unwanted: why the account may not send there, "" for no reason.
    """

    mode: Mode = Mode.FAST
    domain: DomainState = DomainState.NOT_ASKED
    unwanted: str = ""


NO_FURTHER_FACTS: Final = FurtherFacts()


def judge_one(
    parsed: ParsedAddress,
    known: AddressKnowledge,
    policy: VerdictPolicy,
    further: FurtherFacts = NO_FURTHER_FACTS,
) -> dict[str, Any]:
    """Return the 13 fields for an address of which no mail server and no outcome has a say.

    Args:
        parsed: the address.
        known: what the lists know of it.
        policy: how facts are weighed.
        further: what else is known.
    """
    meant = known.meant
    verdict = dict(_judged(parsed.rule, known._replace(meant="") if meant else known, further, policy))
    if not meant and known.domain.suggested_domain and parsed.local:
        meant = f"{parsed.local}@{known.domain.suggested_domain}"
    if meant:
        verdict["suggestion"] = DID_YOU_MEAN.format(meant)
    return verdict


@lru_cache(maxsize=4_096)
def _judged(
    rule: str, known: AddressKnowledge, further: FurtherFacts, policy: VerdictPolicy
) -> Mapping[str, Any]:
    """Return the 13 fields; what is known is nearly always the same."""
    evidence = Evidence(
        mode=further.mode,
        syntax_rule=rule,
        role=known.role,
        free=known.domain.free,
        disposable=known.domain.disposable,
        suggested_domain=known.domain.suggested_domain,
        unknown_suffix=known.domain.unknown_suffix,
        look_alike=known.look_alike,
        domain=further.domain,
        unwanted=further.unwanted,
    )
    verdict = judge(evidence, policy)
    return {name: getattr(verdict, name) for name in VERDICT_FIELDS}
