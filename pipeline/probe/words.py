"""What goes into the prober and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.facts import CatchAllFact, DomainFact, MailboxFact


@dataclass(frozen=True, slots=True)
class Target:
    """One mailbox to ask about.

    Attributes:
        address, local, domain: canonical.
        fact: what DNS said; its state is ROUTED.
    """

    address: str
    local: str
    domain: str
    fact: DomainFact


class WaitReason(StrEnum):
    """Why an address has to come back."""

    THROTTLED = "throttled"  # our own politeness
    GREYLISTED = "greylisted"
    DEFERRED = "deferred"  # the server said "later" or hung up
    BLOCKED = "blocked"  # the provider refuses us again and again, so it is left alone for a while
    SLOW = "slow"  # the session took longer than it was given
    BUDGET = "budget"  # the call was over before its turn came


SURVEY = "survey"
"""The reason of addresses that were handed back unasked because there were too many for one sitting."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An address that is not finished.

    Attributes:
        reason: see WaitReason.
        delay: seconds until asking again makes sense, as far as anybody said; else 0.
    """

    reason: WaitReason
    delay: float


@dataclass(frozen=True, slots=True)
class Probed:
    """What a call to the prober found out.

    An address that waits may have a fact beside it: what to judge from when nobody will come back.

    Attributes:
        mailboxes: facts by address.
        catch_alls: facts by domain.
        waits: addresses that are not finished.
    """

    mailboxes: dict[str, MailboxFact]
    catch_alls: dict[str, CatchAllFact]
    waits: dict[str, Wait]
