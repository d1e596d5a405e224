"""A plan looks up who runs the mail of a list's domains, and which answers are still remembered."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mailsift.container import Container
from mailsift.jobs.views import AccountId, JobOptions
from mailsift.pipeline.facts import Answer, CacheEntry, FactKind, MailboxFact, Mode
from mailsift.pipeline.probe.cache import mailbox_key, pack_mailbox
from mailsift.storage.redis.facts import RedisFactCache

ADDRESSES = [f"user{n}@gateway-later.sandbox.test" for n in range(120)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "list.txt"
    path.write_text("\n".join([*ADDRESSES, "a@gone.sandbox.test"]))
    return path


async def probes(
    container: Container, account: AccountId, source: Path, *, max_age: float = 3_600.0
) -> dict[str, int]:
    options = JobOptions(mode=Mode.DEEP, max_age=max_age)
    plan = await container.plans.plan_file(account, source, options, deadline_s=math.inf)
    return dict(plan.probes)


async def test_who_runs_the_mail_of_a_domain_is_looked_up(container: Container, source: Path) -> None:
    await container.domains.lookup(
        ["ordinary.sandbox.test"]
    )  # a plan waits little for the resolver's canaries
    account = await container.jobs.account("tests")
    assert await probes(container, account, source) == {"proofpoint": 120}


async def test_what_the_account_is_still_told_is_not_planned(container: Container, source: Path) -> None:
    account, other = [await container.jobs.account(name) for name in ("tests", "others")]
    await container.domains.lookup(["gateway-later.sandbox.test", "gone.sandbox.test"])
    now = container.clock()
    refused = MailboxFact(
        Answer.NOT_FOUND, 550, host="mx0a-later.pphosted.com", asked_at=now - 600, expires_at=now + 600
    )
    entries = [
        CacheEntry(mailbox_key(address, str(account)), pack_mailbox(refused), 600.0)
        for address in ADDRESSES[:60]
    ]
    await RedisFactCache(container.redis).put(FactKind.MAILBOX, entries)
    assert await probes(container, account, source) == {"proofpoint": 60}
    assert await probes(container, account, source, max_age=300.0) == {"proofpoint": 120}
    assert await probes(container, other, source) == {"proofpoint": 120}
