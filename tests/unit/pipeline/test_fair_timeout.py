"""Patience with a server does not run while our own loop gets no turn."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref

import pytest

from mailsift.pipeline.clock import FairTimeout
from mailsift.pipeline.probe.config import Source
from mailsift.pipeline.probe.session import Ending, SessionError, dial
from tests.support.leaping_loop import LeapingLoop, hold_the_loop

OURS = Source(label="ours", bind="", proxy="", helo_name="prober.example")


async def test_an_answer_that_arrives_while_the_loop_is_held_is_no_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = await dial("127.0.0.1", server.getsockname()[1], OURS, within=5)
        accepted, _ = server.accept()
        with accepted:
            reading = asyncio.create_task(connection.reply(within=0.3))
            await asyncio.sleep(0)
            accepted.sendall(b"220 ready\r\n")
            hold_the_loop(0.5)
            assert (await reading).code == 220
            connection.close()


async def test_a_server_has_its_whole_time_after_the_loop_was_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = await dial("127.0.0.1", server.getsockname()[1], OURS, within=5)
        accepted, _ = server.accept()
        with accepted:
            reading = asyncio.create_task(connection.reply(within=0.6))
            await asyncio.sleep(0)
            hold_the_loop(0.8)
            asyncio.get_running_loop().call_later(0.15, accepted.sendall, b"220 ready\r\n")
            assert (await reading).code == 220
            connection.close()


async def test_a_silent_server_is_silent_on_a_loop_that_has_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = await dial("127.0.0.1", server.getsockname()[1], OURS, within=5)
        with pytest.raises(SessionError) as silent:
            await connection.reply(within=0.1)
        assert silent.value.ending is Ending.SLOW
        connection.close()


def test_a_timeout_is_over_at_last_and_keeps_no_hold_of_its_loop() -> None:
    async def wait() -> None:
        async with FairTimeout(0.05):
            hold_the_loop(0.2)
            await asyncio.Event().wait()

    loop = LeapingLoop()
    held = weakref.ref(loop)
    with pytest.raises(TimeoutError):
        loop.run_until_complete(wait())
    loop.close()
    del loop
    gc.collect(1)  # it is young, and what all tests before have made is not
    assert held() is None
