"""However many ask and however they ask: never over the rate in any window, never over the sessions."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, Report, SessionOutcome, Throttle, provider_at_step
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import LocalThrottle, ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle

START = 1_800_000_000.0
ROOMY = 10**6
CONFIG = ThrottleConfig(
    lease_seconds=30,
    session_seconds=30,
    address_sessions=ROOMY,
    address_rate=1e6,
    address_burst=ROOMY,
)
STEPS = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0, 1), st.floats(0, 40)),  # seconds that pass
        st.integers(1, 60),  # recipients wanted
        st.one_of(st.none(), st.sampled_from(SessionOutcome)),  # how an earlier session ends, if one does
    ),
    min_size=15,
    max_size=60,
)
numbers = itertools.count()


def row(key: str) -> Provider:
    rate, burst, sessions = key.split("/")[1:]
    return Provider(key, sessions=int(sessions), rate=float(rate), burst=int(burst), recipients=50)


def most_over(grants: Sequence[tuple[float, float, int]], rate: float, burst: int) -> float:
    """By how much a window exceeds burst + rate x length; a grant is (not before, not after, recipients)."""
    worst = float("-inf")
    by_end = sorted(grants, key=lambda grant: grant[1])
    for start, _, _ in grants:
        total = 0
        for earliest, latest, count in by_end:
            if earliest >= start:  # surely inside the window from start to latest
                total += count
                worst = max(worst, total - burst - rate * (latest - start))
    return worst


def most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """The most spans that surely overlap."""
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    return max(itertools.accumulate(change for _, change in changes), default=0)


async def play(
    throttle: Throttle,
    provider: str,
    steps: Sequence[tuple[float, int, SessionOutcome | None]],
    move: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    """Ask and report as the steps say; check every promise on the way."""
    limit = row(provider)
    open_sessions: list[tuple[float, Report]] = []
    granted: list[tuple[float, float, int]] = []
    for passed, wanted, outcome in steps:
        move(passed)
        open_sessions = _surely_open(open_sessions, clock())
        if open_sessions and outcome is not None:
            _, report = open_sessions.pop(0)
            await throttle.report([Report(report.ask, report.lease, outcome)])
        ask, before = Ask(provider, "", "192.0.2.1", wanted), clock()
        (grant,) = await throttle.grant([ask])
        if grant.recipients:
            granted.append((before, clock(), grant.recipients))
            open_sessions.append(
                (before + CONFIG.lease_seconds, Report(ask, grant.lease, SessionOutcome.CLEAN))
            )
        else:
            assert grant.retry_after > 0
        assert grant.recipients <= min(wanted, limit.recipients)
        open_sessions = _surely_open(open_sessions, clock())
        assert len(open_sessions) <= limit.sessions
    assert most_over(granted, limit.rate, limit.burst) < 0.01


def _surely_open(sessions: Sequence[tuple[float, Report]], now: float) -> list[tuple[float, Report]]:
    return [(end, report) for end, report in sessions if end > now]


@pytest.mark.parametrize("kind", ["redis", "alone"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.floats(0.1, 1000), burst=st.integers(1, 100), sessions=st.integers(1, 5), steps=STEPS)
def test_no_sequence_of_asks_and_reports_gets_more_than_the_limits(
    redis_url: str,
    kind: str,
    rate: float,
    burst: int,
    sessions: int,
    steps: list[tuple[float, int, SessionOutcome | None]],
) -> None:
    began, moved = time.monotonic(), 0.0

    def move(seconds: float) -> None:
        nonlocal moved
        moved += seconds

    def clock() -> float:  # goes on by itself, too: keys expire by the server's
        return START + moved + time.monotonic() - began

    async def run() -> None:
        provider = f"{next(numbers)}/{rate!r}/{burst}/{sessions}"
        if kind == "alone":
            alone = LocalThrottle(row, CONFIG, clock=clock, random=Random(1))
            await play(alone, provider, steps, move, clock)
            return
        async with connect(redis_url) as redis:
            await redis.flushdb()
            shared = RedisThrottle(redis, row=row, config=CONFIG, clock=clock)
            await play(shared, provider, steps, move, clock)

    asyncio.run(run())


WORKERS = 5
FLEET = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0, 20)),  # seconds that pass
        st.integers(0, WORKERS - 1),  # who asks
        st.sampled_from(["192.0.2.101", "192.0.2.102", "socks5://192.0.2.9:1080"]),
        st.integers(1, 60),  # recipients wanted
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.floats(0.1, 1000), burst=st.integers(1, 100), steps=FLEET)
def test_every_identity_has_its_rate_whichever_workers_ask_from_it(
    redis_url: str, rate: float, burst: int, steps: list[tuple[float, int, str, int]]
) -> None:
    began, moved = time.monotonic(), 0.0

    def clock() -> float:  # goes on by itself, too: keys expire by the server's
        return START + moved + time.monotonic() - began

    async def run() -> None:
        nonlocal moved
        provider = f"{next(numbers)}/{rate!r}/{burst}/{ROOMY}"
        granted: dict[str, list[tuple[float, float, int]]] = {}
        async with AsyncExitStack() as closing:
            clients = [await closing.enter_async_context(connect(redis_url)) for _ in range(WORKERS)]
            await clients[0].flushdb()
            fleet = [RedisThrottle(one, row=row, config=CONFIG, clock=clock) for one in clients]
            for passed, worker, source, wanted in steps:
                moved += passed
                before = clock()
                (grant,) = await fleet[worker].grant([Ask(provider, source, "192.0.2.1", wanted)])
                if source not in granted:  # whatever others took elsewhere
                    assert grant.recipients == min(wanted, burst, 50)
                granted.setdefault(source, []).append((before, clock(), grant.recipients))
        assert all(most_over(one, rate, burst) < 0.01 for one in granted.values())

    asyncio.run(run())


PACES = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 3), st.integers(1, 60)), min_size=20, max_size=80)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=PACES)
def test_workers_that_know_of_different_paces_stay_under_the_fastest(
    redis_url: str, steps: list[tuple[float, int, int]]
) -> None:
    began, moved = time.monotonic(), 0.0
    base = Provider("p", sessions=ROOMY, rate=2.0, burst=50, ceiling=16.0)

    def clock() -> float:  # goes on by itself, too: keys expire by the server's
        return START + moved + time.monotonic() - began

    async def run() -> None:
        nonlocal moved
        provider, granted = f"paced{next(numbers)}", []
        async with AsyncExitStack() as closing:
            clients = [await closing.enter_async_context(connect(redis_url)) for _ in range(4)]
            await clients[0].flushdb()
            rows = [provider_at_step(base, step) for step in range(4)]
            fleet = [
                RedisThrottle(one, row=lambda _, row=row: row, config=CONFIG, clock=clock)  # type: ignore[misc]  # mypy sees no type in a default
                for one, row in zip(clients, rows, strict=True)
            ]
            for passed, worker, wanted in steps:
                moved += passed
                before = clock()
                (grant,) = await fleet[worker].grant([Ask(provider, "", "192.0.2.1", wanted)])
                granted.append((before, clock(), grant.recipients))
        fastest = rows[max(worker for _, worker, _ in steps)]
        assert most_over(granted, fastest.rate, max(row.burst for row in rows)) < 0.01

    asyncio.run(run())


CLIENT = """
import asyncio, json, sys, time
from mailsift.pipeline.throttle import Ask, SessionOutcome, Report
from mailsift.pipeline.providers import Provider
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle

url, seconds, source = sys.argv[1], float(sys.argv[2]), sys.argv[3]
row = Provider("p", sessions=3, rate=200.0, burst=20, recipients=10)
grants, spans = [], []

async def worker(throttle, end, wanted):
    ask = Ask("p", source, "192.0.2.1", wanted)
    while (before := time.time()) < end:
        (grant,) = await throttle.grant([ask])
        after = time.time()
        if grant.recipients:
            grants.append((before, after, grant.recipients))
            await asyncio.sleep(0.002)  # the session
            spans.append((after, time.time()))
            await throttle.report([Report(ask, grant.lease, SessionOutcome.CLEAN)])
        else:
            await asyncio.sleep(min(grant.retry_after, 0.01))

async def main():
    async with connect(url) as redis:
        throttle = RedisThrottle(redis, row=lambda key: row, config=ThrottleConfig(address_rate=1e6))
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.time() + seconds
        await asyncio.gather(*(worker(throttle, end, wanted) for wanted in (1, 4, 10, 50)))
    print(json.dumps([grants, spans]))

asyncio.run(main())
"""


def start_client(code: str, *args: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_together_stay_under_one_limit_and_use_it(redis_url: str) -> None:
    seconds, rate, burst, sessions = 2.0, 200.0, 20, 3
    identities = ["192.0.2.101", "192.0.2.102"] * 2  # two workers share each
    clients = [start_client(CLIENT, redis_url, str(seconds), source) for source in identities]
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    answers = [json.loads(client.communicate(timeout=30)[0]) for client in clients]
    for one in range(2):
        grants = [tuple(grant) for answer in answers[one::2] for grant in answer[0]]
        spans = [tuple(span) for answer in answers[one::2] for span in answer[1]]
        assert most_over(grants, rate, burst) <= 0.01
        assert most_at_once(spans) <= sessions
        assert sum(count for _, _, count in grants) > rate * seconds * 0.5
    assert all(answer[0] for answer in answers)  # nobody starves


HOLDER = """
import asyncio, sys
from mailsift.pipeline.throttle import Ask
from mailsift.pipeline.providers import Provider
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle

async def main():
    async with connect(sys.argv[1]) as redis:
        row = Provider("p", sessions=2, rate=1000.0, burst=1000)
        throttle = RedisThrottle(redis, row=lambda key: row, config=ThrottleConfig(lease_seconds=30.0))
        grants = await throttle.grant([Ask("p", "", "192.0.2.1", 1)] * 2)
        assert all(grant.recipients for grant in grants)
        print("ready", flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


async def test_the_sessions_of_a_killed_process_are_free_when_their_leases_end(redis_url: str) -> None:
    holder = start_client(HOLDER, redis_url)
    ask = Ask("p", "", "192.0.2.1", 1)
    limit = Provider("p", sessions=2, rate=1000.0, burst=1000)
    passed = 0.0
    async with connect(redis_url) as redis:
        throttle = RedisThrottle(redis, row=lambda _: limit, clock=lambda: system_clock() + passed)
        (while_held,) = await throttle.grant([ask])
        assert while_held.recipients == 0
        holder.kill()
        holder.communicate()
        freed = while_held
        while not freed.recipients:
            passed += freed.retry_after
            assert passed < 60
            (freed,) = await throttle.grant([ask])
