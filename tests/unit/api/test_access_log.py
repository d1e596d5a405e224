from __future__ import annotations

import asyncio
from types import SimpleNamespace

from mailsift.api.http.middleware import LinesOfATurn


async def test_what_is_told_in_one_turn_of_the_loop_is_written_at_once() -> None:
    written: list[str] = []
    lines = LinesOfATurn(SimpleNamespace(info=written.append, disabled=False))
    assert not lines.disabled  # structlog asks the standard library's loggers
    for turn in (("a", "b"), ("c",), "0123456789abcdefgh"):
        for line in turn:
            lines.info(line)
        await asyncio.sleep(0)
    assert written == ["a\nb", "c", "\n".join("0123456789abcdef"), "g\nh"]
