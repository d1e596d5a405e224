"""The delay line keeps order and time."""

from __future__ import annotations

import asyncio

from mailsift.sandbox.smtp_server import DelayLine


async def test_without_latency_bytes_go_out_at_once() -> None:
    written: list[bytes] = []
    line = DelayLine(asyncio.get_running_loop(), 0.0, written.append)
    line.put(b"a", then=lambda: written.append(b"!"))
    assert written == [b"a", b"!"]


async def test_what_is_put_first_comes_out_first_whatever_work_it_takes() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    written: list[bytes] = []
    line = DelayLine(loop, 0.03, written.append)
    began = loop.time()
    line.put(b"a", work=0.05)
    line.put(b"b")
    line.put(b"c", work=0.05)
    line.put(b"d", then=done.set)
    assert not written
    await asyncio.wait_for(done.wait(), 5)
    assert written == [b"a", b"b", b"c", b"d"]
    assert loop.time() - began >= 0.129


async def test_pipelined_bytes_wait_for_one_latency_together() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    line = DelayLine(loop, 0.1, lambda _data: None)
    began = loop.time()
    for _ in range(20):
        line.put(b"x")
    line.put(b"x", then=done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert 0.099 <= loop.time() - began < 1


async def test_what_is_cleared_never_comes_out() -> None:
    written: list[bytes] = []
    line = DelayLine(asyncio.get_running_loop(), 0.01, written.append)
    line.put(b"a")
    line.clear()
    done = asyncio.Event()
    line.put(b"b", then=done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert written == [b"b"]
