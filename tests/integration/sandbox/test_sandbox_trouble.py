"""Mail servers that are slow, silent, rude or hostile, and what is counted of them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig

Dial = Callable[[str], Awaitable[Any]]


async def test_a_tarpit_works_on_one_reply_after_the_other(dial: Dial) -> None:
    began = time.monotonic()
    talk = await dial("tarpit")
    await talk.open_mail()
    talk.send(*(f"RCPT TO:<known{n}@tarpit.sandbox.test>" for n in range(3)))
    assert [(await talk.reply())[0] for _ in range(3)] == [250] * 3
    assert time.monotonic() - began >= 6 * 0.15


async def test_a_dripping_server_sends_a_byte_at_a_time(dial: Dial) -> None:
    talk = await dial("drip")
    began = time.monotonic()
    code, text = await talk.reply()
    assert code == 220
    assert time.monotonic() - began >= len(text) * 0.02


@pytest.mark.parametrize("command", ["mail", "rcpt"])
async def test_a_connection_is_dropped_in_mid_session_every_time(dial: Dial, command: str) -> None:
    for _ in range(2):
        talk = await dial(f"drop-{command}")
        await talk.reply()
        assert (await talk.say("EHLO probe"))[0] == 250
        if command == "rcpt":
            assert (await talk.say("MAIL FROM:<>"))[0] == 250
        talk.send("MAIL FROM:<>" if command == "mail" else "RCPT TO:<known@drop-rcpt.sandbox.test>")
        assert await talk.reply() == (0, "")


async def test_a_connection_that_is_dropped_once_holds_the_next_time(dial: Dial) -> None:
    codes = []
    for _ in range(2):
        talk = await dial("drop-once")
        await talk.open_mail()
        codes.append((await talk.rcpt("known@drop-once.sandbox.test"))[0])
    assert codes == [0, 250]


async def test_a_reset_comes_before_the_banner(dial: Dial, sandbox: Sandbox) -> None:
    with pytest.raises(ConnectionResetError):
        await (await dial("reset")).reply()
    assert sandbox.counters.snapshot()["turned_away"] == 1


async def test_nobody_listens_where_connections_are_refused(dial: Dial) -> None:
    with pytest.raises(OSError, match=r"Connect call failed|Cannot assign"):
        await dial("refused")


async def test_a_black_hole_never_answers_the_handshake(sandbox: Sandbox) -> None:
    address = sandbox.world.hosts["mx.blackhole-host.test"].address
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection(address, sandbox.smtp_port), 0.3)


async def test_a_mute_server_says_nothing_whatever_it_hears(dial: Dial) -> None:
    talk = await dial("mute")
    talk.send("EHLO probe", "QUIT")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(talk.reader.read(1), 0.3)


async def test_a_busy_server_says_421_and_leaves(dial: Dial) -> None:
    talk = await dial("busy")
    assert (await talk.reply())[0] == 421
    assert await talk.reply() == (0, "")


@pytest.mark.parametrize("kind", ["refused", "reset", "blackhole", "busy"])
async def test_behind_a_first_exchanger_in_trouble_there_is_a_second_that_works(
    dial: Dial, sandbox: Sandbox, kind: str
) -> None:
    domain = sandbox.world.find(f"next-mx-{kind}.sandbox.test")
    assert domain is not None
    first, second = domain.exchangers
    assert first < second
    assert sandbox.world.hosts[first[1]].policy.on_connect.value == kind
    talk = await dial(second[1])
    await talk.open_mail()
    assert (await talk.rcpt(f"known@{domain.name}"))[0] == 250


async def test_an_endless_reply_goes_on_until_the_client_leaves(dial: Dial, sandbox: Sandbox) -> None:
    talk = await dial("endless-reply")
    await talk.reply()
    talk.send("EHLO probe")
    data = await talk.reader.readexactly(300_000)
    assert all(line.startswith(b"250-") for line in data.split(b"\r\n")[:-1])
    await talk.close()
    async with asyncio.timeout(5):
        while sandbox.counters.snapshot()["open_sessions"]:  # noqa: ASYNC110 - what ends is in the server
            await asyncio.sleep(0.01)


async def test_a_giant_line_has_no_end(dial: Dial) -> None:
    talk = await dial("giant-line")
    data = await talk.reader.readexactly(300_000)
    assert data.startswith(b"220 AAAA")
    assert b"\n" not in data


async def test_a_banner_with_control_bytes_belongs_to_a_server_that_works(dial: Dial) -> None:
    talk = await dial("control-banner")
    banner = await talk.reader.readline()
    assert banner.startswith(b"220 ")
    assert banner.count(b"\n") == 1
    assert {0, 7, 27, 11} <= set(banner)
    await talk.say("EHLO probe")
    await talk.say("MAIL FROM:<>")
    assert (await talk.rcpt("known@control-banner.sandbox.test"))[0] == 250


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("RCPT TO:<known@ordinary.sandbox.test>", 503),
        ("MAIL FROM:<>", 503),
        ("RSET", 250),
        ("NOOP", 250),
        ("VRFY known", 252),
        ("DATA", 554),
        ("TURN", 502),
        ("", 502),
    ],
)
async def test_commands_out_of_order_or_unknown(dial: Dial, command: str, code: int) -> None:
    talk = await dial("ordinary")
    await talk.reply()
    assert (await talk.say(command))[0] == code


async def test_bad_paths_nested_mail_and_overlong_lines_are_refused(dial: Dial) -> None:
    talk = await dial("ordinary")
    await talk.open_mail()
    assert (await talk.say("MAIL FROM:<>"))[0] == 503
    assert (await talk.say("RCPT TO:known@ordinary.sandbox.test"))[0] == 501
    assert (await talk.rcpt("nobody"))[0] == 501
    talk.writer.write(b"A" * 5000)
    assert (await talk.reply())[0] == 500
    assert await talk.reply() == (0, "")


async def test_the_counters_see_sessions_recipients_and_control_bytes(dial: Dial, sandbox: Sandbox) -> None:
    talks = [await dial("ordinary") for _ in range(3)]
    for talk in talks:
        await talk.open_mail()
    for n in range(10):
        await talks[0].rcpt(f"known{n}@ordinary.sandbox.test")
    await talks[0].say("NOOP \x07")
    await talks[1].say("DATA")
    await talks[2].say("QUIT")
    await talks[2].reply()
    counts = sandbox.counters.snapshot()
    label, address = "ordinary-host.test", sandbox.world.hosts["mx.ordinary-host.test"].address
    assert counts["connections"] == counts["peak_sessions"] == 3
    assert counts["open_sessions"] == 2
    assert counts["rcpts"] == counts["rcpts_by_provider"][label] == 10
    assert counts["connections_by_provider"] == counts["peak_sessions_by_provider"] == {label: 3}
    assert counts["peak_sessions_by_host"] == {address: 3}
    assert counts["peak_rcpts_per_second_by_provider"] == {label: 10}
    assert (counts["control_bytes"], counts["data"]) == (1, 1)
    sandbox.counters.reset()
    counts = sandbox.counters.snapshot()
    assert (counts["connections"], counts["rcpts"], counts["peak_sessions"]) == (0, 0, 2)


async def test_an_address_that_is_no_server_of_the_world_hangs_up(sandbox: Sandbox) -> None:
    assert await _hear_at("127.99.99.99", sandbox.smtp_port) == b""


async def test_a_port_that_is_taken_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(OSError, match="in use"):
        await Sandbox(SandboxConfig(domains=1, smtp_port=sandbox.smtp_port)).start()


async def test_nobody_from_outside_can_talk_to_it(sandbox: Sandbox) -> None:
    assert await _hear_at(_own_address(), sandbox.smtp_port) == b""


def _own_address() -> str:
    """This machine's address on its way out, found without sending anything; an unused one without a way."""
    with socket.socket(type=socket.SOCK_DGRAM) as compass:
        try:
            compass.connect(("192.0.2.1", 9))
        except OSError:
            return "127.99.99.99"
        return str(compass.getsockname()[0])


async def _hear_at(address: str, port: int) -> bytes:
    """What is said to a client at an address; nothing when it cannot connect."""
    try:
        reader, writer = await asyncio.open_connection(address, port)
        writer.close()
        return await reader.read()
    except OSError:
        return b""
