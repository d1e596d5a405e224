"""One session with a server on loopback."""

from __future__ import annotations

import ssl
from typing import Any

from mailsift.pipeline.probe.config import ProbeConfig, parse_source
from mailsift.pipeline.probe.session import DomainRecipients, Peer, PickWitness, ProbeSession, SessionLog
from mailsift.pipeline.replies.classifier import SmtpReply
from mailsift.pipeline.throttle import Allowance


def refused(_probe: str, reply: SmtpReply) -> bool:
    return reply.code >= 500


async def talk(
    port: int,
    *groups: DomainRecipients,
    within: float = 5.0,
    tls: ssl.SSLContext | None = None,
    separate: bool = False,
    singly: bool = False,
    pick_witness: PickWitness | None = None,
    allowance: Allowance | None = None,
    until: float = float("inf"),
    **settings: Any,
) -> SessionLog:
    config = ProbeConfig(helo_name="probe.test", port=port, **settings)
    source = parse_source("", helo_name="probe.test")
    session = ProbeSession(
        config,
        Peer("mx.test", "127.0.0.1"),
        source,
        tls=tls,
        is_worth_asking=refused,
        singly=singly,
        pick_witness=pick_witness,
        allowance=allowance,
        until=until,
    )
    return await session.run([[group] for group in groups] if separate else [groups], within=within)


def codes(log: SessionLog) -> dict[str, int]:
    return {address: answer.reply.code for address, answer in log.answers.items()}
