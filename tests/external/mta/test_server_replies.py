"""The very words of real servers: what they said when this was written, and what `classify` makes of them."""

from __future__ import annotations

from operator import attrgetter

import pytest

from mailsift.pipeline.probe.config import ProbeConfig, parse_source
from mailsift.pipeline.probe.session import DomainRecipients, Peer, ProbeSession
from mailsift.pipeline.replies.classifier import SmtpReply, classify
from tests.external.mta.server_words import EXIM, OPENSMTPD, POSTFIX, Case
from tests.external.mta.validation import World


@pytest.mark.parametrize("case", POSTFIX, ids=attrgetter("name"))
async def test_the_words_of_postfix(postfix_world: World, case: Case) -> None:
    await _check(postfix_world, case)


@pytest.mark.parametrize("case", EXIM, ids=attrgetter("name"))
async def test_the_words_of_exim(exim_world: World, case: Case) -> None:
    await _check(exim_world, case)


@pytest.mark.parametrize("case", OPENSMTPD, ids=attrgetter("name"))
async def test_the_words_of_opensmtpd(opensmtpd_world: World, case: Case) -> None:
    await _check(opensmtpd_world, case)


async def _check(world: World, case: Case) -> None:
    reply = await _reply(world, case)
    (box,) = case.site.boxes(case.box)
    text = f"{reply.enhanced} {reply.text}".strip()
    assert (reply.stage, reply.code, text) == (case.stage, case.code, case.text.format(box=box))
    # A prober behind an address translation does not know its own address.
    readings = [classify(reply, own=own) for own in ((), (case.source, case.helo))]
    assert [reading.answer for reading in readings] == [case.answer, case.answer], (reply, readings)


async def _reply(world: World, case: Case) -> SmtpReply:
    """Ask for one recipient, in the clear, and return the reply that decides about it."""
    config = ProbeConfig(helo_name=case.helo, port=world.port)
    session = ProbeSession(
        config,
        Peer(f"mx.{case.site.domain}", case.site.address),
        parse_source(case.source, helo_name=case.helo),
        tls=None,
        is_worth_asking=lambda _probe, _reply: True,
        singly=False,
    )
    boxes = case.site.boxes(*case.after, case.box)
    log = await session.run([[DomainRecipients(case.site.domain, "", tuple(boxes))]], within=10)
    answer = log.answers.get(boxes[-1])
    reply = answer.reply if answer else log.refusal
    assert reply is not None, log
    return reply
