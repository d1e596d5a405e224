"""Keeps a source below what gateways take for harvesting: unknown recipients of a minute, half of all."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, NamedTuple

from mailsift.pipeline.standing import Heard, LedgerKind

WINDOW_SECONDS: Final = 65.0
"""A minute, and what their clock and the way there may differ by."""

Place = tuple[str, str]


class _AskedSession(NamedTuple):
    at: float
    asked: int
    unknown: int


class HarvestGuard:
    """What this process asked of watchful gateways within the last minute, by provider and source.

    A gateway blocks a source for hours when so many recipients of a minute are unknown and are half of all it
    asked for. So a session is only as large as it may be if every single one of its recipients is unknown.
    """

    def __init__(self) -> None:
        self._sessions: dict[Place, deque[_AskedSession]] = {}
        self._open: Counter[Place] = Counter()

    def room(self, place: Place, *, most: int, now: float) -> int:
        """Return how many recipients may be asked for now, 0 for none.

        Args:
            place: provider and source.
            most: unknown recipients at which the provider blocks us.
            now: seconds of a clock that never jumps.
        """
        sessions = self._recent(place, now)
        asked = sum(one.asked for one in sessions) + self._open[place]
        unknown = sum(one.unknown for one in sessions) + self._open[place]
        return max(0, most - 1 - unknown, asked - 2 * unknown - 1)

    def opens_in(self, place: Place, now: float) -> float:
        """Return in how many seconds the eldest session is forgotten."""
        sessions = self._recent(place, now)
        return sessions[0].at + WINDOW_SECONDS - now if sessions else 1.0

    def begin(self, place: Place, recipients: int) -> None:
        """Count a session that begins: each of its recipients may be unknown."""
        self._open[place] += recipients

    def end(self, place: Place, recipients: int, heard: Heard, *, sent: int, now: float) -> None:
        """Count what became of it; a recipient without an answer counts as unknown."""
        self._open[place] -= recipients
        unanswered = max(0, sent - heard.of(LedgerKind.PROBES))
        unknown = heard.of(LedgerKind.UNKNOWN, LedgerKind.RANDOM) + unanswered
        if sent:
            self._sessions.setdefault(place, deque()).append(_AskedSession(now, sent, unknown))

    def _recent(self, place: Place, now: float) -> deque[_AskedSession]:
        sessions = self._sessions.setdefault(place, deque())
        while sessions and now - sessions[0].at >= WINDOW_SECONDS:
            sessions.popleft()
        return sessions
