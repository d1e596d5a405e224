"""What a finished session means for its addresses: facts, waits, another session or the next server; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact
from pipeline.ports import Outcome
from pipeline.probe_cache import DEFINITE
from pipeline.probe_config import ProbeConfig
from pipeline.probe_limits import Learned, is_session_limit, wants_one_domain
from pipeline.probe_plan import Board, Book, Lane, Visit
from pipeline.probe_reading import CATCH_ALL, NOT_WORTH_ASKING, Listener, Said, blanket_of
from pipeline.replies import Reply, Stage
from pipeline.smtp_link import Ending
from pipeline.smtp_session import Group, Heard, SessionLog


class WaitReason(StrEnum):
    """Why an address has to come back."""

    THROTTLED = "throttled"  # our own politeness
    GREYLISTED = "greylisted"
    DEFERRED = "deferred"  # the server said "later" or hung up
    SLOW = "slow"  # the session took longer than it was given
    BUDGET = "budget"  # the call was over before its turn came


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


_WAITS: Final = {
    Answer.GREYLISTED: WaitReason.GREYLISTED,
    Answer.RATE_LIMITED: WaitReason.DEFERRED,
    Answer.TEMPORARY: WaitReason.DEFERRED,
}
_LATER: Final = frozenset(_WAITS)
_MAX_DROPS: Final = 3
