"""Clocks: time is passed in, so tests move it instead of sleeping; one stands still while nobody listens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

Clock = Callable[[], float]
"""Returns the time now in seconds since the Unix epoch."""

system_clock: Clock = time.time  # noqa: TID251 - the one place that reads the wall clock


def utc_datetime(epoch: float) -> datetime:
    """Return epoch seconds as a time in UTC."""
    return datetime.fromtimestamp(epoch, UTC)


class SharedClock:
    """Tells seconds since the epoch: this machine's, until it has learned those that all machines share.

    What was learned is counted on by a clock that never jumps; it stands still while a machine sleeps, so let
    it learn again from time to time.

    Args:
        system: the time of day of this machine.
        monotonic: seconds.
    """

    def __init__(
        self, *, system: Clock = system_clock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._system = system
        self._monotonic = monotonic
        self._ahead: float | None = None

    def __call__(self) -> float:
        """Return the time."""
        return self._system() if self._ahead is None else self._ahead + self._monotonic()

    def learn(self, now: float) -> None:
        """Take the function that returns the time everybody goes by."""
        self._ahead = now - self._monotonic()


# A clock that stands still while the event loop gets no turn: patience with others, not with ourselves.

_TICK_S: Final = 0.05
"""Seconds between two looks at the loop's lag."""

_PUNCTUAL_S: Final = 0.005  # timers have a granularity; what is later than this is lag


class FairClock:
    """Seconds during which this process could have heard an answer.

    A server that is silent while our own loop is busy, or has no processor, has said nothing yet; who
    measures patience with this clock waits as much longer as the loop was late.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lost = 0.0
        self._expected = float("inf")

    def now(self) -> float:
        """Return the seconds so far; differences mean something, the value does not."""
        now = self._loop.time()
        return now - self._lost - max(0.0, now - self._expected)

    def expect(self) -> float:
        """Take note of the lag of a timer that fires now; return after how many seconds it has to fire again.

        Whoever measures with this clock calls it from one timer, as often as it says.
        """
        now = self._loop.time()
        late = now - self._expected
        if late > _PUNCTUAL_S:
            self._lost += late
        self._expected = now + _TICK_S
        return _TICK_S

    def rest(self) -> None:
        """Take note that the timer is not running: nothing is being waited for."""
        self._expected = float("inf")


class FairTimeout:
    """`asyncio.timeout`, but with a FairClock: the seconds in which our loop got no turn do not count.

    Args:
        within: seconds.

    Raises:
        TimeoutError: at the end of the block, when the time was over before.
    """

    def __init__(self, within: float) -> None:
        self._within = within
        self._timeout = asyncio.timeout(None)
        self._deadline = FairDeadline(within)

    async def __aenter__(self) -> None:
        self._deadline.__enter__()
        self._timer = asyncio.get_running_loop().call_later(self._within, self._check)
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._deadline.__exit__()
        await self._timeout.__aexit__(kind, error, trace)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._deadline.left
        if left > 0:
            self._timer = loop.call_later(left, self._check)
        else:
            self._timeout.reschedule(loop.time())


class FairDeadline:
    """Seconds for a piece of work on a FairClock; a context manager.

    Args:
        within: seconds from entering on.
    """

    def __init__(self, within: float) -> None:
        self._within = within

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._ticker = _TICKERS.setdefault(loop, _Ticker(loop))
        self._ticker.enter()
        self._ends_at = self._ticker.clock.now() + self._within
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.leave()

    @property
    def left(self) -> float:
        """The seconds that are left; 0 or less when the time is over."""
        return self._ends_at - self._ticker.clock.now()


class _Ticker:
    """Runs the clock that all timeouts of a loop share, while there are any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = FairClock(loop)
        self._loop = loop
        self._waiting = 0
        self._tick: asyncio.TimerHandle | None = None

    def enter(self) -> None:
        self._waiting += 1
        if self._tick is None:
            self._pass_time()

    def leave(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._tick is not None:
            self._tick.cancel()
            del _TICKERS[self._loop]

    def _pass_time(self) -> None:
        self._tick = self._loop.call_later(self.clock.expect(), self._pass_time)


_TICKERS: Final[dict[asyncio.AbstractEventLoop, _Ticker]] = {}
"""Of the loops on which somebody waits."""
