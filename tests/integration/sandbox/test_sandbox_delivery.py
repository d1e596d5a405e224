"""The sandbox is sent to: messages arrive, are put off, come back later, are complained about."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes

from mailsift.sandbox.delivery import Destiny, destiny
from mailsift.sandbox.population import Mailbox
from mailsift.sandbox.server import Sandbox
from tests.support.sandbox_sender import SandboxSender

ACCEPTS_ALL = "gateway-later.sandbox.test"


def people(sandbox: Sandbox, what: Destiny, count: int) -> list[str]:
    """Return addresses of mailboxes that exist, whose messages come to this."""
    world, found = sandbox.world, []
    for number in range(10_000):
        local = f"anna{number}"
        exists = world.mailbox(local, "gmail.com") is Mailbox.EXISTS
        if exists and destiny(world, local, "gmail.com") is what:
            found.append(f"{local}@gmail.com")
    return found[:count]


async def test_every_destiny_is_seen_by_who_sends(sandbox: Sandbox) -> None:
    sender = SandboxSender(sandbox.world, smtp_port=sandbox.smtp_port, now=lambda: 1e9, retry_s=0)
    by_destiny = {what: people(sandbox, what, 2) for what in Destiny}
    wrong = [
        "nobody@gmail.com",
        "known@nxdomain.sandbox.test",
        f"nobody@{ACCEPTS_ALL}",
        "known@refused.sandbox.test",
    ]
    campaign = await sender.send([*(one for some in by_destiny.values() for one in some), *wrong])

    replies: dict[str, list[str]] = {}
    for event in campaign.events:
        replies.setdefault(event["email"], []).append(event["event"])
    for what, addresses in by_destiny.items():
        expected = ["deferred", "delivered"] if what is Destiny.SECOND_TRY else ["delivered"]
        assert [replies[one] for one in addresses] == [expected] * 2, what
    assert replies["nobody@gmail.com"] == replies["known@nxdomain.sandbox.test"] == ["bounced"]
    assert replies["known@refused.sandbox.test"] == ["deferred", "deferred", "bounced"]
    assert replies[f"nobody@{ACCEPTS_ALL}"] == ["delivered"]

    await sender.send([(far := next(one for one in _unicode() if _returns(sandbox, one)))])
    last = sandbox.deliveries.collect()
    assert [_recipient(report.decode()) for report in last[-1:]] == [far]
    reports = [message_from_bytes(report) for report in last[:-1]]
    found = sorted((report.get_param("report-type"), _recipient(report.as_string())) for report in reports)
    status = [f"nobody@{ACCEPTS_ALL}", *by_destiny[Destiny.RETURNS], *by_destiny[Destiny.LATE]]
    complaints = by_destiny[Destiny.COMPLAINT]
    assert found == sorted(
        [("delivery-status", one) for one in status] + [("feedback-report", one) for one in complaints]
    )
    assert sandbox.deliveries.collect() == []


def _unicode() -> Iterator[str]:
    return (f"renée+{number}@gmail.com" for number in range(10_000))


def _returns(sandbox: Sandbox, address: str) -> bool:
    local, _, name = address.partition("@")
    return destiny(sandbox.world, local, name) is Destiny.RETURNS


def _recipient(report: str) -> str:
    line = next(line for line in report.splitlines() if "-Recipient:" in line or "-Rcpt-To:" in line)
    return line.rpartition(" ")[2]
