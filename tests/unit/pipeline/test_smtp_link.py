"""Dialling through a SOCKS5 proxy (RFC 1928)."""

from __future__ import annotations

import pytest

from mailsift.pipeline.probe.config import parse_source
from mailsift.pipeline.probe.session import Ending, SessionError, dial
from tests.support.socks_proxy import socks5
from tests.unit.pipeline.smtp_stub import Mailer, mailing


async def test_a_proxy_is_given_the_checked_address_itself() -> None:
    seen: list[tuple[str, int]] = []
    async with mailing(Mailer(), host="127.0.0.5") as port, socks5(seen) as proxy:
        source = parse_source(f"socks5://me:secret@127.0.0.1:{proxy}", helo_name="p.test")
        link = await dial("127.0.0.5", port, source, within=5)
        assert (await link.reply(5)).code == 220
        link.close()
    assert seen == [("127.0.0.5", port)]


async def test_what_the_proxy_cannot_reach_is_unreached() -> None:
    async with socks5([], refuse=True) as proxy:
        source = parse_source(f"socks5://me:secret@127.0.0.1:{proxy}", helo_name="p.test")
        with pytest.raises(SessionError) as caught:
            await dial("127.0.0.5", 25, source, within=5)
    assert caught.value.ending is Ending.UNREACHED


async def test_a_link_that_is_lost_says_so_at_every_reply() -> None:
    async with mailing(Mailer(banner="554 no")) as port:
        link = await dial("127.0.0.1", port, parse_source("", helo_name="p.test"), within=5)
        assert (await link.reply(5)).code == 554
        for _ in range(2):
            with pytest.raises(SessionError) as caught:
                await link.reply(5)
            assert caught.value.ending is Ending.DROPPED
        link.send(b"QUIT\r\n")
        link.close()
